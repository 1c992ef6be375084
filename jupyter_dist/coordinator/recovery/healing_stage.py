"""The stages of a healing as a table; a missing entry is an illegal transition.

An entry that leaves a stage as it is stands for an event that is expected there and ends nothing.
"""

from enum import StrEnum


class HealingStage(StrEnum):
    """What a healing waits for."""

    ENDING = "ending"
    """The processes of the ranks that are replaced have to end."""
    RETURNING = "returning"
    """Lost hosts may come back; then every rank gets its place."""
    FORMING = "forming"
    """New engines and the others form a generation."""
    SETTING_UP = "setting_up"
    """New ranks run the setup cells."""
    COMPARING = "comparing"
    """Ranks are asked for their names."""
    HEALED = "healed"
    FAILED = "failed"


class HealingEvent(StrEnum):
    """What can happen to a healing."""

    ENDED = "ended"
    SEATED = "seated"
    FORMED = "formed"
    SET_UP = "set_up"
    COMPARED = "compared"
    RANK_LOST = "rank_lost"
    """It is replaced with the others, as long as these have not joined."""
    NEWCOMER_DIED = "newcomer_died"
    """A new engine has not survived its birth, and its host is there: no other would, either."""
    FAILED = "failed"


_LOSSES = (HealingEvent.RANK_LOST, HealingEvent.NEWCOMER_DIED)
_FAILURES = dict.fromkeys((*_LOSSES, HealingEvent.FAILED), HealingStage.FAILED)

TRANSITIONS: dict[HealingStage, dict[HealingEvent, HealingStage]] = {
    HealingStage.ENDING: {
        HealingEvent.ENDED: HealingStage.RETURNING,
        **dict.fromkeys(_LOSSES, HealingStage.ENDING),
        HealingEvent.FAILED: HealingStage.FAILED,
    },
    HealingStage.RETURNING: {
        HealingEvent.SEATED: HealingStage.FORMING,
        **dict.fromkeys(_LOSSES, HealingStage.RETURNING),
        HealingEvent.FAILED: HealingStage.FAILED,
    },
    HealingStage.FORMING: {
        HealingEvent.FORMED: HealingStage.SETTING_UP,
        **_FAILURES,
        HealingEvent.RANK_LOST: HealingStage.ENDING,
    },
    HealingStage.SETTING_UP: {HealingEvent.SET_UP: HealingStage.COMPARING, **_FAILURES},
    HealingStage.COMPARING: {HealingEvent.COMPARED: HealingStage.HEALED, **_FAILURES},
    HealingStage.HEALED: dict.fromkeys(_LOSSES, HealingStage.HEALED),
    HealingStage.FAILED: dict.fromkeys(_LOSSES, HealingStage.FAILED),
}


def next_stage(stage: HealingStage, event: HealingEvent) -> HealingStage:
    """Look the transition up; raises KeyError with both names for one that is not allowed."""
    try:
        return TRANSITIONS[stage][event]
    except KeyError:
        raise KeyError(f"a healing that is {stage} cannot take {event}") from None
