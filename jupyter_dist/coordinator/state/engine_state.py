"""The life of an engine as a table; a missing entry is an illegal transition."""

from enum import StrEnum


class EngineState(StrEnum):
    """Where an engine stands."""

    STARTING = "starting"
    """Its process was asked for; it has not joined this generation yet."""
    IDLE = "idle"
    BUSY = "busy"
    """It runs a cell, or stores or hands out objects."""
    LOST = "lost"
    """Its process is gone, or its host is out of reach for too long."""
    LEFT = "left"
    """It ended because we asked it to."""


ABSENT = (EngineState.LOST, EngineState.LEFT)
"""There is no process that takes part."""


class EngineEvent(StrEnum):
    """What can happen to an engine."""

    JOINED = "joined"
    REGROUPED = "regrouped"
    WORK_SENT = "work_sent"
    WORK_DONE = "work_done"
    WENT_AWAY = "went_away"
    TOLD_TO_LEAVE = "told_to_leave"


_ENDS = {
    EngineEvent.WENT_AWAY: EngineState.LOST,
    EngineEvent.TOLD_TO_LEAVE: EngineState.LEFT,
}

TRANSITIONS: dict[EngineState, dict[EngineEvent, EngineState]] = {
    EngineState.STARTING: {
        EngineEvent.JOINED: EngineState.IDLE,
        EngineEvent.REGROUPED: EngineState.STARTING,
        **_ENDS,
    },
    EngineState.IDLE: {
        EngineEvent.WORK_SENT: EngineState.BUSY,
        EngineEvent.REGROUPED: EngineState.STARTING,
        **_ENDS,
    },
    EngineState.BUSY: {EngineEvent.WORK_DONE: EngineState.IDLE, **_ENDS},
    EngineState.LOST: dict.fromkeys(_ENDS, EngineState.LOST),
    EngineState.LEFT: dict.fromkeys(_ENDS, EngineState.LEFT),
}


def next_state(state: EngineState, event: EngineEvent) -> EngineState:
    """Look the transition up; raises KeyError with both names for one that is not allowed."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise KeyError(f"an engine that is {state} cannot be {event}") from None
