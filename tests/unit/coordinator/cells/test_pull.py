import pytest

from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.protocol.messages import (
    FetchedPiece,
    FetchObject,
    ObjectFetched,
    ObjectPulled,
    PulledPiece,
    PullObject,
    TransferMoved,
)


@pytest.fixture
def file():
    with MemoryFile.make() as file:
        yield file


def test_a_pull_gives_frames_in_rank_order_however_they_came(begin_pull, cluster):
    pull = begin_pull(PullObject("r1", "x", ranks=(0, 2, 3)))
    assert cluster.sender.sent_to_ranks(FetchObject)[2] == [FetchObject("r1", "x")]
    pull.on_answer(ObjectFetched(3, "r1"), [b"3a", b"3b"])
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    pull.on_answer(ObjectFetched(2, "r1", "no 'x'"), [])
    pull.tick(1.0)
    _, answer, frames = cluster.sender.clients[-1]
    assert answer == ObjectPulled("r1", (0, 3), (1, 2), {2: "no 'x'"})
    assert frames == [b"0", b"3a", b"3b"]


def test_ranks_that_share_memory_are_told_the_files_of_the_client(begin_pull, cluster):
    cluster.roster[2].shares_memory = True
    begin_pull(PullObject("r1", "x", (0, 2), files=("one", "two")))
    assert cluster.sender.sent_to_ranks(FetchObject) == {
        0: [FetchObject("r1", "x")],
        2: [FetchObject("r1", "x", "two")],
    }


def test_of_what_ranks_have_written_the_client_is_told_the_sizes(begin_pull, cluster):
    pull = begin_pull(PullObject("r1", "x", (0, 2)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"small"])
    pull.on_answer(ObjectFetched(2, "r1", sizes=(3, 5000)), [])
    pull.tick(0.1)
    _, answer, frames = cluster.sender.clients[-1]
    assert answer == ObjectPulled("r1", (0,), (1,), {}, {2: (3, 5000)})
    assert frames == [b"small"]


def test_pieces_are_written_where_the_client_has_them(begin_pull, cluster, file):
    pull = begin_pull(PullObject("r1", "x", (3,), files=(file.name,)))
    pull.on_answer(FetchedPiece(3, "r1", 64, 4), [b"wxyz"])
    pull.on_answer(FetchedPiece(3, "r1", 0, 3), [b"abc"])
    pull.on_answer(FetchedPiece(3, "another", 0, 3), [b"---"])
    pull.on_answer(ObjectFetched(3, "r1", sizes=(3, 4)), [])
    pull.tick(0.1)
    assert cluster.sender.told(ObjectPulled) == [ObjectPulled("r1", (), (), {}, {3: (3, 4)})]
    file.freeze()
    assert file.map((3, 4)) == [b"abc", b"wxyz"]


@pytest.mark.parametrize("files", [(), ("1/2/gone",), ("nonsense",)])
def test_pieces_go_on_to_a_client_that_shares_no_memory(begin_pull, cluster, files):
    pull = begin_pull(PullObject("r1", "x", (3,), files=files))
    pull.on_answer(FetchedPiece(3, "r1", 0, 3), [b"abc"])
    assert cluster.sender.clients == [(b"me", PulledPiece("r1", 3, 3), [b"abc"])]
    pull.on_answer(ObjectFetched(3, "r1", sizes=(3,)), [])
    pull.tick(1.0)
    assert cluster.sender.told(ObjectPulled) == [ObjectPulled("r1", (), (), {}, {3: (3,)})]


def test_a_rank_whose_pieces_cannot_be_kept_is_named(begin_pull, cluster, file):
    pull = begin_pull(PullObject("r1", "x", (3,), files=(file.name,)))
    file.freeze()
    pull.on_answer(FetchedPiece(3, "r1", 0, 3), [b"abc"])
    pull.on_answer(ObjectFetched(3, "r1", sizes=(3,)), [])
    pull.tick(0.1)
    (answer,) = cluster.sender.told(ObjectPulled)
    assert "not permitted" in answer.problems[3]


def test_a_pull_tells_what_has_come_and_that_the_rest_is_not_known(begin_pull, cluster):
    pull = begin_pull(PullObject("r1", "x"))
    pull.on_answer(ObjectFetched(0, "r1"), [b"12", b"345"])
    pull.on_answer(ObjectFetched(1, "r1", sizes=(1000,)), [])
    pull.on_answer(FetchedPiece(2, "r1", 0, 200), [bytes(100)])
    pull.tick(1.0)
    (moved,) = cluster.sender.told(TransferMoved)
    assert (moved.moved_bytes, moved.total_bytes) == (1105, 0)
    assert " 2 of 4 " in moved.where
