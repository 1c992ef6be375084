import msgspec
import pytest
from msgspec.structs import replace

from jupyter_dist.coordinator.transfers import PLACED_FROM_BYTES, TELL_AFTER_S, Transfer
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.model.pieces import PIECE_BYTES
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


@pytest.fixture
def begin(cluster):
    def start(request, buffers=()):
        transfer = Transfer(b"me", request, list(buffers), request.request_id, cluster.parts)
        transfer.start(0.0)
        return transfer

    return start


def test_a_push_sends_the_same_frames_to_every_rank(begin, cluster):
    begin(PushObjects("r1", ("a", "b"), (1, 2)), [b"1", b"2", b"3"])
    assert [(rank, buffers) for rank, _, buffers in cluster.outbox.engines] == [
        (rank, [b"1", b"2", b"3"]) for rank in range(4)
    ]
    assert cluster.outbox.engines[0][1] == StoreObjects("r1", ("a", "b"), (1, 2))
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0, 1, 2, 3]


def test_a_push_is_answered_when_the_last_rank_has_stored(begin, cluster):
    push = begin(PushObjects("r1", ("a",), (1,), ranks=(1, 2)), [b"1"])
    push.on_answer(ObjectsStored(1, "r1"), [])
    push.tick(1.0)
    assert not push.is_over
    push.on_answer(ObjectsStored(2, "r1", "no memory"), [])
    push.tick(1.1)
    push.tick(1.2)
    assert push.is_over
    assert cluster.outbox.told(ObjectsPushed, b"me") == [ObjectsPushed("r1", {2: "no memory"})]


def test_a_pull_gives_frames_in_rank_order_however_they_came(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 2, 3)))
    assert cluster.outbox.sent_to_ranks(FetchObject)[2] == [FetchObject("r1", "x")]
    pull.on_answer(ObjectFetched(3, "r1"), [b"3a", b"3b"])
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    pull.on_answer(ObjectFetched(2, "r1", "rank 2 has no 'x'"), [])
    pull.tick(1.0)
    _, answer, frames = cluster.outbox.clients[-1]
    assert answer == ObjectPulled("r1", (0, 3), (1, 2), {2: "rank 2 has no 'x'"})
    assert frames == [b"0", b"3a", b"3b"]


def test_a_rank_that_is_lost_meanwhile_is_a_problem_not_a_wait(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 1)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    pull.on_lost(1, "killed")
    pull.tick(1.0)
    assert pull.is_over
    assert cluster.outbox.told(ObjectPulled)[0].problems == {1: "it is lost: killed"}


def test_a_rank_that_is_lost_after_its_answer_is_no_problem(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 1)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    pull.on_lost(0, "killed")
    pull.on_answer(ObjectFetched(1, "r1"), [b"1"])
    pull.tick(1.0)
    assert cluster.outbox.told(ObjectPulled)[0].problems == {}


def test_answers_to_other_requests_and_second_answers_are_dropped(begin, cluster):
    pull = begin(PullObject("r2", "x", ranks=(0, 1)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"old"])
    pull.on_answer(ObjectFetched(0, "r2"), [b"new"])
    pull.on_answer(ObjectFetched(0, "r2"), [b"again"])
    pull.tick(1.0)
    assert not pull.is_over
    pull.on_answer(ObjectFetched(1, "r2"), [b"1"])
    pull.tick(2.0)
    assert cluster.outbox.clients[-1][2] == [b"new", b"1"]


def test_a_push_that_waited_goes_to_where_its_ranks_are_by_then(cluster):
    frame = bytes(PLACED_FROM_BYTES)
    push = PushObjects("r1", ("a",), (1,), ranks=(0, 3))
    transfer = Transfer(b"me", push, [frame], push.request_id, cluster.parts)
    cluster.lose(3)
    cluster.roster.replace(3, replace(cluster.roster[3].info, host="a"))
    cluster.join()
    cluster.outbox.forget()
    transfer.start(0.0)
    ((host, placement_id),) = cluster.outbox.placed
    assert host == "a"
    transfer.on_placed("a", pb.Placed(request_id=placement_id, path="/dev/shm/x"))
    assert sorted(cluster.outbox.sent_to_ranks(StoreObjects)) == [0, 3]


# --- how far it is ---

BIG = bytes(PLACED_FROM_BYTES)


def taken(cluster, host, taken_bytes):
    placement_id = cluster.outbox.placed[0][1]
    return host, pb.PlaceTaken(request_id=placement_id, taken_bytes=taken_bytes)


def test_nothing_is_told_of_what_is_over_soon(begin, cluster):
    push = begin(PushObjects("r1", ("a",), (1,)), [BIG])
    push.tick(TELL_AFTER_S - 0.1)
    assert cluster.outbox.told(TransferMoved) == []


def test_a_push_is_as_far_as_its_slowest_host(begin, cluster):
    push = begin(PushObjects("r1", ("a",), (1,)), [BIG])
    push.on_place_taken(*taken(cluster, "a", 1000))
    push.on_place_taken(*taken(cluster, "b", 200))
    push.tick(1.0)
    push.tick(1.1)
    placement_id = cluster.outbox.placed[0][1]
    push.on_placed("b", pb.Placed(request_id=placement_id, path="/dev/shm/x"))
    push.tick(1.3)
    assert cluster.outbox.told(TransferMoved, b"me") == [
        TransferMoved("r1", 200, len(BIG), "to a, b"),
        TransferMoved("r1", 1000, len(BIG), "to a"),
    ]


