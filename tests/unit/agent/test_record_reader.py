import os
import threading

import msgspec
import pytest

from jupyter_dist.agent.engines import EngineTable
from jupyter_dist.agent.record_reader import PIECE_BYTES, RecordReader
from jupyter_dist.collective.call import Call, Signature
from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.model.records import HostRecords
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


def record(folder, rank, calls, site_bytes=0):
    recorder = CollectiveRecorder(folder / f"rank-{rank}.collectives")
    for number in range(calls):
        recorder.end(recorder.begin(Call(Signature("all_reduce", "<f4", "x" * site_bytes), number)))
    recorder.close()


def test_the_records_of_every_rank_come_with_the_clocks_of_the_host(engines, ask, tmp_path):
    for rank in (2, 3):
        record(tmp_path, rank, calls=rank)
        engines.add(str(rank), os.getpid())
    records = decode(ask())
    assert records.host == "a"
    assert [(each.rank, len(each.calls)) for each in records.ranks] == [(2, 2), (3, 3)]
    assert 0 < records.ranks[0].calls[0].end_ns <= records.monotonic_ns < records.time_ns


def test_only_so_many_calls_are_read_as_were_asked_for(engines, ask, tmp_path):
    record(tmp_path, 0, calls=9)
    engines.add("0", os.getpid())
    (rank,) = decode(ask(last=2)).ranks
    assert ([call.sequence for call in rank.calls], rank.left_out) == ([7, 8], 7)


def test_a_rank_that_has_ended_is_read_as_well_and_told_apart(engines, ask, tmp_path):
    for rank in (0, 1):
        record(tmp_path, rank, calls=1)
        engines.add(str(rank), os.getpid())
    engines.remove("1")
    ranks = decode(ask()).ranks
    assert [(each.has_ended, len(each.calls)) for each in ranks] == [(False, 1), (True, 1)]


def test_a_rank_without_a_file_is_told_with_the_reason(engines, ask):
    engines.add("0", os.getpid())
    (rank,) = decode(ask()).ranks
    assert (rank.calls, rank.problem) == ((), "No such file or directory")


def test_much_is_told_in_pieces_that_grpc_takes(engines, ask, tmp_path):
    for rank in range(10):
        record(tmp_path, rank, calls=2048, site_bytes=64)
        engines.add(str(rank), os.getpid())
    pieces = ask()
    assert len(pieces) > 1
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert max(len(piece.data) for piece in pieces) <= PIECE_BYTES
    assert {piece.request_id for piece in pieces} == {"r1"}
    assert len(decode(pieces).ranks) == 10
