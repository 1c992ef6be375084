import pytest

from jupyter_dist.coordinator.state.engine_state import EngineEvent, EngineState, next_state


def walk(*events):
    state = EngineState.STARTING
    for event in events:
        state = next_state(state, event)
    return state


def test_an_engine_joins_works_and_is_idle_again():
    assert walk(EngineEvent.JOINED) is EngineState.IDLE
    assert walk(EngineEvent.JOINED, EngineEvent.WORK_SENT) is EngineState.BUSY
    assert (
        walk(EngineEvent.JOINED, EngineEvent.WORK_SENT, EngineEvent.WORK_DONE) is EngineState.IDLE
    )


@pytest.mark.parametrize("event", [EngineEvent.WORK_SENT, EngineEvent.REGROUPED])
def test_a_busy_engine_gets_no_second_piece_of_work_and_no_new_generation(event):
    with pytest.raises(KeyError, match=f"{EngineState.BUSY}.*{event}"):
        next_state(EngineState.BUSY, event)


@pytest.mark.parametrize("state", [EngineState.STARTING, EngineState.IDLE, EngineState.BUSY])
def test_every_engine_that_is_present_can_get_lost(state):
    assert next_state(state, EngineEvent.WENT_AWAY) is EngineState.LOST


@pytest.mark.parametrize("state", [EngineState.LOST, EngineState.LEFT])
@pytest.mark.parametrize("event", [EngineEvent.WENT_AWAY, EngineEvent.TOLD_TO_LEAVE])
def test_an_end_is_final(state, event):
    assert next_state(state, event) is state


@pytest.mark.parametrize("state", [EngineState.LOST, EngineState.LEFT])
@pytest.mark.parametrize(
    "event", [EngineEvent.JOINED, EngineEvent.WORK_SENT, EngineEvent.WORK_DONE]
)
def test_nothing_comes_back_from_its_end(state, event):
    with pytest.raises(KeyError):
        next_state(state, event)
