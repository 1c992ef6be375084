import signal
from itertools import count

import msgspec
import pytest

from jupyter_dist.coordinator.recovery.exit_reports import last_words, report_exit, report_loss
from jupyter_dist.model.ranks.records import CallRecord
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol import unreadable

STDERR = b"""earlier
this cell
Fatal Python error: Segmentation fault

Current thread 0x00007f02 (most recent call first):
  File "/dev/shm/jupyter-dist-7/In_3_0a1b2c3d.py", line 7 in <module>
"""


def test_an_exit_is_reported_with_everything_its_agent_knows(cluster):
    calls = (CallRecord(17, "all_reduce", 5),)
    evidence = pb.Evidence(
        memory_available_bytes=5,
        memory=[pb.MemorySample(age_s=0.5, rss_bytes=7)],
        calls=msgspec.msgpack.encode(calls),
        kernel=["said"],
        gpu_errors=["Xid"],
        address_limit_bytes=9,
    )
    exited = pb.EngineExited(
        engine="1", pid=4711, signal=signal.SIGSEGV, stderr_tail=STDERR, evidence=evidence
    )
    cluster.roster[1].offsets = (0, len("earlier\n"))
    cluster.roster[1].start_work("In[3]", 10.0)
    cluster.roster[1].offsets = (0, len(STDERR))
    report = report_exit(exited, cluster.roster[1], 64)
    assert (report.rank, report.host, report.pid, report.cell) == (1, "a", 4711, "In[3]")
    assert (report.line, report.stderr) == ("In[3]:7", ("this cell",))
    assert report.stacks[0] == "Fatal Python error: Segmentation fault"
    assert (report.calls, report.rss_history) == (calls, ((0.5, 7),))
    assert (report.memory_available_bytes, report.memory_total_bytes) == (5, 64)
    assert (report.kernel, report.gpu_errors, report.address_limit_bytes) == (
        ("said",),
        ("Xid",),
        9,
    )
    assert "SIGSEGV" in report.reason
    assert report.reason.endswith(" In[3]:7")


def test_an_idle_rank_ran_no_cell(cluster):
    report = report_exit(pb.EngineExited(engine="1", pid=4711, exit_code=3), cluster.roster[1], 0)
    assert (report.cell, report.exit_code) == ("", 3)
    assert report.reason.endswith(" 3")


def test_an_end_with_the_zygote_is_no_kill_of_its_own(cluster):
    cluster.roster[1].pid = 4711
    report = report_exit(pb.EngineExited(engine="1", signal=9), cluster.roster[1], 0)
    assert "(the zygote) is gone" in report.reason
    assert (report.pid, report.signal) == (4711, 0)


def test_a_process_that_never_began_has_not_exited(cluster):
    exited = pb.EngineExited(engine="1", exit_code=1, stderr_tail=b"no memory")
    report = report_exit(exited, cluster.roster[1], 0)
    assert report.reason.endswith(": no memory")
    assert last_words(exited, cluster.roster[1]) is None, "its host has said that, not the engine"


def test_a_loss_that_nobody_has_seen_has_its_reason_only(cluster):
    cluster.roster[1].start_work("In[3]", 10.0)
    report = report_loss(cluster.roster[1], "no heartbeat")
    assert (report.rank, report.reason, report.cell) == (1, "no heartbeat", "In[3]")


def words(cluster, *, offsets=(0, 0), **tails):
    cluster.roster[1].offsets = offsets
    found = last_words(pb.EngineExited(engine="1", pid=7, **tails), cluster.roster[1])
    return None if found is None else {out.kind: out.text for out in found.outputs}


@pytest.mark.parametrize(
    ("offsets", "tails", "found"),
    [
        ((6, 0), {"stdout_tail": b"hello world"}, {"stdout": "world"}),
        # A tail that begins before what has arrived is cut.
        ((102, 0), {"stdout_tail": b"abcdef", "stdout_offset": 100}, {"stdout": "cdef"}),
        ((5, 5), {"stdout_tail": b"hello", "stderr_tail": b"world"}, None),
        (
            (1, 2),
            {"stdout_tail": b"abc", "stderr_tail": b"xyz"},
            {"stdout": "bc", "stderr": "z"},
        ),
        ((0, 0), {"stderr_tail": b"\xff!"}, {"stderr": "\\xff!"}),
    ],
)
def test_only_what_has_not_arrived_yet_is_given(cluster, offsets, tails, found):
    assert words(cluster, offsets=offsets, **tails) == found


def test_a_tail_that_begins_after_what_arrived_is_given_whole_and_the_gap_is_told(cluster):
    found = words(cluster, offsets=(10, 0), stdout_tail=b"world", stdout_offset=50)
    assert found["stdout"].startswith("\n[40 bytes ")
    assert found["stdout"].endswith("]\nworld")


def test_evidence_that_cannot_be_read_costs_nobody_the_end_itself(cluster, capsys, monkeypatch):
    monkeypatch.setattr(unreadable, "_logged", count(1))  # others may have logged enough
    evidence = pb.Evidence(kernel=["said"], calls=b"\xc1 not MessagePack")
    exited = pb.EngineExited(engine="1", pid=4711, exit_code=3, evidence=evidence)
    report = report_exit(exited, cluster.roster[1], 0)
    assert (report.calls, report.kernel, report.exit_code) == ((), ("said",), 3)
    assert repr(evidence.calls) in capsys.readouterr().err
