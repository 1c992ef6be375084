import pytest

from jupyter_dist.agent.engines import starvation
from jupyter_dist.agent.engines.process_state import ThreadState
from jupyter_dist.agent.engines.starvation import LEAST_TIME_S, ReadyEngines, lacks_core
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


# --- one process that is to be looked at ---


@pytest.fixture
def threads(monkeypatch):
    """Threads of one process, each a list of what is seen of it in turn; the last one stays."""
    seen = {}
    now_s = [50.0]
    monkeypatch.setattr(starvation.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(starvation.time, "sleep", lambda s: now_s.__setitem__(0, now_s[0] + s))
    monkeypatch.setattr(starvation, "list_threads", lambda _: list(seen))

    def look(_pid, thread):
        looks = seen[thread]
        return ThreadState(*(looks.pop(0) if len(looks) > 1 else looks[0]))

    monkeypatch.setattr(starvation, "read_thread", look)
    return seen


@pytest.mark.parametrize(
    ("looks", "lacks"),
    [
        ([("R", 5, 1.0)], True),
        ([("R", 5, 1.0), ("R", 5, 1.001), ("R", 5, 1.019)], True),
        ([("R", 5, 1.0), ("R", 5, 1.001), ("R", 5, 1.021)], False),
        ([("R", 5, 1.0)] * 5 + [("R", 6, 1.0)], False),
        ([("R", 5, 1.0), ("S", 5, 1.0)], False),
        ([("S", 5, 1.0), ("R", 5, 1.0)], False),
        ([("R", 5, 0.0)], False),
        ([("R", 5, 1.0), ("", 0, 0.0)], False),
    ],
    ids=[
        "waits",
        "gets little",
        "gets enough",
        "slept",
        "sleeps",
        "slept first",
        "no sums",
        "ends",
    ],
)
def test_a_process_lacks_a_core_while_a_thread_wants_one_and_hardly_gets_it(threads, looks, lacks):
    threads.update({1: [("S", 9, 2.0)], 2: looks})
    assert lacks_core(100) == lacks
