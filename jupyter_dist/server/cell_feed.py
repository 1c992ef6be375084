"""What the cells of one cluster say: followed while one runs, read again when it has ended."""

import threading
from collections.abc import Callable, Collection, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from jupyter_dist.errors import CellOutOfSight
from jupyter_dist.protocol.messages import KeptCell, Output, RankFinished
from jupyter_dist.server.page_messages import CellSeen, Tail
from jupyter_dist.views.cell.cell_picture import CellRecord
from jupyter_dist.views.cell.output_html import live_bundle, saved_bundle
from jupyter_dist.views.outputs.ansi import strip_ansi

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

INTERVAL_S = 0.5
"""Shortest time between two pictures of a cell."""
LOOK_S = 1.0
"""A cell that was too quick to be seen running is found after so long."""
TAIL_LINES = 200
_BUSY_SHARE = 0.1
_BYTES_PER_S = 2_000_000


class Stage:
    """Where a feed plays: what it says goes to `tell`."""

    def __init__(self, tell: Callable[[CellSeen | Tail], None]) -> None:
        self.tell = tell
        self._lock = threading.Lock()
        self._ranks: frozenset[int] = frozenset()
        self._again: frozenset[int] = frozenset()
        self.has_news = threading.Event()
        """A cell may have begun or ended, or other tails are wanted."""
        self.is_over = threading.Event()
        """Nobody looks any more, or there is nothing to be seen."""

    def show_tails(self, ranks: Collection[int]) -> None:
        """Want the last lines of these ranks from now on; called on any thread."""
        with self._lock:
            # Who was not wanted in between has been forgotten, even if the feed has not noticed.
            self._again |= frozenset(ranks) - self._ranks
            self._ranks = frozenset(ranks)
        self.has_news.set()

    def take_wanted(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the wanted ranks, and those of them that are wanted again since the last time."""
        with self._lock:
            again, self._again = self._again & self._ranks, frozenset()
            return self._ranks, again


class CellFeed:
    """Follows the cells of a cluster on the calling thread, until its stage is over."""

    def __init__(
        self, cluster: "Cluster", stage: Stage, clock: Callable[[], float] = monotonic
    ) -> None:
        self._cluster = cluster
        self._stage = stage
        self._clock = clock
        self._cell: KeptCell | None = None
        self._record = RankLines(0)
        self._is_running = False
        self._is_changed = False
        self._due_s = 0.0
        self._tails: dict[int, str] = {}

    def run(self) -> None:
        """Follow; raises ClusterGone when the cluster is."""
        stage = self._stage
        while not stage.is_over.is_set():
            stage.has_news.clear()
            last = next(iter(self._cluster.outputs()[-1:]), None)
            if last is not None and last.is_running:
                self._follow()
            elif last is not None and (self._cell is None or self._cell.cell_id != last.cell_id):
                self._read_again()
            self._tell_tails()
            stage.has_news.wait(LOOK_S)

    def _follow(self) -> None:
        try:
            # What was said is in our record, which is bounded, and no result is wanted.
            result = self._cluster.follow(self, self._begin, keeps_output=False)
        except CellOutOfSight:
            self._cell = None  # all of it comes again
            return
        except _Left:
            return
        if result is not None:
            self._end()
        else:
            self._stage.has_news.set()  # it has ended meanwhile: look again at once

    def _read_again(self) -> None:
        replay = self._cluster.replay()
        self._begin(replay.cell)
        replay.show(self)
        if replay.cell.is_running:  # begun meanwhile: it is followed next
            self._cell = None
            self._stage.has_news.set()
        else:
            self._end()

    def _begin(self, cell: KeptCell) -> None:
        self._cell, self._is_running = cell, cell.is_running
        self._record = RankLines(len(cell.ranks))
        self._tails = {}
        self._is_changed, self._due_s = True, 0.0

    def _end(self) -> None:
        self._is_running = False
        if not self._cluster.log_dirs:
            self._cluster.await_ready()  # it is: a cell has run; with that come these places
        places = self._cluster.log_dirs.items()
        log_hint = ", ".join(f"{host}:{path}" for host, path in places)
        self._show(saved_bundle(self._record.final_picture(log_hint=log_hint)))
        self._tell_tails()

    # --- a watcher of cells ---

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """Take in what each of these ranks said."""
        self._record.take_output(ranks, outputs)
        self._is_changed = True

    def on_finished(self, result: RankFinished) -> None:
        """Take in how the cell ended on a rank."""
        self._record.take_finished(result)
        self._is_changed = True

    def on_note(self, text: str) -> None:
        """Take in one sentence for the person."""
        self._record.take_note(text)
        self._is_changed = True

    def on_tick(self) -> None:
        """Tell what has changed, if it is time, and leave when nobody looks any more."""
        if self._stage.is_over.is_set():
            raise _Left
        now_s = self._clock()
        if self._is_changed and self._is_running and now_s >= self._due_s:
            self._is_changed = False
            size = self._show(live_bundle(self._record.live_picture()))
            cost_s = (self._clock() - now_s) / _BUSY_SHARE
            self._due_s = now_s + max(INTERVAL_S, cost_s, size / _BYTES_PER_S)
            self._tell_tails()
        elif self._stage.has_news.is_set():
            self._stage.has_news.clear()
            self._tell_tails()

    def _show(self, bundle: dict[str, str]) -> int:
        """Tell it, and give about how many bytes that is."""
        assert self._cell is not None
        html, text = bundle["text/html"], bundle["text/plain"]
        name, by = self._cluster.name, self._cell.by
        label = f"{self._cell.label} by {by}" if by else self._cell.label
        is_running = self._is_running
        self._stage.tell(
            CellSeen(cluster=name, label=label, is_running=is_running, html=html, text=text)
        )
        return len(html) + len(text)

    def _tell_tails(self) -> None:
        wanted, again = self._stage.take_wanted()
        told = wanted - again
        self._tails = {rank: text for rank, text in self._tails.items() if rank in told}
        for rank in wanted:
            text = self._record.last_lines(rank, TAIL_LINES)
            if self._tails.get(rank) != text:
                self._tails[rank] = text
                self._stage.tell(Tail(cluster=self._cluster.name, rank=rank, text=text))


class RankLines(CellRecord):
    """A record of a cell that also gives what one rank has said."""

    def last_lines(self, rank: int, count: int) -> str:
        """Return its last lines as plain text, and the traceback of its error behind them."""
        transcript = self._transcripts.find(rank)
        lines = transcript.last_lines(count) if transcript is not None else []
        finished = self.finished.get(rank)
        if finished is not None and finished.error is not None:
            error = finished.error
            lines += error.traceback or (f"{error.ename}: {error.evalue}",)
        return strip_ansi("\n".join("\n".join(lines).split("\n")[-count:]))


class _Left(Exception):
    """Nobody looks any more."""
