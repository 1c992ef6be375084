"""Events of a cell on their way to its clients: batched, and bounded for a slow reader."""

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.protocol.messages import (
    OMITTED_LINES,
    CellEvent,
    CellEvents,
    CellNote,
    Output,
    RankFinished,
    RankOutput,
    RanksOk,
)
from jupyter_dist.text.plurals import count_of

WINDOW_BYTES = 8 << 20
"""So much may be on its way to a client that has not taken it in yet."""
TAIL_CHARACTERS = 64 << 10
"""So much of each rank's text is kept for a client that lags behind."""
STREAMS = ("stdout", "stderr")
BATCH_BYTES = 1 << 20
"""What has been said before travels in messages of about this size."""
TOO_SLOW = "this client read too slowly; each host's log has all of it"

_Text = tuple[tuple[str, str, bool], ...]
"""Kind, text, and whether it is a block, of each output."""


def size_of(event: CellEvent) -> int:
    """Estimate what an event weighs."""
    if isinstance(event, RankFinished):
        traceback = event.error.traceback if event.error is not None else ()
        return 200 + len(event.value_repr or "") + sum(map(len, traceback))
    if isinstance(event, RanksOk):
        return 200 + 16 * len(event.ranks)
    if not isinstance(event, RankOutput):
        return 200
    return sum(
        len(output.text) + sum(len(str(value)) for value in output.data.values()) + 50
        for output in event.outputs
    )


class EventBatch:
    """Events that are told together: what several ranks say alike is one event of them all.

    So is that they are done, if there is nothing to tell of that but how long it took.
    """

    def __init__(self) -> None:
        self.is_empty = True
        self._events: list[CellEvent] = []
        self._speakers: dict[int, list[int]] = {}
        """Of each output, by its place among the events, who said it."""
        self._places: dict[_Text, int] = {}
        """Where a text was said last."""
        self._last: dict[int, int] = {}
        """Where the last output of a rank is: what it says next must not come before that."""
        self._ok: dict[int, float] = {}
        """How long it took ranks that are done since the last note."""

    def add(self, event: CellEvent) -> None:
        """Queue an event, or count its rank among those that said the same."""
        self.is_empty = False
        match event:
            case RankFinished(status="ok", value_repr=None, report=b""):
                self._ok[event.rank] = event.duration_s
            case RankOutput():
                self._add_output(event)
            case CellNote():  # what is said behind it stays behind it
                self._places.clear()
                self._end_ok()
                self._events.append(event)
            case _:
                self._events.append(event)

    def _end_ok(self) -> None:
        """Queue that ranks are done: behind all that they have said."""
        if self._ok:
            self._events.append(RanksOk(tuple(self._ok), tuple(self._ok.values())))
            self._ok = {}

    def _add_output(self, event: RankOutput) -> None:
        (rank,), text = event.ranks, _text_of(event)
        place = self._places.get(text, -1)
        if place > self._last.get(rank, -1):
            self._speakers[place].append(rank)
        else:
            place = len(self._events)
            self._events.append(event)
            self._speakers[place] = [rank]
            if text:
                self._places[text] = place
        self._last[rank] = place

    def events(self) -> list[CellEvent]:
        """Return what is queued, in its order."""
        self._end_ok()
        events = self._events.copy()
        for place, ranks in self._speakers.items():
            if len(ranks) > 1:
                events[place] = replace(events[place], ranks=tuple(sorted(ranks)))
        return events


def _text_of(event: RankOutput) -> _Text:
    """Return all that was said, in a form that can be compared; empty where it is not only text."""
    if any(output.kind not in STREAMS for output in event.outputs):
        return ()
    return tuple((output.kind, output.text, output.is_block) for output in event.outputs)


