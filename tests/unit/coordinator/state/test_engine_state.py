import pytest

from jupyter_dist.coordinator.state.engine_state import EngineEvent, EngineState, next_state

STARTING, IDLE, BUSY, LOST, LEFT = EngineState
JOINED, REGROUPED, WORK_SENT, WORK_DONE, WENT_AWAY, _TOLD_TO_LEAVE = EngineEvent


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (STARTING, JOINED, IDLE),
        (IDLE, WORK_SENT, BUSY),
        (BUSY, WORK_DONE, IDLE),
        *((state, WENT_AWAY, LOST) for state in (STARTING, IDLE, BUSY)),
    ],
)
def test_an_engine_joins_works_is_idle_again_and_can_get_lost(before, event, after):
    assert next_state(before, event) is after


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (BUSY, WORK_SENT),
        (BUSY, REGROUPED),
        *((end, event) for end in (LOST, LEFT) for event in (JOINED, WORK_SENT, WORK_DONE)),
    ],
)
def test_the_busy_get_nothing_more_and_nothing_comes_back_from_its_end(state, event):
    with pytest.raises(KeyError, match=f"{state}.*{event}"):
        next_state(state, event)
