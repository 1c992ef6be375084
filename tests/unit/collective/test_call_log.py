import re
import threading

import numpy as np
import pytest
from fakes.call_records import FakeRecorder
from fakes.control import FakeControl, FakeHouse

from jupyter_dist.collective import call_log as journal_module
from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.calls.call import Signature
from jupyter_dist.collective.group import Group, Scope
from jupyter_dist.errors import (
    CollectiveMismatch,
    CollectiveTimeout,
    CommunicatorError,
    PeerFailed,
)

PAIR = Group(1, 2, 3)
PART = Group(1, 2, 3, "1,4", (1, 4))
REDUCE = Signature("all_reduce", "<f4", "3", "sum")
LOST = Breakage("failed", 0, "closed its connection")


class Kept(CallLog):
    """A journal, and what was done when it broke."""

    def __init__(self, group=PAIR, recorder=None, control=None):
        self.told = []
        super().__init__(group, Scope(), recorder, control, self.told.append)

    def collect(self, action=lambda: None, signature=REDUCE):
        """Carry out one collective; give its call."""
        with self.turn(signature.operation):
            call = self.number(signature)
            self.carry_out(call, action)
        return call


@pytest.fixture
def log():
    return Kept()


@pytest.fixture
def part():
    """The journal of a group that was split off."""
    return Kept(PART)


def fail_with(error):
    def action():
        raise error

    return action


# --- numbers -------------------------------------------------------------------------------------


def test_collectives_are_counted_together_and_messages_for_each_peer(log):
    assert [log.collect().sequence for _call in range(3)] == [1, 2, 3]
    assert [log.number_sent(REDUCE, peer).sequence for peer in (0, 0, 2, 0)] == [1, 2, 1, 3]
    assert [log.number_received(REDUCE, peer).sequence for peer in (0, 2, 0)] == [1, 1, 2]
    assert log.collect().sequence == 4


def test_the_same_call_has_the_same_signature(part):
    first, again = (part.sign("reduce", np.ones((2, 3)), "max", 1) for _turn in range(2))
    assert first is again
    assert first == Signature("reduce", "<f8", "2,3", "max", 1, 48, "1,4")


@pytest.mark.parametrize(
    "other",
    [
        ("reduce", np.ones((2, 3), ">f8"), "max", 1),
        ("reduce", np.ones((3, 2)), "max", 1),
        ("reduce", np.ones((2, 3)), "min", 1),
        ("reduce", np.ones((2, 3)), "max", 0),
        ("all_reduce", np.ones((2, 3)), "max", 1),
    ],
    ids=["byte order", "shape", "reduction", "root", "operation"],
)
def test_another_call_has_another_signature(other, log):
    assert log.sign("reduce", np.ones((2, 3)), "max", 1) != log.sign(*other)


def test_signatures_are_forgotten_before_they_fill_the_memory(log):
    kept = log.sign("send", np.empty(0), root=0)
    for length in range(journal_module._MOST_SIGNATURES + 1):
        log.sign("send", np.empty(length, "u1"), root=0)
    assert log.sign("send", np.empty(0), root=0) == kept
    assert len(log._signatures) <= journal_module._MOST_SIGNATURES


# --- who takes part ------------------------------------------------------------------------------


def test_a_call_that_needs_absent_ranks_is_refused_and_takes_no_number(part):
    part.scope.participants = frozenset({0, 4})
    with pytest.raises(CommunicatorError, match=r"ranks 0,4 only; all_reduce .*group 1,4"):
        part.collect()
    part.scope.participants = frozenset({1, 4})
    assert part.collect().sequence == 1
    assert part.told == []


def test_in_a_task_of_one_rank_the_task_is_named():
    log = Kept(PART, recorder=FakeRecorder())
    log.recorder.is_in_task = True
    log.scope.participants = frozenset({4})
    with pytest.raises(CommunicatorError, match=r"ipyparallel .*rank 4 .*all_reduce"):
        log.collect()
    with pytest.raises(CommunicatorError, match=r"ipyparallel .*rank 4 .*send"):
        log.check_taking_part("send", [0])


def test_participants_are_told_in_the_ranks_of_the_group(part):
    assert part.participants is None
    part.scope.participants = frozenset({0, 2, 4})
    assert part.participants == {1}


def test_a_message_to_an_absent_rank_is_refused_by_its_rank_in_the_cluster(part):
    part.scope.participants = frozenset({1})
    part.check_taking_part("send", [0])
    with pytest.raises(CommunicatorError, match=r"send .* rank 4"):
        part.check_taking_part("send", [1])


# --- how it ends ---------------------------------------------------------------------------------


def test_what_breaks_a_call_is_raised_by_every_later_one_and_told_once(log):
    for _turn in range(3):
        with pytest.raises(PeerFailed, match=f"rank 0 {LOST.text}"):
            log.collect(fail_with(Broken(LOST)))
    with pytest.raises(PeerFailed):
        log.check_intact()
    assert log.told == [LOST]
    assert log.sequence == 1


