import pytest

from jupyter_dist.agent.engines import starvation
from jupyter_dist.agent.engines.process_state import ThreadState
from jupyter_dist.agent.engines.starvation import LEAST_TIME_S, CoreWatch, ReadyEngines, lacks_core
from jupyter_dist.launch.processes.core_wait import CoreTime, Threads


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
def process(monkeypatch):
    """A process whose clock and threads the test tells; `live` has each have time slices."""

    class Process:
        def __init__(self):
            self.now_s = 50.0
            self.threads = {7: ThreadState("S", CoreTime(2.0, 9.0, 30))}
            self.live = lambda: None

        def sleep(self, seconds):
            self.now_s += seconds
            self.live()

        def have(self, thread, letter, had_s=0.0, waited_s=0.0, slices=0):
            """Let it have had a core meanwhile, or have waited; this is what is seen of it now."""
            had = self.threads.get(thread, ThreadState("S", CoreTime(1.0, 5.0, 10))).core
            core = CoreTime(had.had_s + had_s, had.waited_s + waited_s, had.slices + slices)
            self.threads[thread] = ThreadState(letter, core)

    fake = Process()
    monkeypatch.setattr(starvation.time, "monotonic", lambda: fake.now_s)
    monkeypatch.setattr(starvation.time, "sleep", fake.sleep)
    monkeypatch.setattr(starvation, "list_threads", lambda pid: {100: fake.threads}.get(pid, []))
    monkeypatch.setattr(starvation, "read_thread", lambda _, thread: fake.threads[thread])
    return fake


@pytest.mark.parametrize(
    ("seen", "lacks"),
    [
        ({"letter": "R"}, True),
        ({"letter": "R", "had_s": 0.003, "waited_s": 0.197, "slices": 1}, True),
        ({"letter": "R", "had_s": 0.2}, False),
        ({"letter": "R", "had_s": 0.004, "waited_s": 0.16, "slices": 10}, False),
        ({"letter": "R", "had_s": 0.001, "waited_s": 0.1, "slices": 20}, False),
        ({"letter": "S"}, False),
    ],
    ids=["waits", "waits long", "runs", "shares a core", "waits shortly", "sleeps"],
)
def test_a_process_lacks_a_core_while_a_thread_waits_long_for_a_time_slice(process, seen, lacks):
    process.have(8, "R")
    process.live = lambda: process.have(8, **seen)
    assert lacks_core(100) == lacks


def test_a_process_whose_waits_linux_does_not_count_lacks_no_core(process):
    process.threads[8] = ThreadState("R")
    assert not lacks_core(100)
    assert not lacks_core(101), "it has ended"


def test_a_wait_counts_once_while_it_goes_on_and_when_it_is_over(process):
    watch = CoreWatch(100)
    process.have(8, "R")
    assert watch.look() == 0.0
    process.sleep(3.0)
    assert watch.look() == pytest.approx(3.0)
    process.sleep(1.0)
    process.have(8, "S", had_s=0.001, waited_s=4.0, slices=1)
    assert watch.look() == pytest.approx(4.0, abs=0.021)
    process.sleep(1.0)
    assert watch.look() == pytest.approx(4.0, abs=0.021), "it sleeps"


def test_threads_that_wait_side_by_side_count_as_one(process):
    watch = CoreWatch(100)
    for thread in (8, 9):
        process.have(thread, "R")
    watch.look()
    process.sleep(3.0)
    process.have(10, "R")
    assert watch.look() == pytest.approx(3.0), "one that has just begun does not count"


def test_nothing_counts_while_it_rests(process):
    watch = CoreWatch(100)
    process.have(8, "R")
    watch.look()
    process.sleep(1.0)
    watch.look()
    watch.rest()
    process.sleep(5.0)
    assert watch.look() == pytest.approx(1.0)
    process.sleep(1.0)
    assert watch.look() == pytest.approx(2.0)
