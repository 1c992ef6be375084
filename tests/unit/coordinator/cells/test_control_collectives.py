import pytest
from fakes.outbox import RecordingSender

from jupyter_dist.coordinator.cells import control_collectives as meetings_module
from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.cells.control_collectives import LATECOMERS_S, ControlCollectives
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.messages import (
    CellResult,
    CollectiveCompleted,
    CollectiveFailed,
    JoinCollective,
    SubmitCell,
    WithdrawCollective,
)

TOPIC = "objects 1 of 0,1,2"
CLAIM = "all_gather_object() #1"


class Room:
    """Meetings of a cell on ranks 0 to 3, and what engines were told."""

    def __init__(self):
        self.sender = RecordingSender()
        self.meetings = ControlCollectives("cell-1", range(4), self.sender, HeldTime())

    def attend(self, rank, *frames, now_s=0.0, **options):
        counts = options.pop("frame_counts", (len(frames),))
        given = {
            "topic": TOPIC,
            "ranks": (0, 1, 2),
            "kind": "all_gather",
            "claim": CLAIM,
            "site": f"In[1]:{rank}",
            "timeout_s": 5.0,
            **options,
        }
        message = JoinCollective(rank=rank, cell_id="cell-1", frame_counts=counts, **given)
        self.meetings.on_attend(message, list(frames), now_s)

    def leave(self, rank, reason="was interrupted", ranks=(0, 1, 2)):
        self.meetings.on_leave(WithdrawCollective(rank, "cell-1", TOPIC, ranks, reason))

    def held(self):
        """What each rank was given, by who brought it."""
        found = {}
        for rank, message, frames in self.sender.engines:
            assert isinstance(message, CollectiveCompleted)
            assert (message.cell_id, message.topic) == ("cell-1", TOPIC)
            assert sum(message.frame_counts) == len(frames)
            rest = iter(frames)
            found[rank] = {
                other: [next(rest) for _ in range(count)]
                for other, count in zip(message.ranks, message.frame_counts, strict=True)
            }
        return found

    def failures(self):
        """How the meeting failed, by rank."""
        found = {}
        for rank, message, frames in self.sender.engines:
            assert isinstance(message, CollectiveFailed)
            assert not frames
            assert rank not in found, "told twice"
            found[rank] = message
        return found

    def the_failure(self, *ranks):
        """The failure that all of these ranks, and no others, were told."""
        failures = self.failures()
        assert sorted(failures) == sorted(ranks)
        (failure,) = {*failures.values()}
        return failure


def test_ranks_that_name_nobody_meet_all_that_run_the_cell(room):
    for rank in (3, 1, 0):
        room.attend(rank, b"%d" % rank, ranks=None)
    assert room.held() == {}
    room.attend(2, b"2", ranks=None)
    assert list(room.held()[1].items()) == [(0, [b"0"]), (2, [b"2"]), (3, [b"3"])]
    room.sender.forget()
    room.attend(4, ranks=None)
    assert room.the_failure(4).kind == "refused"


@pytest.fixture
def room():
    return Room()


def test_a_meeting_is_held_when_all_its_ranks_are_there(room):
    room.attend(2, b"two")
    room.attend(0, b"zero")
    assert room.sender.engines == []
    room.attend(1, b"o", b"ne")
    assert room.held() == {
        0: {1: [b"o", b"ne"], 2: [b"two"]},
        1: {0: [b"zero"], 2: [b"two"]},
        2: {0: [b"zero"], 1: [b"o", b"ne"]},
    }


