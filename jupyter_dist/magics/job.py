"""A notebook that `jupyter dist run` runs: its cluster, and what is reported of cells."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

from jupyter_dist.cluster.asking.front_end import JOB_VARIABLE
from jupyter_dist.cluster.jobs.exit_status import RAISED, exit_status
from jupyter_dist.cluster.jobs.job_events import (
    EVENT,
    TARGET,
    JobEvent,
    NoteTold,
    SpmdBegan,
    SpmdEnded,
    write_event,
)
from jupyter_dist.cluster.spmd import QuestionWatcher, shows_widgets
from jupyter_dist.errors import CellFailed, CellInterrupted, ClusterGone, RankLost
from jupyter_dist.protocol.messages import Output, RankFinished, RankOutput
from jupyter_dist.text.lists import Passing

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.cluster.result import SpmdResult
    from jupyter_dist.views.cell.cell_output import CellView


class Job:
    """What a kernel knows of the job that its notebook is."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        """Name of the cluster on which its cells run; empty: the notebook starts its own."""
        self._tell: Callable[[JobEvent], None] | None = None
        self._beside: WeakSet[PublishedView] = WeakSet()
        """Those of cells in the background."""

    def visit(self) -> "Cluster":
        """Connect to the cluster of the job, beside the command that has started it."""
        from jupyter_dist.cluster.cluster import Cluster

        return Cluster.visit(self.cluster)

    def published(self, view: "CellView", began: SpmdBegan) -> "PublishedView":
        """Return a view that shows the same cell, and tells the command of it."""
        if began.is_background:
            tell = open_comm()
        else:
            tell = self._tell = self._tell or open_comm()
        tell(began)
        published = PublishedView(view, tell, began.cluster)
        if began.is_background:
            self._beside.add(published)
        return published

    @contextmanager
    def stopping(self, cluster: str) -> Iterator[None]:
        """Count what still runs on a cluster as ended on purpose: the notebook stops it in this."""
        theirs = [view for view in self._beside if view.cluster == cluster]
        for view in theirs:
            view.is_stopped = True
        try:
            yield
        except BaseException:
            for view in theirs:
                view.is_stopped = False
            raise


class PublishedView:
    """A view of a cell that passes on to the command what it gets, in the same order."""

    def __init__(
        self, view: "CellView", tell: Callable[[JobEvent], None], cluster: str = ""
    ) -> None:
        self._view = view
        self._tell = tell
        self.cluster = cluster
        """Name of that on which the cell runs."""
        self.is_stopped = False
        """The notebook has stopped that cluster."""

    @property
    def shows_widgets(self) -> bool:
        """Ranks that run the cell shall send what their widgets say."""
        return shows_widgets(self._view)

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """Take in what each of these ranks said, in its own order."""
        self._tell(RankOutput(tuple(ranks), tuple(outputs)))
        self._view.on_output(ranks, outputs)

    def on_finished(self, result: RankFinished) -> None:
        """Take in how the cell ended on a rank."""
        self._tell(result)
        self._view.on_finished(result)

    def on_note(self, text: str) -> None:
        """Take in one sentence for the person."""
        self._tell(NoteTold(str(text), isinstance(text, Passing)))
        self._view.on_note(text)

    def on_tick(self) -> None:
        """Redraw if due; the command has a clock of its own."""
        self._view.on_tick()

    def on_question(self) -> bool:
        """Show everything; return whether it may be drawn while a person types."""
        return isinstance(self._view, QuestionWatcher) and self._view.on_question()

    def show_again(self) -> None:
        """Show the end once more; of a cell in the background."""
        show_again = getattr(self._view, "show_again", None)
        if show_again is not None:
            show_again()

    def finish(self, result: "SpmdResult | None", raised_rank: int | None = None) -> None:
        """Show the final state, and tell how the cell has ended; None: that is not known."""
        try:
            self._view.finish(result, raised_rank)
        finally:  # the command waits for it
            self._tell(_end_of(result))

    def give_up(self, problem: BaseException) -> None:
        """Show that there is no result, and tell why."""
        if self.is_stopped and isinstance(problem, ClusterGone):
            problem = CellInterrupted(str(problem))
        try:
            self._view.finish(None)
        finally:
            self._tell(_end_by(problem))


def _end_of(result: "SpmdResult | None") -> SpmdEnded:
    if result is None:
        return SpmdEnded(RAISED, "it was given up")
    try:
        result.raise_first()
    except CellFailed as failure:
        return _end_by(failure)
    return SpmdEnded(0, "")


def _end_by(problem: BaseException) -> SpmdEnded:
    text = str(problem) or type(problem).__name__
    return SpmdEnded(exit_status(problem), text, isinstance(problem, RankLost))


def find_job() -> Job | None:
    """Return the job that this kernel is, if it is one; programs that it starts are not."""
    cluster = os.environ.pop(JOB_VARIABLE, None)
    return None if cluster is None else Job(cluster)


def open_comm() -> Callable[[JobEvent], None]:
    """Open the way to the command; return what tells it an event, on any thread."""
    from comm import create_comm

    comm = create_comm(target_name=TARGET)
    return lambda event: comm.send({EVENT: write_event(event)})
