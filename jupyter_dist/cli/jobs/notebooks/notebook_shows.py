"""What a notebook that runs as a job says: for people as text, for programs as JSON."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jupyter_dist.cli.jobs.json_events import JsonEvents, write_json
from jupyter_dist.cluster.jobs.job_events import JobEvent, NoteTold, SpmdBegan, SpmdEnded
from jupyter_dist.protocol.messages import WIDGET_VIEW, RankFinished, RankOutput
from jupyter_dist.text.lists import Passing, cut
from jupyter_dist.views.cell.cell_output import CellOutputView
from jupyter_dist.views.cell.terminal import Terminal, has_colours, write_text
from jupyter_dist.views.outputs.ansi import keep_colours, strip_ansi

if TYPE_CHECKING:
    from jupyter_dist.views.cell.cell_output import CellView

_DISPLAYS = {
    "display_data": "display",
    "update_display_data": "update_display",
    "execute_result": "value",
}
"""Messages of a kernel that show something, and what `--json` calls it."""
_HEAD_LENGTH = 60


class NotebookShow(ABC):
    """Takes in what the kernel says of one cell after another; `failure` is of the last on ranks.

    What a cell on ranks shows in the notebook is not shown again: its events tell the same.
    """

    def __init__(self) -> None:
        self.failure: SpmdEnded | None = None
        self.cluster = ""
        """Name of that on which a cell has run last."""
        self.background: list[BackgroundRun] = []
        """Cells that were begun beside others, and may have ended."""
        self._view: CellView | None = None
        self._cell = 0

    @abstractmethod
    def begin_cell(self, number: int, count: int, source: str) -> None:
        """Take in which cell runs now, of so many."""
        self.failure = None
        self._cell = number

    def begin_background(self, event: SpmdBegan) -> "BackgroundRun":
        """Take in that the cell has begun one beside others; return what takes its events."""
        self.cluster = event.cluster
        run = BackgroundRun(self._cell, self._make_view(event))
        self.background.append(run)
        return run

    def take_event(self, event: JobEvent) -> None:
        """Take in how a cell goes on ranks."""
        if isinstance(event, SpmdBegan):
            self._view, self.cluster = self._make_view(event), event.cluster
        if self._view is None:
            return
        if isinstance(event, SpmdEnded):
            self.failure = event if event.exit_status else None
            self._leave_view()
        else:
            _pass_on(event, self._view)

    def take_message(self, kind: str, content: Mapping[str, Any]) -> None:
        """Take in a message of the kernel about the notebook itself."""
        if kind == "stream":
            self._tell_text(content["name"], content["text"])
        elif kind in _DISPLAYS and not self._is_of_ranks and WIDGET_VIEW not in content["data"]:
            display_id = (content.get("transient") or {}).get("display_id", "")
            self._tell_display(_DISPLAYS[kind], content["data"], display_id)
        elif kind == "error" and self.failure is None:
            self._tell_traceback(content["traceback"])

    def tick(self) -> None:
        """Redraw if due; to be called every 0.1 s while cells run."""
        if self._view is not None:
            self._view.on_tick()
        for run in self.background:
            run.tick()

    @property
    def running_beside(self) -> "list[BackgroundRun]":
        """Cells that were begun beside others, and have not ended."""
        return [run for run in self.background if run.end is None]

    @property
    def _is_of_ranks(self) -> bool:
        """What the cell shows now its ranks say, and their events tell it."""
        return self._view is not None or any(run.cell == self._cell for run in self.background)

    @abstractmethod
    def end_cell(self, status: str, seconds: float, error: str = "", message: str = "") -> None:
        """Take in how the cell has ended: ok or failed, and with which error."""
        self._leave_view()

    def _leave_view(self) -> None:
        if self._view is not None:
            self._view.finish(None)
            self._view = None

    @abstractmethod
    def _make_view(self, event: SpmdBegan) -> "CellView":
        """Return what shows a cell on ranks."""

    @abstractmethod
    def _tell_text(self, stream: str, text: str) -> None:
        """Tell what the notebook has written to stdout or stderr."""

    @abstractmethod
    def _tell_display(self, kind: str, data: Mapping[str, Any], display_id: str) -> None:
        """Tell what the notebook has displayed."""

    @abstractmethod
    def _tell_traceback(self, lines: list[str]) -> None:
        """Tell where the notebook itself has failed."""


class BackgroundRun:
    """A cell on ranks that runs beside others: it is shown as it goes, and has an end."""

    def __init__(self, cell: int, view: "CellView") -> None:
        self.cell = cell
        """Its number in the notebook."""
        self.end: SpmdEnded | None = None
        self._view = view

    def take_event(self, event: JobEvent) -> None:
        """Take in how it goes."""
        if self.end is not None:
            return
        if isinstance(event, SpmdEnded):
            self._view.finish(None)
            self.end = event
        else:
            _pass_on(event, self._view)

    def tick(self) -> None:
        """Redraw if due."""
        if self.end is None:
            self._view.on_tick()


def _pass_on(event: JobEvent, view: "CellView") -> None:
    match event:
        case RankOutput(ranks=ranks, outputs=outputs):
            view.on_output(ranks, outputs)
        case RankFinished():
            view.on_finished(event)
        case NoteTold(text=text, is_passing=is_passing):
            view.on_note(Passing(text) if is_passing else text)


class _Beside(Terminal):
    """Where lines of a cell in the background go: among those of others, each with its cell."""

    def __init__(self, terminal: Terminal, cell: int) -> None:
        super().__init__(is_tty=False)
        self.has_colours = terminal.has_colours
        self._terminal, self._cell = terminal, cell

    def write_lines(self, lines: Sequence[str]) -> None:
        """Write lines above the status line of the cell that runs."""
        self._terminal.write_lines([f"[cell {self._cell}] {line}" for line in lines])


class TextShow(NotebookShow):
    """Writes what is said; and which cell runs, for people who see stderr."""

    def __init__(self) -> None:
        super().__init__()
        self._terminal = Terminal()
        self._updated: dict[str, str] = {}
        """By their ids, the last texts of displays that may still be replaced."""

    def begin_cell(self, number: int, count: int, source: str) -> None:
        """Write which cell runs where a person looks on."""
        super().begin_cell(number, count, source)
        if sys.stderr.isatty():
            clock = time.strftime("%H:%M:%S")
            write_text(sys.stderr, f"[{number}/{count}] {clock} {head_of(source)}\n")

    def end_cell(self, status: str, seconds: float, error: str = "", message: str = "") -> None:
        """Write what displays have become."""
        super().end_cell(status, seconds, error, message)
        for text in self._updated.values():
            write_text(sys.stdout, f"{text}\n")
        self._updated.clear()

    def _make_view(self, event: SpmdBegan) -> CellOutputView:
        place = _Beside(self._terminal, self._cell) if event.is_background else self._terminal
        return CellOutputView(
            world_size=len(event.ranks), display=place, shown=event.shown, style=event.style
        )

    def _tell_text(self, stream: str, text: str) -> None:
        where = sys.stderr if stream == "stderr" else sys.stdout
        write_text(where, (keep_colours if has_colours(where) else strip_ansi)(text))

    def _tell_display(self, kind: str, data: Mapping[str, Any], display_id: str) -> None:  # noqa: ARG002
        text = str(data.get("text/plain", "")).rstrip("\n")
        if display_id:
            self._updated[display_id] = text
        elif text:
            self._tell_text("stdout", f"{text}\n")

    def _tell_traceback(self, lines: list[str]) -> None:
        self._tell_text("stderr", "".join(f"{line}\n" for line in lines))


class JsonShow(NotebookShow):
    """Writes events, one JSON object in a line; docs/how_to/programs.md has the fields of each."""

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def begin_cell(self, number: int, count: int, source: str) -> None:
        """Write which cell runs."""
        super().begin_cell(number, count, source)
        write_json(self._write, "cell_began", cell=number, of=count)

    def end_cell(self, status: str, seconds: float, error: str = "", message: str = "") -> None:
        """Write how it has ended."""
        super().end_cell(status, seconds, error, message)
        why = {"error": error, "message": message} if error else {}
        write_json(
            self._write, "cell_ended", cell=self._cell, status=status, seconds=seconds, **why
        )

    def _make_view(self, event: SpmdBegan) -> JsonEvents:
        return JsonEvents(self._write, event.cluster, event.ranks, self._cell)

    def _tell_traceback(self, lines: list[str]) -> None:
        """Do nothing: the end of the cell says it."""

    def _tell_text(self, stream: str, text: str) -> None:
        write_json(self._write, "output", ranks=None, kind=stream, text=text)

    def _tell_display(self, kind: str, data: Mapping[str, Any], display_id: str) -> None:
        write_json(self._write, "output", ranks=None, kind=kind, data=data, display_id=display_id)


def head_of(source: str) -> str:
    """Return the first line of a cell that says something, cut; of a cell magic the next, too."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    return cut(" · ".join(lines[: 2 if lines[0].startswith("%%") else 1]), _HEAD_LENGTH)
