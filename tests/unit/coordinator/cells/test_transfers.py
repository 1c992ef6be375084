import msgspec
import pytest
from msgspec.structs import replace

from jupyter_dist.coordinator.cells.transfers import (
    PLACED_FROM_BYTES,
    TELL_AFTER_S,
    Transfer,
    TransferWatch,
)
from jupyter_dist.coordinator.observation.rank_queries import Answers
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.model.transfer.pieces import PIECE_BYTES
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    FetchObject,
    ObjectFetched,
    ObjectPulled,
    ObjectsPushed,
    ObjectsStored,
    PulledPiece,
    PullObject,
    PushObjects,
    StoreObjects,
    TransferMoved,
)
from jupyter_dist.protocol.unreadable import Unreadable

BIG = bytes(PLACED_FROM_BYTES)
PUSH = PushObjects("r1", ("a",), (1,))


@pytest.fixture
def begin(cluster):
    def start(request, *buffers):
        transfer = Transfer(b"me", request, list(buffers), request.request_id, cluster.parts)
        transfer.start(0.0)
        return transfer

    return start


def place(push, cluster, *hosts):
    """Let agents of hosts tell that they have placed what was sent to them."""
    for host in hosts:
        placed = pb.Placed(request_id=cluster.sender.placed[0][1], path="/dev/shm/x")
        push.on_placed(host, placed)


def test_a_push_sends_the_same_frames_to_every_rank(begin, cluster):
    begin(PushObjects("r1", ("a", "b"), (1, 2)), b"1", b"2", b"3")
    store = StoreObjects("r1", ("a", "b"), (1, 2))
    assert cluster.sender.engines == [(rank, store, [b"1", b"2", b"3"]) for rank in range(4)]
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0, 1, 2, 3]


def test_a_push_is_answered_when_the_last_rank_has_stored(begin, cluster):
    push = begin(replace(PUSH, ranks=(1, 2)), b"1")
    push.on_answer(ObjectsStored(1, "r1"), [])
    push.tick(1.0)
    assert not push.is_over
    push.on_answer(ObjectsStored(2, "r1", "no memory"), [])
    push.tick(1.1)
    push.tick(1.2)
    assert push.is_over
    assert cluster.sender.told(ObjectsPushed, b"me") == [ObjectsPushed("r1", {2: "no memory"})]


def test_a_pull_gives_frames_in_rank_order_however_they_came(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 2, 3)))
    assert cluster.sender.sent_to_ranks(FetchObject)[2] == [FetchObject("r1", "x")]
    pull.on_answer(ObjectFetched(3, "r1"), [b"3a", b"3b"])
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    pull.on_answer(ObjectFetched(2, "r1", "no 'x'"), [])
    pull.tick(1.0)
    _, answer, frames = cluster.sender.clients[-1]
    assert answer == ObjectPulled("r1", (0, 3), (1, 2), {2: "no 'x'"})
    assert frames == [b"0", b"3a", b"3b"]


def test_a_rank_that_is_lost_is_a_problem_if_it_has_not_answered_and_no_wait(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 1)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    for rank in (0, 1):
        pull.on_lost(rank, "killed")
    pull.tick(1.0)
    assert pull.is_over
    (answer,) = cluster.sender.told(ObjectPulled)
    assert list(answer.problems) == [1]
    assert answer.problems[1].endswith(": killed")


def test_answers_to_other_requests_and_second_answers_are_dropped(begin, cluster):
    pull = begin(PullObject("r2", "x", ranks=(0, 1)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"old"])
    pull.on_answer(ObjectFetched(0, "r2"), [b"new"])
    pull.on_answer(ObjectFetched(0, "r2"), [b"again"])
    pull.tick(1.0)
    assert not pull.is_over
    pull.on_answer(ObjectFetched(1, "r2"), [b"1"])
    pull.tick(2.0)
    assert cluster.sender.clients[-1][2] == [b"new", b"1"]


def test_a_push_that_waited_goes_to_where_its_ranks_are_by_then(cluster):
    push = replace(PUSH, ranks=(0, 3))
    transfer = Transfer(b"me", push, [BIG], push.request_id, cluster.parts)
    cluster.lose(3)
    cluster.roster.replace(3, replace(cluster.roster[3].info, host="a"))
    cluster.join()
    cluster.sender.forget()
    transfer.start(0.0)
    assert [host for host, _ in cluster.sender.placed] == ["a"]
    place(transfer, cluster, "a")
    assert sorted(cluster.sender.sent_to_ranks(StoreObjects)) == [0, 3]


# --- how far it is ---


def test_a_push_is_as_far_as_its_slowest_host_and_soon_nothing_is_told(begin, cluster):
    push = begin(PUSH, BIG)
    placement_id = cluster.sender.placed[0][1]
    for host, request_id, taken_bytes in (
        ("a", placement_id, 1000),
        ("b", placement_id, 200),
        ("b", "another", 4000),
    ):
        taken = pb.PlaceTaken(request_id=request_id, taken_bytes=taken_bytes)
        push.on_place_taken(host, taken)
    push.tick(TELL_AFTER_S - 0.1)
    assert cluster.sender.told(TransferMoved) == []
    push.tick(1.0)
    push.tick(1.1)
    place(push, cluster, "b")
    push.tick(1.3)
    assert cluster.sender.told(TransferMoved, b"me") == [
        TransferMoved("r1", 200, len(BIG), "to a, b"),
        TransferMoved("r1", 1000, len(BIG), "to a"),
    ]


