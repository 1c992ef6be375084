import pytest

from jupyter_dist.agent.engines import starvation
from jupyter_dist.agent.engines.starvation import LEAST_TIME_S, ReadyEngines
from jupyter_dist.launch.processes.core_wait import Threads


@pytest.fixture
def host(monkeypatch):
    """Processes that the test tells: what their threads have had, and whether one could run."""

    class Host:
        now_s = 50.0

        def __init__(self):
            self.threads = {100: Threads(1.0, True), 101: Threads(1.0, False)}

        def sleep(self, seconds):
            self.now_s += seconds

    fake = Host()
    monkeypatch.setattr(starvation.time, "monotonic", lambda: fake.now_s)
    monkeypatch.setattr(starvation.time, "sleep", fake.sleep)
    monkeypatch.setattr(starvation, "look_at_threads", lambda pid, *_: fake.threads[pid])
    return fake


@pytest.mark.parametrize(
    ("had_s", "can_run", "starved"),
    [(0.0, True, {"0"}), (0.09, True, {"0"}), (0.11, True, set()), (0.0, False, set())],
    ids=["waits", "has had little", "runs", "has had what it wanted"],
)
def test_who_could_run_and_has_had_no_core_since_is_starved(host, had_s, can_run, starved):
    ready = ReadyEngines({"0": 100, "1": 101})
    host.now_s += 1.0
    host.threads = {100: Threads(1.0 + had_s, can_run), 101: Threads(1.0, True)}
    assert ready.find_starved() == starved


def test_without_a_thread_that_could_run_nothing_is_waited_for(host):
    begun_s = host.now_s
    assert ReadyEngines({"1": 101}).find_starved() == set()
    assert host.now_s == begun_s


def test_threads_have_time_to_run_before_they_are_called_starved(host):
    ready, begun_s = ReadyEngines({"0": 100}), host.now_s
    assert ready.find_starved() == {"0"}
    assert host.now_s == begun_s + LEAST_TIME_S
