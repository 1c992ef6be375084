"""What is kept of cells that have ended, or that someone else has sent, to be read again."""

import re

import msgspec

from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.spmd import CellWatcher, Gathering
from jupyter_dist.errors import UsageError
from jupyter_dist.protocol.messages import (
    CellEvent,
    CellEvents,
    CellFollowed,
    FollowCell,
    KeptCell,
)

_LABEL = re.compile(r"\s*(?:In\s*\[\s*)?(\d+)\s*\]?\s*", re.IGNORECASE)


class Replay(msgspec.Struct, frozen=True):
    """What is kept of one cell."""

    cell: KeptCell
    events: tuple[CellEvent, ...]
    omitted_bytes: int = 0
    """So much older output was not kept."""
    mark: int = 0
    """What came until now; `since` of a later replay."""

    @property
    def result(self) -> SpmdResult | None:
        """What came of the cell; None while it runs."""
        return None if self.cell.is_running else self.show(None)

    def show(self, watcher: CellWatcher | None) -> SpmdResult | None:
        """Let a watcher see everything in its order; gives the result, None while it runs."""
        gathering = Gathering(FollowCell(""), watcher)
        gathering.take(CellFollowed("", self.cell, self.omitted_bytes))
        gathering.take(CellEvents(self.cell.cell_id, self.events))
        return None if self.cell.is_running else gathering.result()


def read_label(label: str | int | None) -> str:
    """Read `3` or `In[3]`; raises UsageError."""
    if label is None:
        return ""
    found = _LABEL.fullmatch(str(label))
    if found is None:
        raise UsageError(f"{label!r} names no cell. Accepted: its number, as 3 or In[3].")
    return f"In[{int(found[1])}]"
