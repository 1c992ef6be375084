import os
import queue
import threading
import time

import pytest

from jupyter_dist.control.thread_name import name_own_thread
from jupyter_dist.launch.processes.core_wait import (
    CoreTime,
    Threads,
    all_waited_s,
    look_at_threads,
    main_core_time,
)
from tests.patience import wait_until


def test_a_process_that_is_gone_waits_for_nothing():
    assert main_core_time((1 << 31) - 1) == CoreTime()
    assert all_waited_s((1 << 31) - 1) == 0.0


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="Linux does not tell here")
def test_threads_that_share_a_core_wait_for_it():
    core, before_s = os.sched_getaffinity(0), all_waited_s(os.getpid())
    until_s = time.monotonic() + 0.3

    def work():
        os.sched_setaffinity(threading.get_native_id(), {min(core)})
        while time.monotonic() < until_s:
            sum(range(1000))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    waited_s = before_s
    while any(thread.is_alive() for thread in threads):
        waited_s = max(waited_s, all_waited_s(os.getpid()))  # of those that live
        time.sleep(0.01)
    assert waited_s > before_s
    main = main_core_time(os.getpid())
    assert main.had_s > 0
    assert main.waited_s <= all_waited_s(os.getpid())


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="Linux does not tell here")
def test_threads_are_looked_at_by_their_names():
    names, is_over = queue.Queue(), threading.Event()

    def work(name, spin):
        name_own_thread(name)
        names.put(name)
        while spin and not is_over.is_set():
            sum(range(1000))
        is_over.wait()

    plan = [("own (odd) R", True), ("rests", False)]
    threads = [threading.Thread(target=work, args=each) for each in plan]
    for thread in threads:
        thread.start()
    try:
        assert {names.get(timeout=10) for _ in plan} == {name for name, _ in plan}
        wait_until(lambda: look_at_threads(os.getpid(), "own").can_run, 10, "it spins")
        wait_until(lambda: not look_at_threads(os.getpid(), "rests").can_run, 10, "it rests")
        own = look_at_threads(os.getpid(), "own")
        assert 0 < own.had_s < look_at_threads(os.getpid()).had_s
        assert look_at_threads(os.getpid(), "others", "own").had_s >= own.had_s
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_of_a_process_that_is_gone_no_threads_are_seen():
    assert look_at_threads((1 << 31) - 1) == Threads(0.0, False)
