import signal
import threading

import pytest
from fakes.link import FakeLink

from jupyter_dist.engine import meetings as meetings_module
from jupyter_dist.engine.meetings import Meetings
from jupyter_dist.errors import (
    CollectiveMismatch,
    CollectiveMissed,
    CollectiveTimeout,
    CommunicatorError,
    PeerFailed,
    UsageError,
)
from jupyter_dist.protocol.messages import (
    Attend,
    AwaitValue,
    LeaveMeeting,
    MeetingFailed,
    MeetingHeld,
    PutValue,
    ValueFound,
)
from tests.patience import within

RANKS = (0, 1, 2)


class Desk:
    """The meetings of rank 1 in a cell on ranks 0 to 2 of 4, and what the coordinator answers."""

    def __init__(self):
        self.link = FakeLink()
        self.meetings = Meetings(1, 4, self.link.post)
        self.meetings.enter_generation(7, 1, 4)
        self.meetings.expect_cell()
        self.meetings.enter_cell("cell-1", RANKS)

    def meet(self, kind="all_gather", frames=(b"mine",), ranks=RANKS, **options):
        given = {"purpose": "objects", "claim": "call() #1", "timeout_s": 5.0, **options}
        return self.meetings.meet(given.pop("purpose"), kind, ranks, list(frames), **given)

    def hold(self, shares=None):
        """Have each meeting held, with these frames of these ranks."""
        shares = shares or {}

        def respond(message, frames):
            if isinstance(message, Attend):
                counts = tuple(len(brought) for brought in shares.values())
                held = MeetingHeld(message.cell_id, message.topic, tuple(shares), counts)
                brought = [frame for frames in shares.values() for frame in frames]
                self.meetings.on_answer(held, brought)

        self.link.respond = respond

    def fail(self, kind, ranks=(2,), text="did it", **others):
        """Have each meeting fail."""

        def respond(message, frames):
            if isinstance(message, Attend):
                failed = MeetingFailed(message.cell_id, message.topic, kind, ranks, text, **others)
                self.meetings.on_answer(failed, [])

        self.link.respond = respond

    def when_attended(self, action):
        """Do this, on the link's thread, as soon as the rank waits."""
        self.link.respond = lambda message, _: action() if isinstance(message, Attend) else None


@pytest.fixture
def desk():
    found = Desk()
    yield found
    found.link.close()


# --- what is said and given -----------------------------------------------------------------


def test_a_meeting_says_all_that_was_asked(desk):
    desk.hold()
    desk.meet("scatter", (b"a", b"b"), claim="c() #3", agreement="x", site="In[2]:5", root=1,
              frame_counts=[1, 0, 1], timeout_s=2.5)  # fmt: skip
    ((message, frames),) = desk.link.posted
    assert frames == [b"a", b"b"]
    topic = "objects 1 of 0,1,2"
    assert message == Attend(
        1, "cell-1", topic, RANKS, "scatter", "c() #3", "x", "In[2]:5", 1, (1, 0, 1), 2.5
    )


def test_all_that_is_gathered_is_given_by_rank_and_in_order(desk):
    desk.hold({2: [b"two", b"more"], 0: [b"zero"]})
    found = desk.meet()
    assert list(found.items()) == [(0, [b"zero"]), (1, [b"mine"]), (2, [b"two", b"more"])]


def test_the_root_of_a_gathering_finds_its_own_too(desk):
    desk.hold({0: [b"zero"], 2: [b"two"]})
    assert desk.meet("gather", root=1)[1] == [b"mine"]


def test_others_of_a_gathering_get_nothing(desk):
    desk.hold()
    assert desk.meet("gather", root=0) == {}


def test_what_the_root_broadcasts_is_given(desk):
    desk.hold({2: [b"news"]})
    assert desk.meet("broadcast", (), root=2) == {2: [b"news"]}


