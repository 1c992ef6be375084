"""Run a cell on every rank: send it once, gather what the ranks say until all have finished."""

import _signal
import ast
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_dist.cluster.connection.connection import Connection, raise_refusal
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.cluster.variables.values_of_cells import Fetch, ValuesOfCell
from jupyter_dist.control.dealer import AnswersLost
from jupyter_dist.errors import CellOutOfSight, UsageError
from jupyter_dist.model.hosts.axes import NO_AXES, Axes
from jupyter_dist.protocol.messages import (
    OMITTED_LINES,
    AskPerson,
    CellEvent,
    CellEvents,
    CellFollowed,
    CellNote,
    CellWaiting,
    FollowCell,
    InputOver,
    KeptCell,
    Output,
    OutputSeen,
    RankFinished,
    RankOutput,
    RanksOk,
    SubmitCell,
    ToClient,
    WithdrawCell,
)
from jupyter_dist.text.lists import Passing
from jupyter_dist.text.sizes import tell_size

if TYPE_CHECKING:
    from jupyter_dist.cluster.asking.desk import Desk

STILL_BUSY = "the ranks may still be busy with the cell; %dist_status tells"
"""What is said when someone does not wait for an interrupted cell."""
KEPT_CHARACTERS = 16 << 20
"""So much of each rank's stdout and stderr is kept in a result: the tail."""
ACKNOWLEDGE_BYTES = 1 << 20
_SIGINT = int(signal.SIGINT)
_set_handler: Callable[[int, Any], Any] = _signal.signal
"""Without the enums that the module `signal` makes of all arguments, for each cell asks twice."""
_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_MOST_CHECKED, _MOST_CHECKED_CHARACTERS = 256, 4096
_checked: dict[str, bool] = {}
"""What was found for cells without an error: many are run again and again."""


class CellWatcher(Protocol):
    """Something that wants to see a cell while it runs (a view); called on the calling thread."""

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """Take in what each of these ranks said, in its own order."""

    def on_finished(self, result: RankFinished) -> None:
        """Take in how the cell ended on a rank."""

    def on_note(self, text: str) -> None:
        """Take in one sentence for the person: who is waited for, who does not answer.

        It is `Passing` where it holds only while the cell runs.
        """

    def on_tick(self) -> None:
        """Redraw if due; called at least every 0.1 s while the cell runs."""


@runtime_checkable
class QuestionWatcher(Protocol):
    """A CellWatcher that knows that a person may be asked; others are not called meanwhile."""

    def on_question(self) -> bool:
        """Show everything: a person will be asked now. Return whether to be called meanwhile.

        That is on another thread, and would spoil a terminal in which the person types.
        """


class _Finishing(Protocol):
    """Something that is told how a cell has ended."""

    def finish(self, result: SpmdResult | None, /) -> object:
        """Take in what came of it; None: that is not known."""


@runtime_checkable
class ProblemWatcher(Protocol):
    """A watcher that is told, in place of `finish(None)`, why there is no result."""

    def give_up(self, problem: BaseException) -> None:
        """Take in what is raised in place of a result."""


def give_up(watcher: _Finishing, problem: BaseException) -> None:
    """Tell who watches a cell that there is no result, and why if that is asked for."""
    if isinstance(watcher, ProblemWatcher):
        watcher.give_up(problem)
    else:
        watcher.finish(None)


def shows_widgets(watcher: CellWatcher | None) -> bool:
    """Return whether who watches a cell shows widgets of ranks live, and has said so."""
    return bool(getattr(watcher, "shows_widgets", False))


