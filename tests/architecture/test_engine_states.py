"""The table of engine states is whole."""

import pytest

from jupyter_dist.coordinator.state.engine_state import TRANSITIONS, EngineEvent, EngineState


def reachable():
    found = {EngineState.STARTING}
    new = set(found)
    while new:
        new = {after for state in found for after in TRANSITIONS[state].values()} - found
        found |= new
    return found


def test_the_table_covers_every_state():
    assert set(TRANSITIONS) == set(EngineState)


def test_every_state_can_be_reached():
    assert reachable() == set(EngineState)


@pytest.mark.parametrize("event", list(EngineEvent))
def test_every_event_can_happen(event):
    assert any(event in TRANSITIONS[state] for state in reachable())


@pytest.mark.parametrize("state", list(EngineState))
def test_an_engine_can_get_lost_or_be_told_to_leave_at_any_time(state):
    assert {EngineEvent.WENT_AWAY, EngineEvent.TOLD_TO_LEAVE} <= set(TRANSITIONS[state])


def test_only_work_makes_busy_and_only_its_end_makes_idle_again():
    into_busy = {
        (state, event)
        for state, row in TRANSITIONS.items()
        for event, after in row.items()
        if after is EngineState.BUSY
    }
    assert into_busy == {(EngineState.IDLE, EngineEvent.WORK_SENT)}
    assert [
        e for e, after in TRANSITIONS[EngineState.BUSY].items() if after is EngineState.IDLE
    ] == [EngineEvent.WORK_DONE]


def test_an_end_leads_nowhere():
    for state in (EngineState.LOST, EngineState.LEFT):
        assert set(TRANSITIONS[state].values()) == {state}