class EventFlow:
    """Hands events over in batches; of a client that does not keep up it keeps only the tail."""

    def __init__(
        self, client: bytes, cell_id: str, sender: Sender, request_id: str, ranks: tuple[int, ...]
    ) -> None:
        self._client = client
        self._cell_id = cell_id
        self._sender = sender
        self._opening: tuple[str, tuple[int, ...]] | None = (request_id, ranks)
        """What the first batch says of the cell."""
        self._pending: list[CellEvent] = []
        self._sent_bytes = 0
        self._seen_bytes = 0
        self._held: dict[int, HeldText] = {}

    def add(self, events: Sequence[CellEvent]) -> None:
        """Queue events for the next flush."""
        if not (self._held or self._is_full):
            self._pending += events
            return
        for event in events:
            if isinstance(event, RankOutput) and self._is_full:
                self._hold(event)
            else:
                self._release(_ranks_of(event) or [*self._held])
                self._pending.append(event)

    def _hold(self, event: RankOutput) -> None:
        """Hold text back; rich output never."""
        text = [output for output in event.outputs if output.kind in STREAMS]
        for rank in event.ranks:
            self._held.setdefault(rank, HeldText()).take(text)
        rich = tuple(output for output in event.outputs if output.kind not in STREAMS)
        if rich:
            self._pending.append(RankOutput(event.ranks, rich))

    def acknowledge(self, seen_bytes: int) -> None:
        """Note how much the client has taken in, over the whole cell."""
        self._seen_bytes = max(self._seen_bytes, seen_bytes)
        if not self._is_full:
            self._release([*self._held])

    def flush(self) -> None:
        """Send what is queued as one message; the first time also when there is nothing."""
        if self._pending or self._opening is not None:
            self._send(is_last=False)

    def finish(self) -> None:
        """Send everything that is left, held text too, and say that nothing follows."""
        self._release([*self._held])
        self._send(is_last=True)

    def _send(self, is_last: bool) -> None:
        events, self._pending = tuple(self._pending), []
        self._sent_bytes += sum(size_of(event) for event in events)
        opening, self._opening = self._opening or ("", ()), None
        batch = CellEvents(self._cell_id, events, self._sent_bytes, is_last, *opening)
        self._sender.to_client(self._client, batch)

    @property
    def _is_full(self) -> bool:
        return self._sent_bytes - self._seen_bytes > WINDOW_BYTES

    def _release(self, ranks: Iterable[int]) -> None:
        """Queue what was held back of these ranks."""
        for rank in ranks:
            held = self._held.pop(rank, None)
            if held is not None:
                self._pending.append(RankOutput((rank,), held.outputs()))


def _ranks_of(event: CellEvent) -> tuple[int, ...]:
    """Return whose event it is; of a note, of none."""
    match event:
        case RankOutput() | RanksOk():
            return event.ranks
        case RankFinished():
            return (event.rank,)
        case CellNote():
            return ()


class HeldText:
    """The tail of one rank's text, and how many lines before it were left out."""

    def __init__(self) -> None:
        self._pieces: deque[Output] = deque()
        self._characters = 0
        self._omitted_lines = 0
        self._torn: set[str] = set()
        """Streams of which the end of a line is kept, and not its beginning."""

    def take(self, pieces: Sequence[Output]) -> None:
        """Keep pieces of text, and of what there is by now the tail."""
        self._pieces.extend(pieces)
        self._characters += sum(len(output.text) for output in pieces)
        while len(self._pieces) > 1 and self._characters > TAIL_CHARACTERS:
            dropped = self._pieces.popleft()
            self._characters -= len(dropped.text)
            self._omitted_lines += dropped.text.count("\n")
            (self._torn.discard if dropped.text.endswith("\n") else self._torn.add)(dropped.kind)

    def outputs(self) -> tuple[Output, ...]:
        """Return the tail, headed by what was left out; whole lines, but of one without an end."""
        is_torn = bool(self._torn)
        self._torn &= {output.kind for output in self._pieces if "\n" in output.text}
        tail = [self._mend(output) for output in self._pieces]
        if not (self._omitted_lines or is_torn):
            return tuple(tail)
        what = count_of(self._omitted_lines, "line") if self._omitted_lines else "part of a line"
        note = Output(
            "note", f"[{what} left out: {TOO_SLOW}]", {OMITTED_LINES: self._omitted_lines}
        )
        return (note, *tail)

    def _mend(self, output: Output) -> Output:
        """Leave out the rest of a line whose beginning was left out."""
        if output.kind not in self._torn:
            return output
        _, newline, rest = output.text.partition("\n")
        if newline:
            self._torn.remove(output.kind)
            self._omitted_lines += 1
        return replace(output, text=rest)
