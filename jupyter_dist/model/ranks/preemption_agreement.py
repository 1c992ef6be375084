"""What ranks agree on when a host will be taken away: at which call all of them save."""

from collections.abc import Collection, Sequence

import msgspec

from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.plurals import fit

DEFAULT_LEFT_S = 30.0
"""What most schedulers give between SIGTERM and SIGKILL; counts where nobody knows better."""
NEAR_END_S = 120.0
"""So long before the end of a batch job its ranks are told, if the job is long enough."""
_SHARE_OF_SHORT_JOBS = 1 / 3
"""Of what was left when the end became known; that is when the ranks of shorter jobs are told."""
_SHARE_OF_TIME_LEFT = 0.9
"""What ranks may use of the time that is left; the rest is for the words about it."""


class Position(msgspec.Struct, frozen=True):
    """Where a rank stood when it heard of the notice; it does not go further until all agree."""

    cell_id: str = ""
    """The cell that it runs; empty: none."""
    calls: int = 0
    """How often should_save() has answered in that cell."""
    step: int = -1
    """The last step that was given to it there; -1: none ever was."""


class SavePoint(msgspec.Struct, frozen=True):
    """The call of should_save() that is answered with True, on every rank."""

    cell_id: str
    call: int
    """Counted from 1 within the cell."""
    step: int = -1
    """What counts for calls with a step: the first that has got so far; -1: nobody gives any."""
    saves_marked: bool = False
    """Every rank of the cluster runs the cell, and all save there what is marked."""

    def is_reached(self, cell_id: str, call: int, step: int = -1) -> bool:
        """Return whether this call is the one, or comes after it; so does every other cell."""
        if cell_id != self.cell_id:
            return True
        if step >= 0 and self.step >= 0:
            return step >= self.step
        return call >= self.call

    def is_passed(self, position: Position) -> bool:
        """Return whether a rank that stands there has been answered at this call already."""
        is_there = position.cell_id == self.cell_id and position.calls > 0
        return is_there and self.is_reached(position.cell_id, position.calls, position.step)


def choose_save_point(
    cell_id: str, positions: Collection[Position], *, saves_marked: bool = False
) -> SavePoint:
    """Choose the first call that no rank has passed.

    A rank that has not begun this cell yet will count from its beginning.
    """
    there = [position for position in positions if position.cell_id == cell_id]
    call = max((position.calls for position in there), default=0) + 1
    step = max((position.step for position in there), default=-1)
    return SavePoint(cell_id, call, step + 1 if step >= 0 else -1, saves_marked)


def time_to_save_s(left_s: float) -> float:
    """Return how long ranks may take when so much is left; 0 or less: nobody knows how much."""
    return (left_s if left_s > 0 else DEFAULT_LEFT_S) * _SHARE_OF_TIME_LEFT


def is_end_near(left_s: float, known_left_s: float) -> bool:
    """Return whether ranks are to be told of the end of their job.

    `known_left_s` was left when that end became known.
    """
    return left_s <= min(NEAR_END_S, known_left_s * _SHARE_OF_SHORT_JOBS)


def describe_notice(hosts: Sequence[str], reason: str, left_s: float) -> str:
    """Return who will be taken away, why and when, as a sentence without its end."""
    what = f"{name_some(hosts) if hosts else 'every host'} will be taken away"
    within = f" in {round(left_s)} s" if left_s > 0 else ""
    return f"{what}{within}{f' ({reason})' if reason else ''}"


def describe_late(
    never_called: Collection[int], saving: Collection[int], idle: Collection[int]
) -> str:
    """Name the ranks that have not handled a notice in time, by what they do; empty: none."""
    deeds = (
        (never_called, "has", "have", "not come to the checkpoint.should_save() at which all save"),
        (saving, "is", "are", "still saving"),
        (idle, "has", "have", "not run what was to be run"),
    )
    return "; ".join(
        f"{name_ranks(ranks)} {fit(ranks, one, many)} {deed}"
        for ranks, one, many, deed in deeds
        if ranks
    )
