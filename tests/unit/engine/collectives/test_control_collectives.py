import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.link import FakeLink

from jupyter_dist.engine.collectives import control_collectives as meetings_module
from jupyter_dist.engine.collectives.control_collectives import ControlCollectives
from jupyter_dist.errors import (
    CollectiveMismatch,
    CollectiveMissed,
    CollectiveTimeout,
    CommunicatorError,
    PeerFailed,
    UsageError,
)
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.messages import (
    AwaitValue,
    CollectiveCompleted,
    CollectiveFailed,
    JoinCollective,
    PutValue,
    ValueFound,
    WithdrawCollective,
)
from tests.patience import within

RANKS = (0, 1, 2)
TOPIC = "objects 1 of 0-2"


class Desk:
    """The meetings of rank 1 in a cell on ranks 0 to 2 of 4, and what the coordinator answers."""

    def __init__(self):
        self.link = FakeLink()
        self.collectives = ControlCollectives(1, 4, self.link.post, HeldTime())
        self.collectives.enter_generation(7, 1, 4)
        self.next_cell("cell-1")

    def next_cell(self, cell_id):
        self.collectives.leave_cell()
        self.collectives.expect_cell()
        self.collectives.enter_cell(cell_id, RANKS)

    def meet(self, kind="all_gather", frames=(b"mine",), ranks=RANKS, **options):
        given = {"purpose": "objects", "claim": "call() #1", "timeout_s": 5.0, **options}
        return self.collectives.meet(given.pop("purpose"), kind, ranks, list(frames), **given)

    def answer(self, answer, *frames):
        self.collectives.on_answer(answer, list(frames))

    def when_joined(self, act):
        """Do this with each meeting that the rank joins, on the link's thread."""
        self.link.respond = lambda message, _: (
            act(message) if isinstance(message, JoinCollective) else None
        )

    def hold(self, shares=None):
        """Have each meeting held, with these frames of these ranks."""
        shares = shares or {}
        held = tuple(shares), tuple(map(len, shares.values()))
        frames = [frame for brought in shares.values() for frame in brought]
        self.when_joined(
            lambda it: self.answer(CollectiveCompleted(it.cell_id, it.topic, *held), *frames)
        )

    def fail(self, *why, **others):
        """Have each meeting fail."""
        self.when_joined(
            lambda it: self.answer(CollectiveFailed(it.cell_id, it.topic, *why, **others))
        )

    def topics(self):
        return [message.topic for message in self.link.said(JoinCollective)]


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
    assert message == JoinCollective(
        1, "cell-1", TOPIC, None, "scatter", "c() #3", "x", "In[2]:5", 1, (1, 0, 1), 2.5
    )


@pytest.mark.parametrize(
    ("kind", "root", "shares", "found"),
    [
        ("all_gather", -1, {2: [b"2", b"+"], 0: [b"0"]}, {0: [b"0"], 1: [b"my"], 2: [b"2", b"+"]}),
        ("gather", 1, {0: [b"0"], 2: [b"2"]}, {0: [b"0"], 1: [b"my"], 2: [b"2"]}),
        ("gather", 0, {}, {}),
        ("broadcast", 2, {2: [b"news"]}, {2: [b"news"]}),
    ],
)
def test_what_was_brought_is_given_by_rank_and_in_order(desk, kind, root, shares, found):
    desk.hold(shares)
    assert list(desk.meet(kind, (b"my",), root=root).items()) == list(found.items())


def test_meetings_are_numbered_by_purpose_and_ranks_and_anew_in_each_cell(desk):
    desk.hold()
    for options in ({}, {"ranks": (1, 2)}, {}, {"purpose": "check"}, {"ranks": (2, 1)}):
        desk.meet("barrier", (), **options)
    numbered = ["objects 1 of 1-2", "objects 2 of 0-2", "check 1 of 0-2", "objects 1 of 2,1"]
    assert desk.topics() == [TOPIC, *numbered]
    desk.next_cell("cell-2")
    assert desk.collectives.cell_id == "cell-2"
    desk.meet("barrier", ())
    assert (desk.link.said(JoinCollective)[-1].cell_id, desk.topics()[-1]) == ("cell-2", TOPIC)


