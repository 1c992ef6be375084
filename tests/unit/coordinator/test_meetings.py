import pytest
from fakes.outbox import RecordingOutbox

from jupyter_dist.coordinator import meetings as meetings_module
from jupyter_dist.coordinator.cells import CellRun
from jupyter_dist.coordinator.meetings import LATECOMERS_S, Meetings
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    Attend,
    CellResult,
    ErrorInfo,
    LeaveMeeting,
    MeetingFailed,
    MeetingHeld,
    SubmitCell,
)

TOPIC = "objects 1 of 0,1,2"
CLAIM = "all_gather_object() #1"


class Room:
    """Meetings of a cell on ranks 0 to 3, and what engines were told."""

    def __init__(self):
        self.outbox = RecordingOutbox()
        self.meetings = Meetings("cell-1", range(4), self.outbox)

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
        message = Attend(rank=rank, cell_id="cell-1", frame_counts=counts, **given)
        self.meetings.on_attend(message, list(frames), now_s)

    def leave(self, rank, reason="was interrupted during it", ranks=(0, 1, 2)):
        self.meetings.on_leave(LeaveMeeting(rank, "cell-1", TOPIC, ranks, reason))

    def held(self):
        """What each rank was given, by who brought it."""
        found = {}
        for rank, message, frames in self.outbox.engines:
            assert isinstance(message, MeetingHeld)
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
        for rank, message, frames in self.outbox.engines:
            assert isinstance(message, MeetingFailed)
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


@pytest.fixture
def room():
    return Room()


def test_a_meeting_is_held_when_all_its_ranks_are_there(room):
    room.attend(2, b"two")
    room.attend(0, b"zero")
    assert room.outbox.engines == []
    room.attend(1, b"o", b"ne")
    assert room.held() == {
        0: {1: [b"o", b"ne"], 2: [b"two"]},
        1: {0: [b"zero"], 2: [b"two"]},
        2: {0: [b"zero"], 1: [b"o", b"ne"]},
    }


def test_only_the_root_gets_what_is_gathered(room):
    for rank in range(3):
        room.attend(rank, b"%d" % rank, kind="gather", root=1)
    assert room.held() == {0: {}, 1: {0: [b"0"], 2: [b"2"]}, 2: {}}


def test_everybody_gets_what_the_root_broadcasts(room):
    room.attend(0, kind="broadcast", root=2)
    room.attend(1, kind="broadcast", root=2)
    room.attend(2, b"a", b"b", kind="broadcast", root=2)
    assert room.held() == {0: {2: [b"a", b"b"]}, 1: {2: [b"a", b"b"]}, 2: {}}


def test_each_rank_gets_its_piece_of_what_the_root_scatters(room):
    room.attend(0, b"one", b"two", b"more", kind="scatter", root=0, frame_counts=(0, 1, 2))
    room.attend(1, kind="scatter", root=0)
    room.attend(2, kind="scatter", root=0)
    assert room.held() == {0: {}, 1: {0: [b"one"]}, 2: {0: [b"two", b"more"]}}


def test_a_barrier_gives_nothing(room):
    for rank in range(3):
        room.attend(rank, kind="barrier")
    assert room.held() == {0: {}, 1: {}, 2: {}}


def test_the_order_of_ranks_is_that_of_the_meeting(room):
    for rank in (0, 2, 1):
        room.attend(rank, b"%d" % rank, ranks=(2, 0, 1))
    message = room.outbox.engines[-1][1]
    assert message.ranks == (2, 0)


def test_the_same_topic_of_other_ranks_is_another_meeting(room):
    room.attend(0, ranks=(0, 1))
    room.attend(1, ranks=(1, 2))
    assert room.outbox.engines == []
    room.attend(1, ranks=(0, 1))
    assert sorted(room.held()) == [0, 1]


def test_one_rank_meets_itself(room):
    room.attend(3, b"mine", ranks=(3,))
    assert room.held() == {3: {}}


def test_different_claims_are_told_when_all_are_there(room):
    room.attend(0)
    room.attend(1, claim="object_barrier() #1")
    assert room.outbox.engines == []
    room.attend(2)
    assert room.the_failure(0, 1, 2).others == (0, 2)


def test_different_claims_wait_for_a_late_rank_for_a_moment_only(room):
    room.attend(0, now_s=1.0)
    room.attend(1, now_s=2.0, claim="object_barrier() #1")
    room.meetings.tick(2.0 + LATECOMERS_S - 0.1)
    assert room.outbox.engines == []
    room.meetings.tick(2.0 + LATECOMERS_S)
    failure = room.the_failure(0, 1)
    assert (failure.kind, failure.ranks, failure.others) == ("mismatch", (1,), (0,))
    assert failure.text == "object_barrier() #1 at In[1]:1"
    assert failure.others_text == "all_gather_object() #1 at In[1]:0"


