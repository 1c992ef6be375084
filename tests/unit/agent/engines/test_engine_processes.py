import os
import signal

import pytest

from jupyter_dist.agent.engines import engine_processes as engines_module
from jupyter_dist.agent.engines.engine_processes import EngineTable
from jupyter_dist.agent.engines.exit_evidence import Ended
from jupyter_dist.agent.engines.process_state import ProcessState
from jupyter_dist.model.ranks.records import CellRecord


@pytest.fixture
def table(tmp_path, monkeypatch):
    """This process as engine 3 of a host whose clock and page faults the test tells."""
    table = EngineTable(tmp_path, tmp_path)
    table.add("3", os.getpid())
    table.now_s, table.faults, table.cpu_s, table.rss_bytes = 100.0, 50, 7.0, 1 << 20
    monkeypatch.setattr(engines_module.time, "monotonic", lambda: table.now_s)

    def read_state(_):
        return ProcessState("D", table.faults, table.cpu_s, table.rss_bytes)

    monkeypatch.setattr(engines_module, "read_state", read_state)
    yield table
    table.evidence.close()


def test_what_a_process_waits_for_and_its_page_faults_are_sampled(table):
    (first,) = table.sample({})
    table.now_s, table.faults, table.cpu_s = 100.5, 80, 7.75
    (second,) = table.sample({})
    assert (first.engine, first.state, first.major_faults_per_s) == ("3", "D", 0)
    assert second.major_faults_per_s == 60
    assert (first.cpu_percent, second.cpu_percent) == (0, 150)
    assert second.rss_bytes == 1 << 20
    table.now_s = 101.0
    assert [sample.major_faults_per_s for sample in table.sample({})] == [0], "since the last look"


def test_a_process_that_has_ended_is_not_sampled(table):
    table.rss_bytes = 0  # as of a zombie, or where nothing can be read
    assert table.sample({}) == []


def test_it_is_counted_how_long_a_rank_lacks_a_core_once_it_is_interrupted(table, monkeypatch):
    lacks_s, rested = 0.5, []

    class Watch:
        lacked_s = 0.0

        def __init__(self, pid):
            assert pid == os.getpid()

        def look(self):
            self.lacked_s += lacks_s
            return self.lacked_s

        def rest(self):
            rested.append(self.lacked_s)

    def core_wait_s():
        return table.sample({})[0].core_wait_s

    cell = CellRecord("In[1]", 5)
    monkeypatch.setattr(engines_module, "CoreWatch", Watch)
    monkeypatch.setattr(engines_module, "read_last_cell", lambda _: cell)
    for name in ("os.kill", "signal_main_thread"):
        monkeypatch.setattr(f"{engines_module.__name__}.{name}", lambda *_: None)
    assert table.send_signal(["3"], signal.SIGURG) == ["3"]
    assert core_wait_s() == 0.0, "it was not interrupted"
    assert table.send_signal(["3", "9"], signal.SIGINT) == ["3"]
    assert [core_wait_s(), core_wait_s()] == [1.0, 1.5]
    cell = CellRecord("In[1]", 5, 9)
    assert (core_wait_s(), rested) == (2.0, []), "what it tells of it waits for a core too"
    lacks_s = 0.0
    assert [core_wait_s(), core_wait_s()] == [2.0, 2.0]
    assert rested == [2.0]


def test_what_a_process_uses_on_gpus_is_told_with_it(table):
    (sample,) = table.sample({os.getpid(): 5 * 10**9, os.getppid(): 7})
    assert sample.gpu_memory_bytes == 5 * 10**9
    (sample,) = table.sample({os.getppid(): 7})
    assert sample.gpu_memory_bytes == 0, "unknown"


def test_an_end_carries_what_was_written_last_and_what_is_known(table, tmp_path):
    (tmp_path / "rank-3.stderr").write_bytes(b"went wrong")
    table.sample({})
    table.remove("3")
    event = table.exit_event("3", Ended(os.getpid(), signal=signal.SIGSEGV))
    assert (event.engine, event.pid, event.signal) == ("3", os.getpid(), signal.SIGSEGV)
    assert event.stderr_tail == b"went wrong"
    assert event.evidence.memory[0].rss_bytes > 0
    assert event.evidence.memory_available_bytes > 0
    assert not table.exit_event("9", Ended(exit_code=1)).evidence.memory, "nobody saw it begin"
