import errno
import os
import threading

import msgspec
import pytest

from jupyter_dist.agent.engines.engine_processes import EngineTable
from jupyter_dist.agent.engines.record_reader import PIECE_BYTES, RecordReader
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.model.ranks.records import HostRecords
from jupyter_dist.protocol import host_agent_pb2 as pb


@pytest.fixture
def engines(tmp_path):
    return EngineTable(tmp_path, tmp_path)


@pytest.fixture
def ask(engines):
    """Ask for records; gives the pieces of the answer."""

    def read(last=0):
        pieces, is_over = [], threading.Event()

        def tell(event):
            pieces.append(event.records)
            if event.records.is_last:
                is_over.set()

        RecordReader(engines, tell).obey("a", pb.ReadRecords(request_id="r1", last=last))
        assert is_over.wait(10)
        return pieces

    return read


def decode(pieces):
    return msgspec.msgpack.decode(b"".join(piece.data for piece in pieces), type=HostRecords)


@pytest.fixture
def record(engines, tmp_path):
    """Let a rank live that has recorded so many calls."""

    def record(rank, calls, site_bytes=0):
        recorder = CollectiveRecorder(tmp_path / f"rank-{rank}.collectives")
        for number in range(calls):
            call = Call(Signature("all_reduce", "<f4", "x" * site_bytes), number)
            recorder.end(recorder.begin(call))
        recorder.close()
        engines.add(str(rank), os.getpid())

    return record


def test_the_records_of_every_rank_come_with_the_clocks_of_the_host(ask, record):
    for rank in (2, 3):
        record(rank, calls=rank)
    records = decode(ask())
    assert records.host == "a"
    assert [(each.rank, len(each.calls)) for each in records.ranks] == [(2, 2), (3, 3)]
    assert 0 < records.ranks[0].calls[0].end_ns <= records.monotonic_ns < records.time_ns


def test_only_so_many_calls_are_read_as_were_asked_for(ask, record):
    record(0, calls=9)
    (rank,) = decode(ask(last=2)).ranks
    assert ([call.sequence for call in rank.calls], rank.left_out) == ([7, 8], 7)


def test_a_rank_that_has_ended_is_read_as_well_and_told_apart(engines, ask, record):
    for rank in (0, 1):
        record(rank, calls=1)
    engines.remove("1")
    ranks = decode(ask()).ranks
    assert [(each.has_ended, len(each.calls)) for each in ranks] == [(False, 1), (True, 1)]


def test_a_rank_without_a_file_is_told_with_the_reason(engines, ask):
    engines.add("0", os.getpid())
    (rank,) = decode(ask()).ranks
    assert (rank.calls, rank.problem) == ((), os.strerror(errno.ENOENT))


def test_much_is_told_in_pieces_that_grpc_takes(ask, record):
    for rank in range(10):
        record(rank, calls=2048, site_bytes=64)
    pieces = ask()
    assert len(pieces) > 1
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert max(len(piece.data) for piece in pieces) <= PIECE_BYTES
    assert {piece.request_id for piece in pieces} == {"r1"}
    assert len(decode(pieces).ranks) == 10
