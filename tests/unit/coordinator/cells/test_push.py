import pytest
from msgspec.structs import replace

from jupyter_dist.control.memory_file import MemoryFile, map_frozen
from jupyter_dist.coordinator.cells.payload import Payload
from jupyter_dist.coordinator.cells.push import Push
from jupyter_dist.coordinator.cells.transfers import TELL_AFTER_S
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.model.transfer.pieces import LARGE_FROM_BYTES
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    ObjectsPushed,
    ObjectsStored,
    PushObjects,
    StoreObjects,
    TransferMoved,
)

BIG = bytes(LARGE_FROM_BYTES)
PUSH = PushObjects("r1", ("a",), (1,))


@pytest.fixture
def begin(cluster):
    def start(request, *buffers, payload=None):
        payload = payload or Payload(buffers)
        push = Push(b"me", request, payload, request.request_id, cluster.parts)
        push.start(0.0)
        return push

    return start


def placements(cluster):
    """The hosts that something is placed on, with what it is called there."""
    return [(host, chunk.request_id) for host, chunk in cluster.sender.commanded("place_chunk")]


def place(push, cluster, *hosts, problem=""):
    """Let agents of hosts tell that they have placed what was sent to them."""
    for host in hosts:
        path = "" if problem else "/dev/shm/x"
        placed = pb.Placed(request_id=placements(cluster)[0][1], path=path, problem=problem)
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


def test_a_push_that_waited_goes_to_where_its_ranks_are_by_then(cluster):
    push = replace(PUSH, ranks=(0, 3))
    transfer = Push(b"me", push, Payload([BIG]), push.request_id, cluster.parts)
    cluster.lose(3)
    cluster.roster.replace(3, replace(cluster.roster[3].info, host="a"))
    cluster.join()
    cluster.sender.forget()
    transfer.start(0.0)
    assert [host for host, _ in placements(cluster)] == ["a"]
    place(transfer, cluster, "a")
    assert sorted(cluster.sender.sent_to_ranks(StoreObjects)) == [0, 3]


@pytest.fixture
def in_memory():
    file = MemoryFile.make()
    file.write([b"", BIG])
    file.freeze()
    return Payload((), (0, len(BIG)), file)


def test_ranks_that_share_memory_are_told_where_it_lies_and_other_hosts_get_it(
    begin, cluster, in_memory
):
    for rank in (0, 1):
        cluster.roster[rank].shares_memory = True
    push = begin(replace(PUSH, frame_counts=(2,)), payload=in_memory)
    stores = cluster.sender.sent_to_ranks(StoreObjects)
    assert sorted(stores) == [0, 1]
    assert map_frozen(stores[0][0].file, stores[0][0].sizes)[1] == BIG
    assert [host for host, _ in placements(cluster)] == ["b"]
    place(push, cluster, "b")
    for rank in range(4):
        push.on_answer(ObjectsStored(rank, "r1"), [])
    push.tick(0.1)
    assert [host for host, _ in cluster.sender.commanded("remove_placed")] == ["b"]
    with pytest.raises(OSError, match="No such file"):
        map_frozen(stores[0][0].file, stores[0][0].sizes)


@pytest.mark.parametrize("way", ["file", "frames"])
def test_ranks_whose_host_has_no_room_get_the_frames(begin, cluster, in_memory, way):
    payload = in_memory if way == "file" else Payload([b"", BIG])
    push = begin(replace(PUSH, frame_counts=(2,)), payload=payload)
    place(push, cluster, "a", "b", problem="no room")
    assert [(rank, frames) for rank, _, frames in cluster.sender.engines] == [
        (rank, [b"", BIG]) for rank in range(4)
    ]


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


# --- how far it is ---


def test_a_push_is_as_far_as_its_slowest_host_and_soon_nothing_is_told(begin, cluster):
    push = begin(PUSH, BIG)
    placement_id = placements(cluster)[0][1]
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