def test_answers_to_other_meetings_or_before_anybody_waits_are_dropped(desk):
    def respond(message):
        for cell_id, topic in [("cell-1", "objects 1 of 1,2"), ("cell-0", message.topic)]:
            desk.answer(CollectiveFailed(cell_id, topic, "left", (2,), "left"))
        desk.answer(ValueFound(7, message.topic), b"x")
        desk.answer(CollectiveCompleted("cell-1", message.topic))

    desk.answer(CollectiveFailed("cell-1", TOPIC, "left", (2,), "left"))
    desk.when_joined(respond)
    assert desk.meet("barrier", ()) == {}


# --- how it fails ----------------------------------------------------------------------------


def test_a_mismatch_names_the_odd_ranks_first(desk):
    desk.fail("mismatch", (2, 3), "b() #1 at In[1]:2", others=(0, 1), others_text="a() #1")
    with pytest.raises(CollectiveMismatch, match=r"2-3.*b\(\) #1 at In\[1\]:2.*0-1") as caught:
        desk.meet()
    error = caught.value
    assert (error.rank, error.call) == (2, "b() #1 at In[1]:2")
    assert (error.peer, error.peer_call) == (0, "a() #1")


@pytest.mark.parametrize(
    ("kind", "ranks", "error", "facts"),
    [
        ("timeout", (0, 2), CollectiveTimeout, {}),
        ("left", (2,), PeerFailed, {"rank": 2, "reason": "did it"}),
        ("absent", (1, 2), CollectiveMissed, {"ranks": (1, 2)}),
        ("refused", (), UsageError, {}),
    ],
)
def test_a_meeting_that_fails_raises_why_and_another_may_follow(desk, kind, ranks, error, facts):
    desk.fail(kind, ranks, "did it")
    with pytest.raises(error, match=f"{name_ranks(ranks)} did it" if ranks else "did it") as caught:
        desk.meet()
    assert {name: getattr(caught.value, name) for name in facts} == facts
    desk.hold()
    desk.meet("barrier", ())
    assert desk.link.said(WithdrawCollective) == []
    assert desk.topics()[1] == "objects 2 of 0-2"


def test_a_coordinator_that_says_nothing_is_not_waited_for_for_ever(desk, monkeypatch):
    monkeypatch.setattr(meetings_module, "COORDINATOR_GRACE_S", 0.1)
    with pytest.raises(CollectiveTimeout, match=r"0\.2 s"):
        desk.meet(timeout_s=0.1)


# --- what is refused before anything is said --------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ranks": (1, 3)}, r"call\(\) #1 .* rank 3, .* 0-2 of 4"),
        ({"ranks": (0, 2)}, "rank 1"),
        ({"frames": (bytes(51),)}, r"call\(\) #1 .* 256 MiB.*comm\.broadcast"),
    ],
    ids=["ranks that do not run the cell", "without the caller", "more than can be sent"],
)
def test_a_call_that_is_refused_says_nothing_and_does_not_count(desk, monkeypatch, options, text):
    monkeypatch.setattr(meetings_module, "MEETING_BYTES", 100)
    with pytest.raises(UsageError, match=text):
        desk.meet(**options)
    assert desk.link.posted == []
    desk.hold()
    desk.meet("barrier", ())
    assert desk.topics() == [TOPIC]


def test_outside_a_cell_nobody_meets(desk):
    desk.collectives.leave_cell()
    assert desk.collectives.cell_id == ""
    with pytest.raises(CommunicatorError, match="%%spmd"):
        desk.meet()


def test_two_threads_meet_one_after_the_other_and_never_at_once(desk):
    def meet_too(message):
        with pytest.raises(CommunicatorError, match=r"^other\(\) #1 "):
            desk.meet("barrier", (), claim="other() #1")
        desk.answer(CollectiveCompleted("cell-1", TOPIC))

    desk.when_joined(meet_too)
    assert desk.meet("barrier", ()) == {}
    assert desk.topics() == [TOPIC]
    desk.hold()
    with ThreadPoolExecutor() as others:
        assert others.submit(desk.meet, "barrier", ()).result(5) == {}


# --- what ends a wait ------------------------------------------------------------------------


