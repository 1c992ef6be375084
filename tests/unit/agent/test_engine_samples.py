import os

import pytest

from jupyter_dist.agent import engines as engines_module
from jupyter_dist.agent.engines import EngineTable
from jupyter_dist.agent.process_state import ProcessState


@pytest.fixture
def table(tmp_path, monkeypatch):
    """This process as engine 3 of a host whose clock and page faults the test tells."""
    table = EngineTable(tmp_path, tmp_path)
    table.add("3", os.getpid())
    table.now_s, table.faults = 100.0, 50
    monkeypatch.setattr(engines_module.time, "monotonic", lambda: table.now_s)
    monkeypatch.setattr(engines_module, "read_state", lambda _: ProcessState("D", table.faults))
    return table


def test_what_a_process_waits_for_and_its_page_faults_are_sampled(table):
    (first,) = table.sample({})
    table.now_s, table.faults = 100.5, 80
    (second,) = table.sample({})
    assert (first.engine, first.state, first.major_faults_per_s) == ("3", "D", 0)
    assert second.major_faults_per_s == 60


def test_faults_count_from_the_look_before(table):
    table.sample({})
    table.now_s, table.faults = 102.0, 60
    table.sample({})
    table.now_s = 103.0
    assert [sample.major_faults_per_s for sample in table.sample({})] == [0]


def test_what_a_process_uses_on_gpus_is_told_with_it(table):
    (sample,) = table.sample({os.getpid(): 5 * 10**9, os.getppid(): 7})
    assert sample.gpu_memory_bytes == 5 * 10**9
    (sample,) = table.sample({os.getppid(): 7})
    assert sample.gpu_memory_bytes == 0, "unknown"