def test_of_two_ranks_the_higher_is_the_odd_one_whoever_came_first(room):
    room.attend(2, claim="object_barrier() #1")
    room.attend(1)
    room.meetings.tick(LATECOMERS_S)
    failure = room.the_failure(1, 2)
    assert (failure.ranks, failure.others) == ((2,), (1,))
    assert failure.text.startswith("object_barrier")


def test_the_minority_is_the_odd_one(room):
    room.attend(1)
    room.attend(2)
    room.attend(0, claim="object_barrier() #1")
    failure = room.the_failure(0, 1, 2)
    assert (failure.ranks, failure.others) == ((0,), (1, 2))


def test_a_late_rank_is_told_the_same(room):
    room.attend(0)
    room.attend(1, claim="object_barrier() #1")
    room.meetings.tick(LATECOMERS_S)
    room.attend(2)
    assert room.the_failure(0, 1, 2).kind == "mismatch"


def test_calls_that_read_the_same_are_told_apart_by_their_lines(room):
    room.attend(0, agreement="In[1]:3", site="In[1]:3")
    room.attend(1, agreement="In[1]:5", site="In[1]:5")
    room.meetings.tick(LATECOMERS_S)
    failure = room.the_failure(0, 1)
    assert failure.text == f"{CLAIM} at In[1]:5"
    assert failure.others_text == f"{CLAIM} at In[1]:3"


def test_calls_that_look_the_same_in_every_way_are_still_told_apart(room):
    room.attend(0, agreement="a", site="")
    room.attend(1, agreement="b", site="")
    room.meetings.tick(LATECOMERS_S)
    failure = room.the_failure(0, 1)
    assert (failure.text, failure.others_text) == (f"{CLAIM} with other arguments", CLAIM)


@pytest.mark.parametrize("options", [{"kind": "barrier"}, {"kind": "gather", "root": 1}])
def test_all_must_want_the_same_kind_with_the_same_root(room, options):
    room.attend(0, kind="gather", root=0)
    room.attend(1, **options)
    room.meetings.tick(LATECOMERS_S)
    assert room.the_failure(0, 1).kind == "mismatch"


def test_a_rank_that_has_finished_the_cell_is_named_at_once(room):
    room.attend(0)
    room.attend(2)
    room.meetings.on_finished(1, "ok")
    room.meetings.tick(0.0)
    failure = room.the_failure(0, 2)
    assert (failure.kind, failure.ranks) == ("absent", (1,))
    assert failure.text == f"finished the cell and never called {CLAIM}"


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
    assert room.outbox.engines == []
    room.meetings.on_finished(1, "ok")
    room.meetings.tick(0.2)
    assert room.the_failure(0).ranks == (1, 2)


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
    assert room.outbox.engines == []


def test_missing_ranks_are_named_when_the_first_deadline_passes(room):
    room.attend(3, now_s=1.0, ranks=(0, 1, 2, 3), timeout_s=60.0)
    room.attend(0, now_s=2.0, ranks=(0, 1, 2, 3), timeout_s=1.5)
    room.meetings.tick(3.4)
    assert room.outbox.engines == []
    room.meetings.tick(3.5)
    failure = room.the_failure(0, 3)
    assert (failure.kind, failure.ranks) == ("timeout", (1, 2))
    assert failure.text == f"did not come to {CLAIM} within 1.5 s"


def test_who_comes_after_the_deadline_is_told_the_same_and_once(room):
    room.attend(0)
    room.meetings.tick(5.0)
    room.meetings.tick(10.0)
    room.attend(1, now_s=11.0)
    room.attend(2, now_s=12.0)
    assert room.the_failure(0, 1, 2).ranks == (1, 2)


def test_a_failed_meeting_is_forgotten_when_all_know(room):
    room.attend(0)
    room.meetings.tick(5.0)
    room.attend(1)
    room.attend(2)
    assert room.meetings._meetings == {}


def test_a_rank_that_leaves_is_named_to_the_others(room):
    room.attend(0)
    room.attend(2)
    room.leave(2)
    failure = room.the_failure(0)
    assert (failure.kind, failure.ranks) == ("left", (2,))
    assert failure.text == "was interrupted during it"
    room.attend(1)
    assert room.the_failure(0, 1).kind == "left"


