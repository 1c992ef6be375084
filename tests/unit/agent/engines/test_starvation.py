import pytest

from jupyter_dist.agent.engines import starvation
from jupyter_dist.agent.engines.starvation import LEAST_TIME_S, ReadyThreads
from jupyter_dist.launch.processes.core_wait import CoreTime

PIDS = {"0": 100, "1": 101, "2": 102}


@pytest.fixture
def host(monkeypatch):
    """Threads of processes that the test tells: what each has had, and whether it could run."""

    class Host:
        def __init__(self):
            self.now_s = 50.0
            self.ready = {100: {7: 1.0}, 101: {8: 1.0}, 102: {}}
            self.had = {7: 1.0, 8: 1.0}

        def sleep(self, seconds):
            self.now_s += seconds

    fake = Host()
    monkeypatch.setattr(starvation.time, "monotonic", lambda: fake.now_s)
    monkeypatch.setattr(starvation.time, "sleep", fake.sleep)
    monkeypatch.setattr(
        starvation,
        "ready_threads",
        lambda pid, *_: {thread: CoreTime(had_s) for thread, had_s in fake.ready[pid].items()},
    )
    monkeypatch.setattr(
        starvation, "thread_core_time", lambda _, thread: CoreTime(fake.had[thread])
    )
    return fake


def test_who_could_run_and_had_no_core_since_is_starved(host):
    ready = ReadyThreads(PIDS, ["0", "1", "2", "gone"])
    host.now_s += 1.0
    host.had[8] += 0.2
    assert ready.find_starved() == {"0"}


def test_only_silent_engines_are_looked_at(host):
    assert ReadyThreads(PIDS, ["1"]).find_starved() == {"1"}
    begun_s = host.now_s
    assert ReadyThreads(PIDS, []).find_starved() == set()
    assert host.now_s == begun_s, "it waits for nothing"


def test_a_thread_has_time_to_run_before_it_is_called_starved(host):
    ready, begun_s = ReadyThreads(PIDS, ["0"]), host.now_s
    ready.find_starved()
    assert host.now_s == begun_s + LEAST_TIME_S