def test_when_all_hosts_have_it_ranks_that_have_taken_it_in_are_counted(begin, cluster):
    push = begin(PushObjects("r1", ("a",), (1,)), [BIG])
    placement_id = cluster.outbox.placed[0][1]
    for host in "ab":
        push.on_placed(host, pb.Placed(request_id=placement_id, path="/dev/shm/x"))
    push.on_answer(ObjectsStored(2, "r1"), [])
    push.tick(1.0)
    assert cluster.outbox.told(TransferMoved) == [
        TransferMoved("r1", len(BIG) // 4, len(BIG), "taken in by 1 of 4 ranks")
    ]


def test_what_another_push_has_placed_is_not_counted(begin, cluster):
    push = begin(PushObjects("r1", ("a",), (1,)), [BIG])
    push.on_place_taken("a", pb.PlaceTaken(request_id="another", taken_bytes=1000))
    push.tick(1.0)
    assert cluster.outbox.told(TransferMoved)[0].moved_bytes == 0


def test_a_pull_tells_what_has_come_and_that_the_rest_is_not_known(begin, cluster):
    pull = begin(PullObject("r1", "x"))
    pull.on_answer(ObjectFetched(0, "r1"), [b"12", b"345"])
    pull.tick(1.0)
    assert cluster.outbox.told(TransferMoved) == [TransferMoved("r1", 5, 0, "from 1 of 4 ranks")]


def test_much_is_handed_over_in_pieces(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 1)))
    large = bytes(PIECE_BYTES) + b"rest"
    for rank in (0, 1):
        pull.on_answer(ObjectFetched(rank, "r1"), [b"", large, large])
    pull.tick(0.1)
    total = 4 * len(large)
    *pieces, (_, answer, frames) = cluster.outbox.clients
    assert {word for _, word, _ in pieces} == {PulledPiece("r1", len(large), total)}
    assert b"".join(piece for _, _, (piece,) in pieces) == large * 4
    sizes = (0, len(large), len(large)) * 2
    assert answer == ObjectPulled("r1", (0, 1), (3, 3), {}, sizes)
    assert frames == []


def test_a_push_that_came_in_pieces_is_whole_for_ranks_without_room(cluster):
    cluster.outbox.hosts_with_agents = {"a"}
    push = PushObjects("r1", ("a",), (2,), ranks=(0, 3), sizes=(0, 3 * PLACED_FROM_BYTES))
    pieces = [bytes([n]) * PLACED_FROM_BYTES for n in range(3)]
    transfer = Transfer(b"me", push, pieces, push.request_id, cluster.parts)
    transfer.start(0.0)
    ((rank, store, frames),) = cluster.outbox.engines
    assert (rank, store.path) == (3, "")
    assert frames == [b"", b"".join(pieces)]
    ((host, placement_id),) = cluster.outbox.placed
    assert host == "a"
    transfer.on_placed("a", pb.Placed(request_id=placement_id, path="/dev/shm/x"))
    assert cluster.outbox.sent_to_ranks(StoreObjects)[0][0].sizes == push.sizes


def test_an_answer_that_nobody_can_read_is_the_problem_of_its_rank(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0, 2)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    pull.on_unreadable(2, MalformedMessage("no map"))
    pull.tick(1.0)
    [answer] = cluster.outbox.told(ObjectPulled)
    assert "no map" in answer.problems[2]
    # Whether the rank is idle only the rank can say.
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0, 2]
    assert isinstance(cluster.outbox.sent_to_ranks(FetchObject)[2][-1], FetchObject)


def test_other_words_that_nobody_can_read_are_no_answer(begin, cluster):
    pull = begin(PullObject("r1", "x", ranks=(0,)))
    body = msgspec.msgpack.encode({"type": "TaskBegan"})
    pull.on_unreadable(0, Unreadable(body, "no label"))
    pull.tick(1.0)
    assert not pull.is_over


def test_what_has_not_come_to_a_rank_is_taken_back_and_the_rank_is_idle(cluster):
    push = PushObjects("r1", ("a",), (1,), timeout_s=5.0)
    frame = bytes(PLACED_FROM_BYTES)
    transfer = Transfer(b"me", push, [frame], "t1", cluster.parts)
    transfer.start(0.0)
    assert transfer.interrupt({1}, "i1", 1.0) == (1,)
    transfer.on_placed("a", pb.Placed(request_id="6d65-r1", path="/dev/shm/x"))
    assert sorted(cluster.outbox.sent_to_ranks(StoreObjects)) == [0]
    assert cluster.roster.ranks_in(EngineState.IDLE) == [1]
    transfer.on_answer(ObjectsStored(0, "t1"), [])
    transfer.tick(5.0)
    transfer.tick(7.1)
    transfer.tick(7.2)
    assert transfer.is_over
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0], "its answer is the coordinator's care"
    problems = cluster.outbox.told(ObjectsPushed)[0].problems
    assert sorted(problems) == [1, 2, 3]
    assert "time limit of 5 s" in problems[2]