def test_meetings_are_numbered_by_purpose_and_ranks(desk):
    desk.hold()
    for options in ({}, {"ranks": (1, 2)}, {}, {"purpose": "check"}, {"ranks": (2, 1)}):
        desk.meet("barrier", (), **options)
    assert [message.topic for message, _ in desk.link.posted] == [
        "objects 1 of 0,1,2",
        "objects 1 of 1,2",
        "objects 2 of 0,1,2",
        "check 1 of 0,1,2",
        "objects 1 of 2,1",
    ]


def test_numbers_begin_anew_with_each_cell(desk):
    desk.hold()
    desk.meet("barrier", ())
    desk.meetings.leave_cell()
    desk.meetings.enter_cell("cell-2", RANKS)
    assert desk.meetings.cell_id == "cell-2"
    desk.meet("barrier", ())
    assert [(m.cell_id, m.topic) for m in desk.link.said(Attend)] == [
        ("cell-1", "objects 1 of 0,1,2"),
        ("cell-2", "objects 1 of 0,1,2"),
    ]


def test_an_answer_to_another_meeting_is_dropped(desk):
    def respond(message, frames):
        if isinstance(message, Attend):
            for cell_id, topic in [("cell-1", "objects 1 of 1,2"), ("cell-0", message.topic)]:
                desk.meetings.on_answer(MeetingFailed(cell_id, topic, "left", (2,), "left"), [])
            desk.meetings.on_answer(ValueFound(7, message.topic), [b"x"])
            desk.meetings.on_answer(MeetingHeld("cell-1", message.topic), [])

    desk.link.respond = respond
    assert desk.meet("barrier", ()) == {}


def test_an_answer_that_nobody_waits_for_is_dropped(desk):
    desk.meetings.on_answer(MeetingHeld("cell-1", "objects 1 of 0,1,2"), [])
    desk.hold({0: [b"0"], 2: [b"2"]})
    assert desk.meet()[0] == [b"0"]


# --- how it fails ----------------------------------------------------------------------------


def test_a_mismatch_names_the_odd_ranks_first(desk):
    desk.fail("mismatch", (2, 3), "b() #1 at In[1]:2", others=(0, 1), others_text="a() #1")
    with pytest.raises(CollectiveMismatch) as caught:
        desk.meet()
    error = caught.value
    assert (error.rank, error.call) == (2, "b() #1 at In[1]:2")
    assert (error.peer, error.peer_call) == (0, "a() #1")
    assert str(error) == "ranks 2-3 called b() #1 at In[1]:2, but ranks 0-1 called a() #1"


def test_a_time_out_names_the_missing_and_the_next_step(desk):
    desk.fail("timeout", (0, 2), "did not come to call() #1 within 5 s")
    with pytest.raises(CollectiveTimeout, match=r"ranks 0,2 did not come .* 5 s\..*timeout_s"):
        desk.meet()


def test_a_rank_that_left_is_a_failed_peer(desk):
    desk.fail("left", (2,), "was interrupted")
    with pytest.raises(PeerFailed, match=r"^rank 2 was interrupted$") as caught:
        desk.meet()
    assert caught.value.rank == 2


def test_ranks_that_finished_the_cell_are_all_named(desk):
    desk.fail("absent", (1, 2), "finished the cell and never called a() #1")
    with pytest.raises(CollectiveMissed, match=r"^ranks 1-2 finished the cell") as caught:
        desk.meet()
    assert caught.value.ranks == (1, 2)


def test_what_the_coordinator_refuses_is_a_usage_error(desk):
    desk.fail("refused", (), "too much")
    with pytest.raises(UsageError, match="too much"):
        desk.meet()


def test_after_a_failed_meeting_there_may_be_another(desk):
    desk.fail("timeout")
    with pytest.raises(CollectiveTimeout):
        desk.meet()
    desk.hold()
    desk.meet("barrier", ())
    assert desk.link.said(LeaveMeeting) == []
    assert desk.link.said(Attend)[1].topic == "objects 2 of 0,1,2"


def test_a_coordinator_that_says_nothing_is_not_waited_for_for_ever(desk, monkeypatch):
    monkeypatch.setattr(meetings_module, "COORDINATOR_GRACE_S", 0.1)
    with pytest.raises(CollectiveTimeout, match=r"no answer from the coordinator within 0\.2 s"):
        desk.meet(timeout_s=0.1)


