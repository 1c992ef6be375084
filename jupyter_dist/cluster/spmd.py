"""Run a cell on every rank: send it once, gather what the ranks say until all have finished."""

import ast
import signal
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

from IPython.core.inputtransformer2 import TransformerManager

from jupyter_dist.cluster.connection.connection import Connection, raise_refusal
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.control.dealer import AnswersLost
from jupyter_dist.errors import CellOutOfSight, UsageError
from jupyter_dist.protocol.messages import (
    CellAdmitted,
    CellEvent,
    CellEvents,
    CellFollowed,
    CellNote,
    CellWaiting,
    FollowCell,
    KeptCell,
    Output,
    OutputSeen,
    RankFinished,
    RankOutput,
    SubmitCell,
    ToClient,
    WithdrawCell,
)
from jupyter_dist.text.lists import Passing
from jupyter_dist.text.sizes import tell_size

STILL_BUSY = "the ranks may still be busy with the cell; %dist_status tells"
"""What is said when someone does not wait for an interrupted cell."""
KEPT_CHARACTERS = 16 << 20
"""So much of each rank's stdout and stderr is kept in a result: the tail."""
ACKNOWLEDGE_BYTES = 1 << 20
_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class CellWatcher(Protocol):
    """Something that wants to see a cell while it runs (a view); called on the calling thread."""

    def on_output(self, rank: int, outputs: Sequence[Output]) -> None:
        """Take in what a rank said, in its own order."""

    def on_finished(self, result: RankFinished) -> None:
        """Take in how the cell ended on a rank."""

    def on_note(self, text: str) -> None:
        """Take in one sentence for the person: who is waited for, who does not answer.

        It is `Passing` where it holds only while the cell runs.
        """

    def on_tick(self) -> None:
        """Redraw if due; called at least every 0.1 s while the cell runs."""