def test_the_first_breakage_counts(log):
    log.break_(LOST)
    log.break_(Breakage("failed", 5, "came too late"))
    log.forget()
    with pytest.raises(PeerFailed, match=f"rank 0 {LOST.text}"):
        log.collect()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyboardInterrupt(), "was interrupted during all_reduce(float32[3], sum) #1"),
        (MemoryError("too much"), "left all_reduce(float32[3], sum) #1 with MemoryError: too much"),
    ],
)
def test_an_error_in_a_call_is_raised_and_leaves_the_ranks_out_of_step(error, told, log):
    with pytest.raises(type(error)):
        log.collect(fail_with(error))
    assert [breakage.text for breakage in log.told] == [told]
    with pytest.raises(CommunicatorError, match=f"broken: rank 1 {re.escape(told)}"):
        log.collect()


def test_a_breakage_is_told_by_the_rank_in_the_cluster(part):
    with pytest.raises(KeyboardInterrupt):
        part.collect(fail_with(KeyboardInterrupt()))
    assert part.told[0].rank == 4
    late = Breakage("timeout", 4, "waited 1 s for rank 1")
    assert isinstance(Kept(PART).break_(late), CollectiveTimeout)


def test_a_closed_communicator_says_so(log):
    log.forget()
    with pytest.raises(CommunicatorError, match="closed"):
        log.collect()


def test_each_call_leaves_a_record_of_how_it_ended():
    recorder = FakeRecorder()
    log = Kept(recorder=recorder)
    log.collect()
    with pytest.raises(PeerFailed):
        log.collect(fail_with(Broken(LOST)))
    assert [str(call) for call in recorder.calls] == [
        f"all_reduce(float32[3], sum) #{number}" for number in (1, 2)
    ]
    assert recorder.ends == {0: True, 1: False}


# --- comparing -----------------------------------------------------------------------------------


def test_calls_are_compared_over_the_control_channel_only_when_that_is_wanted():
    control = FakeControl(0, FakeHouse())
    log = Kept(Group(0, 1, 3), FakeRecorder(), control)
    log.scope.is_checked = True
    log.collect()
    assert control.collectives == [], "one rank has nobody to compare with"
    log = Kept(PART, FakeRecorder(), control)
    log.collect()
    assert control.collectives == []


def test_all_members_meet_with_what_they_call_and_where():
    house = FakeHouse()
    controls = [FakeControl(rank, house) for rank in PART.members]
    journals = [
        Kept(Group(rank, 2, 3, "1,4", (1, 4)), FakeRecorder(), control)
        for rank, control in enumerate(controls)
    ]
    for log in journals:
        log.scope.is_checked = True
        log.scope.timeout_s = 7.0
    threads = [threading.Thread(target=log.collect) for log in journals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for control in controls:
        [meeting] = control.collectives
        assert meeting["ranks"] == (1, 4)
        assert meeting["claim"] == "all_reduce(float32[3], sum) #1"
        assert (meeting["site"], meeting["agreement"]) == ("In[3]:7", "In[3]:7")
        assert meeting["timeout_s"] == 7.0


class Refusing:
    """A control channel on which every meeting fails."""

    def __init__(self):
        self.agreements = []

    def meet(self, purpose, kind, ranks, frames=(), **asked):
        self.agreements.append(asked["agreement"])
        raise CollectiveMismatch(1, asked["claim"], 0, "barrier() #1")


def test_a_call_that_differs_is_not_begun_and_breaks_the_communicator():
    control = Refusing()
    log = Kept(recorder=FakeRecorder(), control=control)
    log.scope.is_checked = True
    done = []
    for _turn in range(2):
        with pytest.raises(CollectiveMismatch, match=r"rank 0.* barrier\(\) #1"):
            log.collect(lambda: done.append(1))
    assert (done, len(log.told), len(control.agreements)) == ([], 1, 1)


def test_roots_and_others_may_stand_on_different_lines():
    control = Refusing()
    log = Kept(recorder=FakeRecorder(), control=control)
    log.scope.is_checked = True
    with pytest.raises(CollectiveMismatch):
        log.collect(signature=Signature("broadcast", "<f4", "3", root=0))
    assert control.agreements == [""]


# --- threads -------------------------------------------------------------------------------------


class Inside:
    """A thread inside a call, until it is let go."""

    def __init__(self, log):
        self._may_go = threading.Event()
        self.is_inside = threading.Event()
        self.sequence = None
        self._thread = threading.Thread(target=self._call, args=(log,))

    def _call(self, log):
        self.sequence = log.collect(self._stay).sequence

    def _stay(self):
        self.is_inside.set()
        assert self._may_go.wait(10)

    def __enter__(self):
        self._thread.start()
        assert self.is_inside.wait(10)
        return self

    def __exit__(self, *_error):
        self._may_go.set()
        self._thread.join()


def test_a_second_thread_is_refused_and_takes_no_number(monkeypatch, log):
    monkeypatch.setattr(journal_module, "_OTHER_THREAD_PATIENCE_S", 0.05)
    with (
        Inside(log) as first,
        pytest.raises(CommunicatorError, match=r"^all_reduce .* thread"),
    ):
        log.collect()
    assert first.sequence == 1
    assert log.collect().sequence == 2
    assert log.told == []


def test_an_idle_communicator_breaks_at_once(log):
    log.break_if_idle(LOST)
    assert log.told == [LOST]
    with pytest.raises(PeerFailed):
        log.collect()


def test_a_busy_communicator_breaks_when_its_call_has_ended_well(log):
    with Inside(log) as inside:
        log.break_if_idle(LOST)
        assert log.told == []
    assert inside.sequence == 1
    assert log.told == [LOST]
    with pytest.raises(PeerFailed):
        log.collect()