@pytest.mark.parametrize(
    ("kind", "root", "brought", "held"),
    [
        ("gather", 1, ([b"0"], [b"1"], [b"2"]), ({}, {0: [b"0"], 2: [b"2"]}, {})),
        ("broadcast", 2, ([], [], [b"a", b"b"]), ({2: [b"a", b"b"]}, {2: [b"a", b"b"]}, {})),
        ("scatter", 0, ([b"1", b"2", b"more"], [], []), ({}, {0: [b"1"]}, {0: [b"2", b"more"]})),
        ("barrier", -1, ([], [], []), ({}, {}, {})),
    ],
)
def test_each_rank_gets_what_the_kind_of_meeting_gives_it(room, kind, root, brought, held):
    for rank, frames in enumerate(brought):
        counts = (0, 1, 2) if kind == "scatter" and rank == root else (len(frames),)
        room.attend(rank, *frames, kind=kind, root=root, frame_counts=counts)
    assert room.held() == dict(enumerate(held))


def test_the_order_of_ranks_is_that_of_the_meeting(room):
    for rank in (0, 2, 1):
        room.attend(rank, b"%d" % rank, ranks=(2, 0, 1))
    message = room.sender.engines[-1][1]
    assert message.ranks == (2, 0)


def test_the_same_topic_of_other_ranks_is_another_meeting(room):
    room.attend(0, ranks=(0, 1))
    room.attend(1, ranks=(1, 2))
    assert room.sender.engines == []
    room.attend(1, ranks=(0, 1))
    assert sorted(room.held()) == [0, 1]


def test_one_rank_meets_itself(room):
    room.attend(3, b"mine", ranks=(3,))
    assert room.held() == {3: {}}


OTHER = "object_barrier() #1"


@pytest.mark.parametrize(
    ("claims", "odd", "others"),
    [
        ({0: CLAIM, 1: OTHER, 2: CLAIM}, (1,), (0, 2)),
        ({1: CLAIM, 2: CLAIM, 0: OTHER}, (0,), (1, 2)),
        ({2: OTHER, 1: CLAIM}, (2,), (1,)),
    ],
    ids=["when all are there", "the minority is odd", "of two the higher is odd"],
)
def test_different_claims_are_told_with_the_odd_one(room, claims, odd, others):
    for rank, claim in claims.items():
        assert room.sender.engines == []
        room.attend(rank, claim=claim)
    room.meetings.tick(LATECOMERS_S)
    failure = room.the_failure(*claims)
    assert (failure.ranks, failure.others) == (odd, others)
    assert failure.text.startswith(claims[odd[0]])


def test_different_claims_wait_for_a_late_rank_for_a_moment_only(room):
    room.attend(0, now_s=1.0)
    room.attend(1, now_s=2.0, claim=OTHER)
    room.meetings.tick(2.0 + LATECOMERS_S - 0.1)
    assert room.sender.engines == []
    room.meetings.tick(2.0 + LATECOMERS_S)
    failure = room.the_failure(0, 1)
    assert (failure.kind, failure.ranks, failure.others) == ("mismatch", (1,), (0,))
    assert (failure.text, failure.others_text) == (f"{OTHER} at In[1]:1", f"{CLAIM} at In[1]:0")
    room.attend(2)
    assert room.the_failure(0, 1, 2).kind == "mismatch"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"agreement": "In[1]:3", "site": "In[1]:3"}, {"agreement": "In[1]:5", "site": "In[1]:5"}),
        ({"agreement": "a", "site": ""}, {"agreement": "b", "site": ""}),
        ({"kind": "gather", "root": 0}, {"kind": "barrier"}),
        ({"kind": "gather", "root": 0}, {"kind": "gather", "root": 1}),
    ],
)
def test_calls_that_read_the_same_may_differ_and_are_told_apart_by_their_lines(room, first, second):
    room.attend(0, **first)
    room.attend(1, **second)
    room.meetings.tick(LATECOMERS_S)
    failure = room.the_failure(0, 1)
    assert failure.kind == "mismatch"
    assert second.get("site", "") in failure.text
    assert first.get("site", "") in failure.others_text


def test_a_rank_that_had_finished_before_is_named_to_the_first_that_comes(room):
    room.meetings.on_finished(1, "ok")
    room.meetings.on_finished(3, "ok")
    room.attend(0)
    room.meetings.tick(LATECOMERS_S)
    assert room.the_failure(0).ranks == (1,)
    room.attend(2)
    assert room.the_failure(0, 2).ranks == (1,)


