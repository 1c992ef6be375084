import os
import threading
import time

import pytest

from jupyter_dist.control.thread_name import name_own_thread
from jupyter_dist.launch.processes.core_wait import (
    CoreTime,
    all_waited_s,
    main_core_time,
    ready_threads,
    thread_core_time,
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
def test_threads_that_could_run_are_found_by_name():
    is_over = threading.Event()

    def work(name, spin):
        name_own_thread(name)
        numbers[name] = threading.get_native_id()
        while spin and not is_over.is_set():
            sum(range(1000))
        is_over.wait()

    numbers = {}
    plan = [("own (odd) R", True), ("own rests", False), ("other", True)]
    threads = [threading.Thread(target=work, args=each) for each in plan]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(numbers) == len(plan), 10, "all have their names")
        wait_until(
            lambda: set(ready_threads(os.getpid(), "own")) == {numbers["own (odd) R"]},
            10,
            "only the one that spins could run",
        )
        seen = ready_threads(os.getpid(), "own", "other")[numbers["own (odd) R"]]
        assert 0 < seen.had_s <= thread_core_time(os.getpid(), numbers["own (odd) R"]).had_s
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert ready_threads((1 << 31) - 1, "own") == {}