def test_leaving_a_meeting_that_was_held_changes_nothing(room):
    for rank in range(3):
        room.attend(rank)
    room.leave(1)
    assert sorted(room.held()) == [0, 1, 2]


def test_leaving_a_meeting_that_failed_changes_nothing(room):
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
    assert failure.text.startswith(f"{CLAIM} would send")
    assert "shared storage" in failure.text


def test_what_is_within_the_limit_is_sent(room, monkeypatch):
    monkeypatch.setattr(meetings_module, "MEETING_BYTES", 200)
    for rank, nbytes in {0: 50, 1: 25, 2: 25}.items():
        room.attend(rank, bytes(nbytes))
    assert sorted(room.held()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ranks": (1, 2)}, "cannot meet"),
        ({"ranks": (0, 9)}, "cannot meet"),
        ({"ranks": (0, 0, 1)}, "cannot meet"),
        ({"kind": "party"}, "there is no party"),
        ({"kind": "gather", "root": 3}, "root 3"),
        ({"frame_counts": (2,)}, "2 frames were announced, 0 came"),
        ({"kind": "scatter", "root": 0, "frame_counts": (0,)}, "do not fit"),
    ],
)
def test_what_no_engine_of_ours_would_ask_is_refused_and_harms_nobody(room, options, text):
    room.attend(0, **options)
    failure = room.the_failure(0)
    assert failure.kind == "refused"
    assert text in failure.text
    room.outbox.forget()
    for rank in range(3):
        room.attend(rank)
    assert sorted(room.held()) == [0, 1, 2]


@pytest.fixture
def cell(cluster):
    """A cell that runs on ranks 0 to 2."""
    request = SubmitCell("r1", "comm.barrier()", ranks=(0, 1, 2))
    found = CellRun(b"me", request, "cell-1", cluster.parts)
    found.start(0.0)
    cluster.outbox.forget()
    return found


def attend(rank):
    return Attend(rank, "cell-1", TOPIC, (0, 1, 2), "all_gather", CLAIM, frame_counts=(1,))


def test_the_ranks_of_a_cell_meet(cell, cluster):
    for rank in range(3):
        cell.on_message(attend(rank), [b"x"], 1.0)
    assert sorted(cluster.outbox.sent_to_ranks(MeetingHeld)) == [0, 1, 2]


def test_a_rank_whose_cell_ends_well_is_missed_in_the_meetings_of_the_cell(cell, cluster):
    cell.on_message(attend(0), [b"x"], 1.0)
    cell.on_message(CellResult(1, "cell-1", "ok", 0.5), [], 1.0)
    cell.tick(1.0)
    cell.tick(1.0 + LATECOMERS_S)
    (failure,) = cluster.outbox.sent_to_ranks(MeetingFailed)[0]
    assert failure.kind == "absent"


def test_a_rank_whose_cell_fails_aborts_the_others(cell, cluster):
    cell.on_message(attend(0), [b"x"], 1.0)
    error = ErrorInfo("KeyError", "'a'")
    cell.on_message(CellResult(1, "cell-1", "raised", 0.5, error=error), [], 1.0)
    assert cluster.outbox.sent_to_ranks(MeetingFailed) == {}
    assert sorted(cluster.outbox.sent_to_ranks(AbortCommunicator)) == [0, 2]


def test_the_clock_of_a_cell_is_that_of_its_meetings(cell, cluster):
    cell.on_message(attend(0), [b"x"], 1.0)
    cell.tick(60.9)
    assert cluster.outbox.sent_to_ranks(MeetingFailed) == {}
    cell.tick(61.0)
    assert sorted(cluster.outbox.sent_to_ranks(MeetingFailed)) == [0]


def test_a_rank_that_waits_no_longer_is_heard(cell, cluster):
    cell.on_message(attend(0), [b"x"], 1.0)
    cell.on_message(attend(1), [b"x"], 1.0)
    cell.on_message(LeaveMeeting(1, "cell-1", TOPIC, (0, 1, 2), "was interrupted"), [], 2.0)
    assert sorted(cluster.outbox.sent_to_ranks(MeetingFailed)) == [0]


def test_who_is_waited_for_after_its_end_is_not_so_by_frameworks(room):
    room.meetings.on_finished(1, "raised", is_waited_for=True)
    room.attend(0)
    room.meetings.tick(LATECOMERS_S)
    assert room.outbox.engines == []
    room.attend(0, topic="frameworks 1 of 0,1,2")
    room.meetings.tick(LATECOMERS_S)
    assert (room.the_failure(0).kind, room.the_failure(0).ranks) == ("absent", (1,))