def test_all_ranks_that_have_finished_are_named_together(room):
    room.attend(0)
    room.meetings.on_finished(2, "ok")
    room.meetings.tick(0.1)
    assert room.sender.engines == []
    room.meetings.on_finished(1, "ok")
    room.meetings.tick(0.2)
    failure = room.the_failure(0)
    assert (failure.kind, failure.ranks) == ("absent", (1, 2))
    assert failure.text.endswith(CLAIM)


def test_a_finished_rank_that_is_not_needed_harms_nobody(room):
    room.meetings.on_finished(3, "ok")
    for rank in range(3):
        room.attend(rank)
    assert sorted(room.held()) == [0, 1, 2]


@pytest.mark.parametrize("status", ["raised", "interrupted", "lost", "timed_out", "peer_failed"])
def test_after_another_end_everybody_is_aborted_so_nothing_is_said(room, status):
    room.attend(0)
    room.meetings.on_finished(1, status)
    room.meetings.tick(100.0)
    assert room.sender.engines == []


def test_missing_ranks_are_named_when_the_first_deadline_passes(room):
    room.attend(3, now_s=1.0, ranks=(0, 1, 2, 3), timeout_s=60.0)
    room.attend(0, now_s=2.0, ranks=(0, 1, 2, 3), timeout_s=1.5)
    room.meetings.tick(3.4)
    assert room.sender.engines == []
    room.meetings.tick(3.5)
    failure = room.the_failure(0, 3)
    assert (failure.kind, failure.ranks) == ("timeout", (1, 2))
    assert CLAIM in failure.text
    assert failure.text.endswith(" 1.5 s")


def test_who_comes_after_the_deadline_is_told_the_same_and_once(room):
    room.attend(0)
    room.meetings.tick(5.0)
    room.meetings.tick(10.0)
    room.attend(1, now_s=11.0)
    room.attend(2, now_s=12.0)
    assert room.the_failure(0, 1, 2).ranks == (1, 2)
    assert room.meetings._collectives == {}, "it is forgotten when all know"


def test_a_rank_that_leaves_is_named_to_the_others(room):
    room.attend(0)
    room.attend(2)
    room.leave(2)
    failure = room.the_failure(0)
    assert (failure.kind, failure.ranks) == ("left", (2,))
    assert failure.text == "was interrupted"
    room.attend(1)
    assert room.the_failure(0, 1).kind == "left"


def test_leaving_a_meeting_that_was_held_or_has_failed_changes_nothing(room):
    for rank in range(3):
        room.attend(rank)
    room.leave(1)
    assert sorted(room.held()) == [0, 1, 2]
    room.sender.forget()
    room.attend(0)
    room.meetings.tick(5.0)
    room.leave(0)
    assert room.the_failure(0).kind == "timeout"


def test_two_ranks_may_leave(room):
    room.attend(0)
    room.attend(1)
    room.leave(0)
    room.leave(1)
    room.attend(2)
    assert room.the_failure(1, 2).ranks == (0,)


@pytest.mark.parametrize(
    ("kind", "root", "brought"),
    [
        ("all_gather", -1, {0: 40, 1: 40, 2: 40}),
        ("broadcast", 1, {0: 0, 1: 101, 2: 0}),
        ("gather", 1, {0: 101, 1: 900, 2: 100}),
        ("scatter", 1, {0: 0, 1: 201, 2: 0}),
    ],
)
def test_more_than_the_coordinator_may_send_is_refused_on_all(
    room, monkeypatch, kind, root, brought
):
    monkeypatch.setattr(meetings_module, "MEETING_BYTES", 200)
    for rank, nbytes in brought.items():
        counts = (0, 0, 1) if kind == "scatter" and rank == root else (1,)
        room.attend(rank, bytes(nbytes), kind=kind, root=root, frame_counts=counts)
    failure = room.the_failure(0, 1, 2)
    assert (failure.kind, failure.ranks) == ("refused", ())
    assert failure.text.startswith(CLAIM)