def check_syntax(code: str, label: int) -> bool:
    """Return whether a cell is plain Python, without IPython's magics and shell commands.

    Raises SyntaxError or UsageError for a cell that no rank could run; nothing has been sent then.
    """
    if (is_plain := _checked.get(code)) is not None:
        return is_plain
    python = TransformerManager().transform_cell(code)
    try:
        compile(python, f"In[{label}]", "exec", flags=_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (ValueError, RecursionError) as problem:  # lone surrogates, NUL, too many levels
        raise UsageError(f"this cell cannot be compiled: {problem}.") from None
    is_plain = python.rstrip("\n") == code.rstrip("\n")
    if len(code) <= _MOST_CHECKED_CHARACTERS:
        if len(_checked) == _MOST_CHECKED:
            _checked.clear()
        _checked[code] = is_plain
    return is_plain


def run_cell(
    line: Connection,
    request: SubmitCell,
    watcher: CellWatcher | None = None,
    fetch: Fetch | None = None,
    axes: Axes = NO_AXES,
) -> SpmdResult:
    """Run the cell to its end, whatever that is, and give what came of it.

    `fetch` is for the values of its last expression, which stay on the ranks.

    The first Ctrl-C interrupts the ranks and the gathering goes on, until all have ended or are
    known to be unresponsive; the second one is raised at once, and the ranks end behind it.
    """
    gathering = Gathering(request, watcher, fetch=fetch, axes=axes)
    gather(line, gathering, lambda: line.send(WithdrawCell(request.request_id)))
    return gathering.result()


def gather(
    line: Connection,
    gathering: "Gathering",
    interrupt: Callable[[], object],
    wishes: list[Any] | None = None,
    desk: "Desk | None" = None,
) -> None:
    """Send the request and take in what comes of it, until the cell is over.

    The first Ctrl-C, or wish, calls `interrupt`, the second one is raised. What ranks ask is left
    to the desk, or else asked here. Raises CellOutOfSight
    where messages were lost because the connection was down.
    """
    with line.lock, _Interrupts() if wishes is None else nullcontext(wishes) as interrupts:
        line.send(gathering.request)
        seen = 0
        while not gathering.is_over:
            try:
                for message, _ in line.receive(waits_out_breaks=True):
                    gathering.take(message)
            except AnswersLost:
                raise CellOutOfSight from None
            if line.is_far:
                gathering.note_break(line.describe_break())
            gathering.rest(line)
            if desk is not None:
                _leave_to(desk, gathering)
            elif (question := gathering.question) is not None:
                gathering.question = None
                _ask_person(line, question, gathering, interrupts)
            if len(interrupts) > seen:
                if not seen:  # both presses may come within one slice
                    interrupt()
                seen = len(interrupts)
                if seen > 1:
                    raise KeyboardInterrupt(STILL_BUSY)
                gathering.note(Passing(_tell_interrupt(line, gathering, wishes is None)))


def _tell_interrupt(line: Connection, gathering: "Gathering", has_keys: bool) -> str:
    """Return what has become of the first Ctrl-C."""
    sent = "interrupt sent to the ranks" if gathering.has_cell else "taking the cell back"
    if line.is_far and line.describe_break():
        sent = "the interrupt goes there once that machine is reached"
    return sent + ("; once more returns the prompt at once" if has_keys else "")


def _leave_to(desk: "Desk", gathering: "Gathering") -> None:
    """Leave what a rank asks to the desk; what ranks have said stands above it."""
    if gathering.question is not None and not desk.has(gathering.question):
        gathering.make_room()
    if desk.look(gathering.question):
        gathering.question = None


def _ask_person(
    line: Connection, question: AskPerson, gathering: "Gathering", interrupts: list[Any]
) -> None:
    """Have a person answer what a rank asks; Ctrl-C counts as it does at any time."""
    from jupyter_dist.cluster.asking.person import Interview

    is_held = not gathering.make_room()
    interview = Interview(
        line, question, gathering.take, lambda: gathering.rest(line), is_held=is_held
    )
    try:
        interview.ask()
    except KeyboardInterrupt:
        interrupts.append(signal.SIGINT)


class _RankParts(msgspec.Struct):
    streams: dict[str, deque[str]] = {}
    kept: dict[str, int] = {}
    dropped: dict[str, int] = {}
    """Of each stream, how many characters of its beginning, if any."""
    omitted: list[str] = []
    displays: list[Output] = []
    finished: RankFinished | None = None

    def add(self, outputs: Sequence[Output]) -> None:
        """Keep what was said; of very long text the tail."""
        for output in outputs:
            if output.kind in ("stdout", "stderr"):
                self._add_text(output.kind, output.text)
            elif output.kind in ("display", "update_display", "value"):
                self.displays.append(output)
            elif output.kind == "note" and OMITTED_LINES in output.data:
                self.omit(output.text)

    def omit(self, sentence: str) -> None:
        """Say at its place in the text that something is missing."""
        self.omitted.append(sentence)
        pieces = self.streams.get("stdout")
        start = "\n" if pieces and not pieces[-1].endswith("\n") else ""
        self._add_text("stdout", f"{start}{sentence}\n")

    def _add_text(self, kind: str, text: str) -> None:
        pieces = self.streams.setdefault(kind, deque())
        pieces.append(text)
        self.kept[kind] = self.kept.get(kind, 0) + len(text)
        while self.kept[kind] > KEPT_CHARACTERS and len(pieces) > 1:
            size = len(pieces.popleft())
            self.kept[kind] -= size
            self.dropped[kind] = self.dropped.get(kind, 0) + size

    def tell_dropped(self) -> None:
        """Say in the first line of a stream that its beginning was dropped."""
        for kind, size in self.dropped.items():
            sentence = f"[{size:,} older characters of {kind} are not kept]"
            self.omitted.append(sentence)
            self.streams[kind].appendleft(f"{sentence}\n")


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
        fetch: Fetch | None = None,
        axes: Axes = NO_AXES,
    ) -> None:
        self.axes = axes
        self.request = request
        self._fetch = fetch
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
        self.question: AskPerson | None = None
        """What a rank asks a person, and no one has been asked yet."""
        self._is_break_told = False
        self.is_taken = False
        """The coordinator has said something of it, if only that it waits."""

    def take(self, message: ToClient) -> None:
        """Take in one message; those about other requests are left over from an earlier cell."""
        if getattr(message, "request_id", self._request_id) not in (self._request_id, ""):
            return  # "": a refusal of something that could not be read
        if getattr(message, "cell_id", self._cell_id) != self._cell_id and self._cell_id:
            return
        self.is_taken = True
        match message:
            case CellFollowed():
                self._take_followed(message)
            case CellWaiting():
                self.note(Passing(message.reason))
            case AskPerson() | InputOver():
                self.question = message if isinstance(message, AskPerson) else None
            case CellEvents() if self._cell_id or message.request_id:
                if not self._cell_id:
                    self._begin(message.cell_id, message.ranks)
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
            self._omit(f"{size} of older output not kept; each host's log has all of it")

    def _take_event(self, event: CellEvent) -> None:
        match event:
            case RankOutput():
                for rank in event.ranks if self._keeps_output else ():
                    self._parts[rank].add(event.outputs)
                if self._watcher is not None:
                    self._watcher.on_output(event.ranks, event.outputs)
            case RankFinished():
                self._finish(event)
            case RanksOk():
                for finished in event.one_by_one():
                    self._finish(finished)
            case CellNote():
                if event.omits_output:
                    self._omit(event.text)
                else:
                    self.note(Passing(event.text) if event.is_passing else event.text)

    def _omit(self, sentence: str) -> None:
        """Say that some output of all ranks is missing, where people and programs look for it."""
        for parts in self._parts.values() if self._keeps_output else ():
            parts.omit(f"[{sentence}]")
        self.note(sentence)

    def _finish(self, finished: RankFinished) -> None:
        self._parts[finished.rank].finished = finished
        if self._watcher is not None:
            self._watcher.on_finished(finished)

    def note_break(self, why: str) -> None:
        """Say why the coordinator's machine is out of reach, once each time; empty: it is not."""
        if why and not self._is_break_told:
            self.note(Passing(f"{why}; the cell goes on there, and its output comes later"))
        self._is_break_told = bool(why)

    def rest(self, line: Connection) -> None:
        """Acknowledge what was received, and let the watcher redraw."""
        if self.acknowledgement is not None:
            line.send(self.acknowledgement)
            self.acknowledgement = None
        if self._watcher is not None:
            self._watcher.on_tick()

    def make_room(self) -> bool:
        """Have everything shown, for a question; return whether the watcher goes on meanwhile."""
        watcher: object = self._watcher
        return isinstance(watcher, QuestionWatcher) and watcher.on_question()

    def note(self, text: str) -> None:
        """Pass a sentence on to whoever watches."""
        if self._watcher is not None:
            self._watcher.on_note(text)

    def result(self) -> SpmdResult:
        """Return what came of the cell, once it is over."""
        values = None
        if self._fetch is not None and isinstance(self.request, SubmitCell):
            values = ValuesOfCell(self.request.label, self._cell_id, self._fetch)
        return SpmdResult(
            [_rank_result(rank, parts, values) for rank, parts in self._parts.items()], self.axes
        )


def _rank_result(rank: int, parts: _RankParts, values: ValuesOfCell | None) -> RankResult:
    finished = parts.finished
    assert finished is not None, "a cell is over only when every rank has finished"
    if parts.dropped:
        parts.tell_dropped()
    return RankResult(
        rank=rank,
        status=finished.status,
        stdout="".join(parts.streams.get("stdout", ())),
        stderr="".join(parts.streams.get("stderr", ())),
        omitted=tuple(parts.omitted),
        value_repr=finished.value_repr,
        displays=tuple(parts.displays),
        error=finished.error,
        duration_s=finished.duration_s,
        crash=finished.crash,
        report=finished.report,
        values=values,
    )


class _Interrupts:
    """Counts Ctrl-C instead of raising it anywhere, where it could lose a message.

    Only the main thread can; elsewhere nothing is counted, and Ctrl-C is not ours.
    """

    def __enter__(self) -> list[int]:
        self._found: list[int] = []
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._before = _set_handler(_SIGINT, self._on_sigint)
        return self._found

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            _set_handler(_SIGINT, self._before)

    def _on_sigint(self, signal_number: int, frame: FrameType | None) -> None:
        del frame
        self._found.append(signal_number)