def test_when_all_hosts_have_it_ranks_that_have_taken_it_in_are_counted(begin, cluster):
    push = begin(PUSH, BIG)
    place(push, cluster, "a", "b")
    push.on_answer(ObjectsStored(2, "r1"), [])
    push.tick(1.0)
    (moved,) = cluster.sender.told(TransferMoved)
    assert (moved.moved_bytes, moved.total_bytes) == (len(BIG) // 4, len(BIG))
    assert " 1 of 4 " in moved.where


def test_a_pull_tells_what_has_come_and_that_the_rest_is_not_known(begin, cluster):
    pull = begin(PullObject("r1", "x"))
    pull.on_answer(ObjectFetched(0, "r1"), [b"12", b"345"])
    pull.tick(1.0)
    (moved,) = cluster.sender.told(TransferMoved)
    assert (moved.moved_bytes, moved.total_bytes) == (5, 0)
    assert " 1 of 4 " in moved.where


def test_much_is_handed_over_in_pieces(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 1)))
    large = bytes(PIECE_BYTES) + b"rest"
    for rank in (0, 1):
        pull.on_answer(ObjectFetched(rank, "r1"), [b"", large, large])
    pull.tick(0.1)
    total = 4 * len(large)
    *pieces, (_, answer, frames) = cluster.sender.clients
    assert {word for _, word, _ in pieces} == {PulledPiece("r1", len(large), total)}
    assert b"".join(piece for _, _, (piece,) in pieces) == large * 4
    sizes = (0, len(large), len(large)) * 2
    assert answer == ObjectPulled("r1", (0, 1), (3, 3), {}, sizes)
    assert frames == []


def test_a_push_that_came_in_pieces_is_whole_for_ranks_without_room(begin, cluster):
    cluster.sender.hosts_with_agents = {"a"}
    push = PushObjects("r1", ("a",), (2,), ranks=(0, 3), sizes=(0, 3 * PLACED_FROM_BYTES))
    pieces = [bytes([n]) * PLACED_FROM_BYTES for n in range(3)]
    transfer = begin(push, *pieces)
    ((rank, store, frames),) = cluster.sender.engines
    assert (rank, store.path) == (3, "")
    assert frames == [b"", b"".join(pieces)]
    assert [host for host, _ in cluster.sender.placed] == ["a"]
    place(transfer, cluster, "a")
    assert cluster.sender.sent_to_ranks(StoreObjects)[0][0].sizes == push.sizes


def test_an_answer_that_nobody_can_read_is_the_problem_of_its_rank(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 2)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    pull.on_unreadable(2, MalformedMessage("no map"))
    pull.tick(1.0)
    [answer] = cluster.sender.told(ObjectPulled)
    assert "no map" in answer.problems[2]
    # Whether the rank is idle only the rank can say.
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0, 2]
    assert isinstance(cluster.sender.sent_to_ranks(FetchObject)[2][-1], FetchObject)


def test_other_words_that_nobody_can_read_are_no_answer(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0,)))
    body = msgspec.msgpack.encode({"type": "TaskBegan"})
    pull.on_unreadable(0, Unreadable(body, "no label"))
    pull.tick(1.0)
    assert not pull.is_over


def test_what_has_not_come_to_a_rank_is_taken_back_and_the_rank_is_idle(begin, cluster):
    transfer = begin(replace(PUSH, timeout_s=5.0), BIG)
    assert transfer.interrupt({1}, "i1", 1.0) == (1,)
    place(transfer, cluster, "a")
    assert sorted(cluster.sender.sent_to_ranks(StoreObjects)) == [0]
    assert cluster.roster.ranks_in(EngineState.IDLE) == [1]
    transfer.on_answer(ObjectsStored(0, "r1"), [])
    transfer.tick(5.0)
    transfer.tick(7.1)
    transfer.tick(7.2)
    assert transfer.is_over
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0], "its answer is the coordinator's care"
    problems = cluster.sender.told(ObjectsPushed)[0].problems
    assert sorted(problems) == [1, 2, 3]
    assert " 5 s" in problems[2]


# --- who takes long ---


class Questions:
    def __init__(self):
        self.asked = []

    def ask(self, ranks, about, timeout_s, now_s, on_answered):
        self.asked.append((ranks, now_s))
        problems = dict.fromkeys(ranks, "it does not answer")
        on_answered(Answers({}, problems))


def test_who_takes_long_is_named_once_and_again_after_a_while():
    questions = Questions()
    watch = TransferWatch("packing", questions)
    assert watch.look({0, 1}, 5.0) == "", "nothing was sent to them yet"
    watch.begin(0, 5.0)
    watch.begin(1, 5.0)
    watch.begin(2, 6.0)
    assert watch.begun == {0, 1, 2}
    assert watch.look({0, 1, 2}, 5.9) == ""
    assert questions.asked == [((0, 1), 5.9)]
    told = watch.look({0, 1, 2}, 7.5)
    assert told.startswith("ranks 0-1 ")
    assert " 2 s (where" in told
    assert watch.look({0, 1}, 9.0) == ""
    assert watch.note == told.replace("2 s", "4 s")
    assert " 13 s" in watch.look({0, 1}, 17.6)
    assert watch.look({1}, 17.7).startswith("rank 1 ")
    assert watch.look(set(), 18.0) == ""
    assert watch.note == ""