def test_what_is_within_the_limit_is_sent(room, monkeypatch):
    monkeypatch.setattr(meetings_module, "MEETING_BYTES", 200)
    for rank, nbytes in {0: 50, 1: 25, 2: 25}.items():
        room.attend(rank, bytes(nbytes))
    assert sorted(room.held()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ranks": (1, 2)}, ""),
        ({"ranks": (0, 9)}, "9"),
        ({"ranks": (0, 0, 1)}, ""),
        ({"kind": "party"}, "party"),
        ({"kind": "gather", "root": 3}, "root 3"),
        ({"frame_counts": (2,)}, "2 frames"),
        ({"kind": "scatter", "root": 0, "frame_counts": (0,)}, ""),
    ],
)
def test_what_no_engine_of_ours_would_ask_is_refused_and_harms_nobody(room, options, text):
    room.attend(0, **options)
    failure = room.the_failure(0)
    assert failure.kind == "refused"
    assert text in failure.text
    room.sender.forget()
    for rank in range(3):
        room.attend(rank)
    assert sorted(room.held()) == [0, 1, 2]


@pytest.fixture
def cell(cluster):
    """A cell that runs on ranks 0 to 2."""
    request = SubmitCell("r1", "comm.barrier()", ranks=(0, 1, 2))
    found = CellRun(b"me", request, "cell-1", cluster.parts)
    found.start(0.0)
    cluster.sender.forget()
    return found


def attend(rank):
    return JoinCollective(rank, "cell-1", TOPIC, (0, 1, 2), "all_gather", CLAIM, frame_counts=(1,))


def test_the_ranks_of_a_cell_meet(cell, cluster):
    for rank in range(3):
        cell.on_message(attend(rank), [b"x"], 1.0)
    assert sorted(cluster.sender.sent_to_ranks(CollectiveCompleted)) == [0, 1, 2]


def test_a_rank_whose_cell_ends_well_is_missed_in_the_meetings_of_the_cell(cell, cluster):
    cell.on_message(attend(0), [b"x"], 1.0)
    cell.on_message(CellResult(1, "cell-1", "ok", 0.5), [], 1.0)
    cell.tick(1.0)
    cell.tick(1.0 + LATECOMERS_S)
    (failure,) = cluster.sender.sent_to_ranks(CollectiveFailed)[0]
    assert failure.kind == "absent"


def test_the_clock_of_a_cell_is_that_of_its_meetings(cell, cluster):
    cell.on_message(attend(0), [b"x"], 1.0)
    cell.tick(60.9)
    assert cluster.sender.sent_to_ranks(CollectiveFailed) == {}
    cell.tick(61.0)
    assert sorted(cluster.sender.sent_to_ranks(CollectiveFailed)) == [0]


def test_a_rank_that_waits_no_longer_is_heard(cell, cluster):
    cell.on_message(attend(0), [b"x"], 1.0)
    cell.on_message(attend(1), [b"x"], 1.0)
    cell.on_message(WithdrawCollective(1, "cell-1", TOPIC, (0, 1, 2), "was interrupted"), [], 2.0)
    assert sorted(cluster.sender.sent_to_ranks(CollectiveFailed)) == [0]


def test_who_is_waited_for_after_its_end_is_not_so_by_frameworks(room):
    room.meetings.on_finished(1, "raised", is_waited_for=True)
    room.attend(0)
    room.meetings.tick(LATECOMERS_S)
    assert room.sender.engines == []
    room.attend(0, topic="frameworks 1 of 0,1,2")
    room.meetings.tick(LATECOMERS_S)
    assert (room.the_failure(0).kind, room.the_failure(0).ranks) == ("absent", (1,))