def test_an_abort_ends_the_wait_at_once_and_every_later_meeting_of_the_cell(desk):
    desk.when_joined(lambda _: desk.collectives.abort(2, "raised KeyError: 'a'"))
    for _ in range(2):
        with within(1), pytest.raises(PeerFailed) as caught:
            desk.meet()
        assert (caught.value.rank, caught.value.reason) == (2, "raised KeyError: 'a'")
    assert len(desk.topics()) == 1
    assert desk.link.said(WithdrawCollective) == [], "everybody knows"
    desk.next_cell("cell-2")
    desk.hold()
    assert desk.meet("barrier", ()) == {}


def test_an_abort_that_overtakes_the_start_of_its_cell_is_not_forgotten(desk):
    desk.collectives.leave_cell()
    desk.collectives.expect_cell()
    desk.collectives.abort(0, "raised")
    desk.collectives.enter_cell("cell-2", RANKS)
    with pytest.raises(PeerFailed, match="rank 0 raised"):
        desk.meet()


def test_the_end_of_the_cell_ends_the_wait_of_a_thread(desk):
    attended = threading.Event()
    desk.when_joined(lambda _: attended.set())
    with ThreadPoolExecutor() as others:
        meeting = others.submit(desk.meet)
        assert attended.wait(5)
        desk.collectives.leave_cell()
        assert type(meeting.exception(5)) is CommunicatorError
    (left,) = desk.link.said(WithdrawCollective)
    assert left.reason.startswith("left call() #1 with Communicator")


def raise_it(number, frame):
    raise TimeoutError("enough")


@pytest.mark.parametrize(
    ("number", "handler", "error", "reason"),
    [
        (
            signal.SIGINT,
            signal.default_int_handler,
            KeyboardInterrupt,
            "was interrupted during call() #1",
        ),
        (signal.SIGUSR1, raise_it, TimeoutError, "left call() #1 with TimeoutError: enough"),
    ],
)
def test_a_signal_ends_the_wait_at_once_and_the_others_are_told(
    desk, number, handler, error, reason
):
    main = threading.main_thread().ident
    before = signal.signal(number, handler)
    desk.when_joined(lambda _: signal.pthread_kill(main, number))
    try:
        with within(1), pytest.raises(error):
            desk.meet()
    finally:
        signal.signal(number, before)
    assert desk.link.said(WithdrawCollective) == [
        WithdrawCollective(1, "cell-1", TOPIC, None, reason)
    ]
    desk.hold()
    assert desk.meet("barrier", ()) == {}


# --- values ----------------------------------------------------------------------------------


def test_a_value_is_put_for_the_generation(desk):
    desk.collectives.put("id", b"secret")
    assert desk.link.posted == [(PutValue(1, 7, "id"), [b"secret"])]


def test_a_value_is_waited_for_and_counts_before_an_abort_that_has_come_after_it(desk):
    def respond(message, frames):
        desk.answer(ValueFound(6, "id"), b"of an older generation")
        desk.answer(ValueFound(7, "other"), b"other")
        desk.answer(ValueFound(7, "id"), memoryview(b"secret"))
        desk.collectives.abort(0, "raised")

    desk.link.respond = respond
    assert desk.collectives.get("id", 5.0) == b"secret"
    assert desk.link.posted == [(AwaitValue(1, 7, "id"), [])]


def test_values_need_no_cell(desk):
    desk.collectives.leave_cell()
    desk.collectives.abort(2, "raised in the cell before")
    desk.collectives.expect_cell()  # as the link does when a generation comes
    desk.link.respond = lambda *_: desk.answer(ValueFound(8, "id"), b"x")
    desk.collectives.enter_generation(8, 1, 4)
    assert desk.collectives.get("id", 5.0) == b"x"


@pytest.mark.parametrize("is_early", [True, False])
def test_a_loss_while_ranks_join_ends_the_wait_for_a_value(desk, is_early):
    desk.collectives.leave_cell()
    desk.collectives.enter_generation(8, 1, 4)
    if is_early:
        desk.collectives.abort(2, "was lost")
    else:
        desk.link.respond = lambda *_: desk.collectives.abort(2, "was lost")
    with pytest.raises(PeerFailed, match="rank 2 was lost"):
        desk.collectives.get("id", 5.0)


def test_a_value_that_nobody_puts_is_named(desk):
    with pytest.raises(CollectiveTimeout, match=r"'id' .*0\.05 s"):
        desk.collectives.get("id", 0.05)
