import os
import signal

import pytest

from jupyter_dist.agent.engines import EngineTable
from jupyter_dist.agent.evidence import Ended


@pytest.fixture
def engines(tmp_path):
    table = EngineTable(tmp_path, tmp_path)
    yield table
    table.evidence.close()


def test_an_end_carries_what_was_written_last_and_what_is_known(engines, tmp_path):
    (tmp_path / "rank-3.1.stderr").write_bytes(b"went wrong")
    engines.add("3.1", os.getpid())
    assert [sample.engine for sample in engines.sample({})] == ["3.1"]
    engines.remove("3.1")
    event = engines.exit_event("3.1", Ended(os.getpid(), signal=signal.SIGSEGV))
    assert (event.engine, event.pid, event.signal) == ("3.1", os.getpid(), signal.SIGSEGV)
    assert event.stderr_tail == b"went wrong"
    assert event.evidence.memory[0].rss_bytes > 0
    assert event.evidence.memory_available_bytes > 0


def test_an_end_that_nobody_has_seen_begin_carries_no_evidence(engines):
    event = engines.exit_event("9", Ended(exit_code=1))
    assert not event.evidence.memory
