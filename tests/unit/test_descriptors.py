"""Interrupts that wait until what was opened has an owner."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from jupyter_dist.descriptors import Descriptor, defer_interrupts


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def go_on_interrupted(done):
    with defer_interrupts():
        interrupt()
        done.append("inner")


def go_on_around(done):
    with defer_interrupts():
        go_on_interrupted(done)
        done.append("outer")


def fail_interrupted():
    with defer_interrupts():
        interrupt()
        raise OSError("no memory")


@pytest.mark.parametrize(
    ("go_on", "all_done"), [(go_on_interrupted, ["inner"]), (go_on_around, ["inner", "outer"])]
)
def test_an_interrupt_comes_when_the_outermost_block_has_ended(go_on, all_done):
    done = []
    with pytest.raises(KeyboardInterrupt):
        go_on(done)
    assert done == all_done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_fails_in_the_block_is_known_beside_the_interrupt():
    with pytest.raises(KeyboardInterrupt) as raised:
        fail_interrupted()
    assert isinstance(raised.value.__context__, OSError)


def test_a_handler_of_the_user_hears_of_it_then(request):
    heard = []
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    with defer_interrupts():
        interrupt()
        assert heard == []
    assert heard == [signal.SIGINT]


def test_an_ignored_interrupt_stays_ignored(request):
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with defer_interrupts():
        interrupt()


def test_other_threads_leave_the_handlers_alone():
    def look():
        with defer_interrupts():
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(look).result() is signal.getsignal(signal.SIGINT)
    assert threading.current_thread() is threading.main_thread()


def is_open(number):
    return os.path.exists(f"/proc/self/fd/{number}")


def test_a_file_is_closed_once_with_its_owner(tmp_path):
    with Descriptor(partial(os.open, tmp_path, os.O_RDONLY)) as file:
        assert is_open(file.number)
    assert not is_open(file.number)
    file.close()


def test_a_file_that_nothing_refers_to_is_closed(tmp_path):
    file = Descriptor(partial(os.open, tmp_path, os.O_RDONLY))
    number = file.number
    del file
    assert not is_open(number)


def test_a_file_is_closed_where_an_interrupt_comes_as_it_is_opened(tmp_path):
    numbers = []

    def open_interrupted():
        numbers.append(os.open(tmp_path, os.O_RDONLY))
        interrupt()
        return numbers[0]

    with pytest.raises(KeyboardInterrupt):
        Descriptor(open_interrupted)
    assert not is_open(numbers[0])


def test_what_keeps_a_file_from_being_opened_is_raised(tmp_path):
    with pytest.raises(FileNotFoundError):
        Descriptor(partial(os.open, tmp_path / "none", os.O_RDONLY))