# --- what is refused before anything is said --------------------------------------------------


def assert_refused(desk, error, text, **options):
    with pytest.raises(error, match=text):
        desk.meet(**options)
    assert desk.link.posted == []
    desk.hold()
    desk.meet("barrier", ())
    assert desk.link.said(Attend)[0].topic == "objects 1 of 0,1,2", "a refused call does not count"


def test_ranks_that_do_not_run_the_cell_are_named(desk):
    text = r"call\(\) #1 needs rank 3, but this cell runs on ranks 0-2 of 4"
    assert_refused(desk, UsageError, text, ranks=(1, 3))


def test_who_calls_takes_part(desk):
    assert_refused(desk, UsageError, "leave out rank 1", ranks=(0, 2))


def test_more_than_can_be_sent_is_refused_with_another_way(desk, monkeypatch):
    monkeypatch.setattr(meetings_module, "MEETING_BYTES", 100)
    text = r"call\(\) #1 would send .* Accepted: 256 MiB.*comm\.broadcast.*shared storage"
    assert_refused(desk, UsageError, text, frames=(bytes(51),))


def test_outside_a_cell_nobody_meets(desk):
    desk.meetings.leave_cell()
    assert desk.meetings.cell_id == ""
    with pytest.raises(CommunicatorError, match=r"outside a cell.*%%spmd"):
        desk.meet()


def test_two_threads_cannot_meet_at_once(desk):
    errors = []

    def meet_too():
        try:
            desk.meet("barrier", (), claim="other() #1")
        except CommunicatorError as error:
            errors.append(str(error))
        desk.meetings.on_answer(MeetingHeld("cell-1", "objects 1 of 0,1,2"), [])

    thread = threading.Thread(target=meet_too)
    desk.when_attended(thread.start)
    assert desk.meet("barrier", ()) == {}
    thread.join(5)
    (error,) = errors
    assert error.startswith("other() #1 began while another thread is inside a collective.")
    assert "from one thread" in error
    assert len(desk.link.said(Attend)) == 1


def test_another_thread_may_meet_when_the_first_is_done(desk):
    desk.hold()
    desk.meet("barrier", ())
    found = []
    thread = threading.Thread(target=lambda: found.append(desk.meet("barrier", ())))
    thread.start()
    thread.join(5)
    assert found == [{}]


# --- what ends a wait ------------------------------------------------------------------------


def test_an_abort_ends_the_wait_at_once_and_every_later_meeting_of_the_cell(desk):
    desk.when_attended(lambda: desk.meetings.abort(2, "raised KeyError: 'a'"))
    with within(1), pytest.raises(PeerFailed, match="rank 2 raised KeyError: 'a'") as caught:
        desk.meet()
    assert caught.value.rank == 2
    with pytest.raises(PeerFailed, match="rank 2 raised"):
        desk.meet()
    assert len(desk.link.said(Attend)) == 1
    assert desk.link.said(LeaveMeeting) == [], "everybody knows"


def test_the_next_cell_meets_again(desk):
    desk.meetings.abort(2, "raised")
    desk.meetings.leave_cell()
    desk.meetings.expect_cell()
    desk.meetings.enter_cell("cell-2", RANKS)
    desk.hold()
    assert desk.meet("barrier", ()) == {}


def test_an_abort_that_overtakes_the_start_of_its_cell_is_not_forgotten(desk):
    desk.meetings.leave_cell()
    desk.meetings.expect_cell()
    desk.meetings.abort(0, "raised at once")
    desk.meetings.enter_cell("cell-2", RANKS)
    with pytest.raises(PeerFailed, match="rank 0 raised at once"):
        desk.meet()