def check_syntax(code: str, label: int) -> bool:
    """Return whether a cell is plain Python, without IPython's magics and shell commands.

    Raises SyntaxError or UsageError for a cell that no rank could run; nothing has been sent then.
    """
    python = TransformerManager().transform_cell(code)
    try:
        compile(python, f"In[{label}]", "exec", flags=_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (ValueError, RecursionError) as problem:  # lone surrogates, NUL, too many levels
        raise UsageError(f"this cell cannot be compiled: {problem}.") from None
    return python.rstrip("\n") == code.rstrip("\n")


def run_cell(
    line: Connection, request: SubmitCell, watcher: CellWatcher | None = None
) -> SpmdResult:
    """Run the cell to its end, whatever that is, and give what came of it.

    The first Ctrl-C interrupts the ranks and the gathering goes on, until all have ended or are
    known to be unresponsive; the second one is raised at once, and the ranks end behind it.
    """
    gathering = Gathering(request, watcher)
    gather(line, gathering, lambda: line.send(WithdrawCell(request.request_id)))
    return gathering.result()


def gather(line: Connection, gathering: "Gathering", interrupt: Callable[[], object]) -> None:
    """Send the request and take in what comes of it, until the cell is over.

    The first Ctrl-C calls `interrupt`, the second one is raised. Raises CellOutOfSight where
    the connection was away for so long that messages are lost.
    """
    with line.lock, _count_interrupts() as interrupts:
        line.send(gathering.request)
        seen = 0
        while not gathering.is_over:
            try:
                for message, _ in line.receive():
                    gathering.take(message)
            except AnswersLost:
                raise CellOutOfSight from None
            if gathering.acknowledgement is not None:
                line.send(gathering.acknowledgement)
                gathering.acknowledgement = None
            gathering.tick()
            if len(interrupts) > seen:
                if not seen:  # both presses may come within one slice
                    interrupt()
                seen = len(interrupts)
                if seen > 1:
                    raise KeyboardInterrupt(STILL_BUSY)
                is_admitted = gathering.has_cell
                sent = "interrupt sent to the ranks" if is_admitted else "taking the cell back"
                gathering.note(Passing(f"{sent}; once more returns the prompt at once"))


@dataclass
class _RankParts:
    streams: dict[str, deque[str]] = field(default_factory=lambda: defaultdict(deque))
    kept: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    displays: list[Output] = field(default_factory=list)
    finished: RankFinished | None = None

    def add(self, output: Output) -> None:
        """Keep a piece of output; of very long text the tail."""
        if output.kind in ("stdout", "stderr"):
            pieces = self.streams[output.kind]
            pieces.append(output.text)
            self.kept[output.kind] += len(output.text)
            while self.kept[output.kind] > KEPT_CHARACTERS and len(pieces) > 1:
                self.kept[output.kind] -= len(pieces.popleft())
        elif output.kind in ("display", "update_display", "value"):
            self.displays.append(output)


class Gathering:
    """Collects the messages about one cell.

    Without `keeps_output` the watcher alone sees what ranks say: a cell may run for weeks.
    """

    def __init__(
        self,
        request: SubmitCell | FollowCell,
        watcher: CellWatcher | None,
        on_cell: Callable[[KeptCell], None] | None = None,
        *,
        keeps_output: bool = True,
    ) -> None:
        self.request = request
        self._request_id = request.request_id
        self._watcher = watcher
        self._on_cell = on_cell
        self._keeps_output = keeps_output
        self._cell_id = ""
        self._parts: dict[int, _RankParts] = {}
        self._acknowledged_bytes = 0
        self.acknowledgement: OutputSeen | None = None
        """To be sent, so that the coordinator knows we keep up."""
        self.is_over = False
        self.has_cell = False
        """There is, or was, a cell to gather from."""

    def take(self, message: ToClient) -> None:
        """Take in one message; those about other requests are left over from an earlier cell."""
        if getattr(message, "request_id", self._request_id) not in (self._request_id, ""):
            return  # "": a refusal of something that could not be read
        if getattr(message, "cell_id", self._cell_id) != self._cell_id and self._cell_id:
            return
        match message:
            case CellAdmitted():
                self._begin(message.cell_id, message.ranks)
            case CellFollowed():
                self._take_followed(message)
            case CellWaiting():
                self.note(Passing(message.reason))
            case CellEvents() if self._cell_id:
                for event in message.events:
                    self._take_event(event)
                if message.size_bytes - self._acknowledged_bytes > ACKNOWLEDGE_BYTES:
                    self._acknowledged_bytes = message.size_bytes
                    self.acknowledgement = OutputSeen(self._cell_id, message.size_bytes)
                self.is_over = message.is_last
            case _:
                raise_refusal(message)

    def _begin(self, cell_id: str, ranks: Sequence[int]) -> None:
        self._cell_id, self.has_cell = cell_id, True
        self._parts = {rank: _RankParts() for rank in ranks}

    def _take_followed(self, message: CellFollowed) -> None:
        if message.cell is None:
            self.is_over = True
            return
        self._begin(message.cell.cell_id, message.cell.ranks)
        if self._on_cell is not None:
            self._on_cell(message.cell)
        if message.omitted_bytes:
            size = tell_size(message.omitted_bytes)
            self.note(f"{size} of older output not kept; each host's log has all of it")

    def _take_event(self, event: CellEvent) -> None:
        match event:
            case RankOutput():
                parts = self._parts[event.rank]
                for output in event.outputs if self._keeps_output else ():
                    parts.add(output)
                if self._watcher is not None:
                    self._watcher.on_output(event.rank, event.outputs)
            case RankFinished():
                self._parts[event.rank].finished = event
                if self._watcher is not None:
                    self._watcher.on_finished(event)
            case CellNote():
                self.note(Passing(event.text) if event.is_passing else event.text)

    def tick(self) -> None:
        """Let whoever watches redraw."""
        if self._watcher is not None:
            self._watcher.on_tick()

    def note(self, text: str) -> None:
        """Pass a sentence on to whoever watches."""
        if self._watcher is not None:
            self._watcher.on_note(text)

    def result(self) -> SpmdResult:
        """Return what came of the cell, once it is over."""
        return SpmdResult([_rank_result(rank, parts) for rank, parts in self._parts.items()])


def _rank_result(rank: int, parts: _RankParts) -> RankResult:
    finished = parts.finished
    assert finished is not None, "a cell is over only when every rank has finished"
    return RankResult(
        rank=rank,
        status=finished.status,
        stdout="".join(parts.streams["stdout"]),
        stderr="".join(parts.streams["stderr"]),
        value_repr=finished.value_repr,
        displays=tuple(parts.displays),
        error=finished.error,
        duration_s=finished.duration_s,
        crash=finished.crash,
        report=finished.report,
    )


@contextmanager
def _count_interrupts() -> Iterator[list[int]]:
    """Count Ctrl-C instead of raising it anywhere, where it could lose a message.

    Only the main thread can; elsewhere nothing is counted, and Ctrl-C is not ours.
    """
    interrupts: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def on_sigint(signal_number: int, frame: FrameType | None) -> None:
        del frame
        interrupts.append(signal_number)

    before: Any = signal.signal(signal.SIGINT, on_sigint)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
