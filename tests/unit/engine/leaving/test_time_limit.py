import _thread
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from jupyter_dist.engine.leaving.time_limit import OutOfTime, TimeLimit
from tests.patience import within


def test_code_that_ends_in_time_is_left_alone():
    before = signal.getsignal(signal.SIGINT)
    with TimeLimit(60.0):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_code_that_takes_too_long_is_ended():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(OutOfTime), TimeLimit(0.05):
        threading.Event().wait(60)
    assert signal.getsignal(signal.SIGINT) == before


def test_a_limit_that_ends_just_before_a_system_call_ends_that_too(monkeypatch):
    send = signal.pthread_kill

    def send_early(thread, number):
        """Have SIGINT known to Python only: the system call has not begun when it comes."""
        _thread.interrupt_main() if number == signal.SIGINT else send(thread, number)

    monkeypatch.setattr(signal, "pthread_kill", send_early)
    before = signal.signal(signal.SIGURG, lambda *_: None)
    try:
        with within(5), pytest.raises(OutOfTime), TimeLimit(0.05):
            time.sleep(60)
    finally:
        signal.signal(signal.SIGURG, before)


def test_an_interrupt_by_a_person_is_one():
    with pytest.raises(KeyboardInterrupt), TimeLimit(60.0):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_that_comes_at_the_end_hits_nothing_that_follows():
    for turn in range(200):
        try:
            with TimeLimit(0.0005):
                sum(range(50 * turn))
        except OutOfTime:
            continue


@pytest.mark.parametrize("leaves", ["another handler", "ours"])
def test_a_signal_that_the_code_takes_itself_is_not_waited_for(leaves):
    before = signal.getsignal(signal.SIGINT)
    taken = threading.Event()
    with within(3), TimeLimit(0.05):
        ours = signal.signal(signal.SIGINT, lambda *_: taken.set())
        while not taken.is_set():
            time.sleep(0.01)
        if leaves == "ours":
            signal.signal(signal.SIGINT, ours)
    assert signal.getsignal(signal.SIGINT) == before


def test_on_another_thread_there_is_no_limit():
    def work():
        with TimeLimit(0.0):
            return 1

    with ThreadPoolExecutor() as others:
        assert others.submit(work).result(10) == 1
