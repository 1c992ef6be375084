import pytest

from jupyter_dist.model.hosts.start_stage import Observed, StageClock, StartStage

UP = {"is_up": True, "ranks": 2}
BORN = {**UP, "is_ordered": True, "present_ranks": 2}


@pytest.mark.parametrize(
    ("seen", "stage"),
    [
        ({"is_awaited": True}, StartStage.WAITING),
        ({"is_queued": True}, StartStage.QUEUE),
        ({**UP, "is_queued": True}, StartStage.WAITING),
        ({"is_connecting": True}, StartStage.SSH),
        ({}, StartStage.AGENT),
        (UP, StartStage.WAITING),
        ({**UP, "is_ordered": True, "present_ranks": 1}, StartStage.ENGINES),
        (BORN, StartStage.ENGINES),
        ({**BORN, "is_welcomed": True, "ready_ranks": 1}, StartStage.COMMUNICATOR),
        ({**BORN, "is_welcomed": True, "ready_ranks": 2}, StartStage.READY),
        ({**BORN, "is_welcomed": True, "problem": "its agent is gone"}, StartStage.LOST),
    ],
)
def test_the_stage_follows_from_what_was_seen(seen, stage):
    assert Observed(**seen).stage is stage


def test_each_stage_has_its_time_and_the_present_one_goes_on():
    clock = StageClock(10.0)
    clock.take(Observed(is_connecting=True), 10.5)
    clock.take(Observed(note="dialing"), 12.0)
    told = clock.tell("a", 12.25)
    assert told.passed_s == {"ssh": 2.0}
    assert (told.stage, told.seconds, told.note) == (StartStage.AGENT, 0.25, "dialing")


def test_a_stage_that_comes_twice_has_both_times():
    """A host connects, is given our package, and connects again."""
    clock = StageClock(0.0)
    for now_s, is_connecting in ((1.0, True), (2.0, False), (3.0, True), (5.0, False)):
        clock.take(Observed(is_connecting=is_connecting), now_s)
    assert clock.tell("a", 5.0).passed_s == {"ssh": 4.0, "agent": 1.0}


def test_a_host_that_is_lost_stays_lost_and_keeps_its_reason():
    clock = StageClock(0.0)
    clock.take(Observed(problem="refused"), 1.0)
    clock.take(Observed(is_connecting=True), 2.0)
    told = clock.tell("a", 2.0)
    assert (told.stage, told.note, told.seconds) == (StartStage.LOST, "refused", 2.0)