def test_the_end_of_the_cell_ends_the_wait_of_a_thread(desk):
    errors = []

    def meet():
        try:
            desk.meet()
        except CommunicatorError as error:
            errors.append(str(error))

    thread = threading.Thread(target=meet)
    attended = threading.Event()
    desk.when_attended(attended.set)
    thread.start()
    assert attended.wait(5)
    desk.meetings.leave_cell()
    thread.join(5)
    assert not thread.is_alive()
    assert "the cell ended while a thread" in errors[0]
    assert desk.link.said(LeaveMeeting)[0].reason.startswith("left call() #1 with Communicator")


def test_ctrl_c_ends_the_wait_at_once_and_the_others_are_told(desk):
    main = threading.main_thread().ident
    desk.when_attended(lambda: signal.pthread_kill(main, signal.SIGINT))
    with within(1), pytest.raises(KeyboardInterrupt):
        desk.meet()
    (left,) = desk.link.said(LeaveMeeting)
    topic = "objects 1 of 0,1,2"
    assert left == LeaveMeeting(1, "cell-1", topic, RANKS, "was interrupted during call() #1")
    desk.hold()
    assert desk.meet("barrier", ()) == {}


def test_another_exception_in_a_signal_handler_is_told_too(desk):
    def raise_it(number, frame):
        raise TimeoutError("enough")

    main = threading.main_thread().ident
    before = signal.signal(signal.SIGUSR1, raise_it)
    try:
        desk.when_attended(lambda: signal.pthread_kill(main, signal.SIGUSR1))
        with pytest.raises(TimeoutError, match="enough"):
            desk.meet()
    finally:
        signal.signal(signal.SIGUSR1, before)
    (left,) = desk.link.said(LeaveMeeting)
    assert left.reason == "left call() #1 with TimeoutError: enough"


# --- values ----------------------------------------------------------------------------------


def test_a_value_is_put_for_the_generation(desk):
    desk.meetings.put("id", b"secret")
    assert desk.link.posted == [(PutValue(1, 7, "id"), [b"secret"])]


def test_a_value_is_waited_for(desk):
    def respond(message, frames):
        desk.meetings.on_answer(ValueFound(6, "id"), [b"of an older generation"])
        desk.meetings.on_answer(ValueFound(7, "other"), [b"other"])
        desk.meetings.on_answer(ValueFound(7, "id"), [memoryview(b"secret")])

    desk.link.respond = respond
    assert desk.meetings.get("id", 5.0) == b"secret"
    assert desk.link.posted == [(AwaitValue(1, 7, "id"), [])]


def test_values_need_no_cell(desk):
    desk.meetings.leave_cell()
    desk.meetings.abort(2, "raised in the cell before")
    desk.meetings.expect_cell()  # as the link does when a generation comes
    desk.link.respond = lambda *_: desk.meetings.on_answer(ValueFound(8, "id"), [b"x"])
    desk.meetings.enter_generation(8, 1, 4)
    assert desk.meetings.get("id", 5.0) == b"x"


def test_a_loss_while_ranks_join_ends_the_wait_for_a_value(desk):
    desk.meetings.leave_cell()
    desk.meetings.enter_generation(8, 1, 4)
    desk.meetings.abort(2, "was lost while generation 8 was formed")
    with pytest.raises(PeerFailed, match="rank 2 was lost while generation 8"):
        desk.meetings.get("id", 5.0)


def test_a_value_that_nobody_puts_is_named(desk):
    with pytest.raises(CollectiveTimeout, match=r"no rank has told 'id' within 0\.05 s"):
        desk.meetings.get("id", 0.05)


def test_an_answer_counts_before_an_abort_that_has_come_after_it(desk):
    def respond(*_):
        desk.meetings.on_answer(ValueFound(7, "id"), [b"x"])
        desk.meetings.abort(0, "raised")

    desk.link.respond = respond
    desk.meetings.enter_generation(7, 1, 4)
    assert desk.meetings.get("id", 5.0) == b"x"


def test_an_abort_ends_the_wait_for_a_value(desk):
    desk.link.respond = lambda *_: desk.meetings.abort(0, "is lost")
    with pytest.raises(PeerFailed, match="rank 0 is lost"):
        desk.meetings.get("id", 5.0)
