"""What takes longer than a call: begun by one, and asked after by later ones."""

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextvars import ContextVar, copy_context
from typing import NamedTuple

from jupyter_dist.cluster.cells.background_cell import BackgroundCell
from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.protocol.messages import Output, RankFinished

FIRST_LABEL = 10_001
"""Cells of agents are numbered from here on: they take no number of a notebook."""
MOST_KEPT = 20
_LABEL = re.compile(r"In\[(\d+)\]")


class Errand(NamedTuple):
    """A cell that goes on when the call that has begun it has returned."""

    cluster: str
    label: str
    cell: BackgroundCell
    said: "LastWord"


GOING_ON: ContextVar[list[Errand] | None] = ContextVar("GOING_ON", default=None)
"""Where such cells are noted for what has made the call, if it wants to know them."""


class Errands:
    """Cells of agents that have not begun yet or run, and what else is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_label = FIRST_LABEL - 1
        self._cells: dict[tuple[str, str], tuple[BackgroundCell, LastWord]] = {}
        self._under_way: dict[tuple[str, str], Future[str]] = {}

    def new_label(self, cluster: Cluster) -> int:
        """Return a number that no cell of this cluster bears, as far as cells are kept."""
        taken = [number for each in cluster.outputs() if (number := _number(each.label))]
        with self._lock:
            self._last_label = max(self._last_label, *taken, FIRST_LABEL - 1) + 1
            return self._last_label

    def keep(self, cluster: str, label: str, cell: BackgroundCell, said: "LastWord") -> None:
        """Remember a cell that was sent; of those that have ended the oldest is forgotten."""
        with self._lock:
            self._cells[cluster, label] = (cell, said)
            over = [key for key, (each, _) in self._cells.items() if each.is_done]
            for key in over[: max(0, len(self._cells) - MOST_KEPT)]:
                del self._cells[key]
        if (noted := GOING_ON.get()) is not None:
            noted.append(Errand(cluster, label, cell, said))

    def find(self, cluster: str, label: str) -> "tuple[BackgroundCell, LastWord] | None":
        """Return a cell that this program has sent."""
        with self._lock:
            return self._cells.get((cluster, label))

    def begin(self, cluster: str, what: str, work: Callable[[], str], patience_s: float) -> str:
        """Begin something, unless it is under way; return what came of it, empty: it goes on.

        Raise what it raises.
        """
        key = (cluster, what)
        with self._lock:
            future = self._under_way.get(key)
            if future is None:
                future = self._under_way[key] = Future()
                context = copy_context()
                thread = threading.Thread(
                    target=context.run, args=(_settle, future, work), daemon=True, name=what
                )
                thread.start()
        try:
            told = future.result(patience_s)
        except NotYet:
            if future.done():
                raise
            return ""
        finally:
            if future.done():
                with self._lock:
                    self._under_way.pop(key, None)
        return told


class LastWord:
    """Watches a cell for an agent: nothing is kept but what it waits for; leaves at its end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.note = ""

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """The coordinator keeps it."""

    def on_finished(self, result: RankFinished) -> None:
        """The coordinator keeps it."""

    def on_note(self, text: str) -> None:
        """Note who is waited for."""
        self.note = text

    def on_tick(self) -> None:
        """There is nothing to be drawn."""

    def show_again(self) -> None:
        """There is nothing to be drawn."""

    def finish(self, result: SpmdResult | None) -> None:  # noqa: ARG002
        """Leave the cluster."""
        self._cluster.detach()


def _number(label: str) -> int:
    found = _LABEL.fullmatch(label)
    return int(found[1]) if found else 0


def _settle(future: "Future[str]", work: Callable[[], str]) -> None:
    try:
        future.set_result(work())
    except BaseException as problem:  # noqa: BLE001  (raised where someone asks after it)
        future.set_exception(problem)


ERRANDS = Errands()
"""Of this process."""
