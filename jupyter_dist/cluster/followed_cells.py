"""What cells say that someone else sent, or that have ended: follow one, or read it again."""

import re
from collections.abc import Callable

import msgspec

from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.spmd import CellWatcher, Gathering, gather
from jupyter_dist.errors import UsageError
from jupyter_dist.protocol.messages import (
    CellEvent,
    CellEvents,
    CellFollowed,
    CellsListed,
    FollowCell,
    KeptCell,
    ListCells,
    OutputReplayed,
    ReplayOutput,
)

ANSWER_TIMEOUT_S = 10.0
_LABEL = re.compile(r"\s*(?:In\s*\[\s*)?(\d+)\s*\]?\s*", re.IGNORECASE)


def follow_cell(
    line: Connection, gathering: Gathering, interrupt: Callable[[], object] | None
) -> SpmdResult | None:
    """Gather the running cell from its beginning to its end; None when nothing runs.

    The first Ctrl-C calls `interrupt` and the gathering goes on; without it, it is raised.
    """

    def leave() -> None:
        raise KeyboardInterrupt("this client no longer follows the cell; the cell goes on")

    gather(line, gathering, interrupt or leave)
    return gathering.result() if gathering.has_cell else None


class Replay(msgspec.Struct, frozen=True):
    """What is kept of one cell."""

    cell: KeptCell
    events: tuple[CellEvent, ...]
    omitted_bytes: int = 0
    """So much older output was not kept."""

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


def ask_outputs(line: Connection) -> tuple[KeptCell, ...]:
    """Ask which cells are kept."""
    request = ListCells(line.new_request_id())
    return line.ask(request, CellsListed, timeout_s=ANSWER_TIMEOUT_S)[0].cells


def ask_replay(line: Connection, label: str | int | None) -> Replay:
    """Ask for what a cell has said."""
    request = ReplayOutput(line.new_request_id(), read_label(label))
    replayed, _ = line.ask(request, OutputReplayed, timeout_s=ANSWER_TIMEOUT_S)
    return Replay(replayed.cell, replayed.events, replayed.omitted_bytes)


def read_label(label: str | int | None) -> str:
    """Read `3` or `In[3]`; raises UsageError."""
    if label is None:
        return ""
    found = _LABEL.fullmatch(str(label))
    if found is None:
        raise UsageError(f"{label!r} names no cell. Accepted: its number, as 3 or In[3].")
    return f"In[{int(found[1])}]"
