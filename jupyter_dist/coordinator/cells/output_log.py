"""What the last cells have said, kept for clients that come later, or look again; bounded."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from jupyter_dist.coordinator.cells.event_flow import (
    BATCH_BYTES,
    TOO_SLOW,
    WINDOW_BYTES,
    size_of,
)
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.messages import (
    CellEvent,
    CellEvents,
    CellFollowed,
    CellNote,
    CellsListed,
    KeptCell,
    Output,
    OutputReplayed,
    RankOutput,
    RanksOk,
    Refused,
)
from jupyter_dist.text.lists import name_some

KEPT_CELLS = 20
KEPT_BYTES = 16 << 20
"""So much of one cell's outputs is kept: the newest."""
KEPT_BYTES_IN_ALL = 64 << 20
PIECE_CHARACTERS = 256 << 10
_EVENT_BYTES = 400
"""What an event takes in memory besides its text."""
_LEFT_OUT = f"older output left out: {TOO_SLOW}"


class CellLog:
    """The events of one cell by their numbers; older outputs give way, results never do.

    Of a progress bar the last state is kept only.
    """

    def __init__(self, cell: KeptCell) -> None:
        self._cell = cell
        self.cell_id, self.label = cell.cell_id, cell.label
        self._events: dict[int, CellEvent] = {}
        self._outputs: OrderedDict[int, int] = OrderedDict()
        """Number and size of each output that is kept."""
        self._bars: dict[tuple[int, str], int] = {}
        """Of each open progress bar of a rank, the number of its last state, if that is kept."""
        self._kept_bytes = 0
        self._flows: dict[bytes, LogFlow] = {}
        self.omitted_bytes = 0
        self.length = 0
        self.dropped_until = 0
        self.is_over = False

    @property
    def weight_bytes(self) -> int:
        """About what it takes in memory."""
        return self._kept_bytes + len(self._events) * _EVENT_BYTES + len(self._cell.code)

    def describe(self) -> KeptCell:
        """Describe the cell at this moment."""
        return replace(self._cell, is_running=not self.is_over, kept_bytes=self._kept_bytes)

    def events(self, since: int = 0) -> tuple[CellEvent, ...]:
        """Return what is kept from a number on, in order, and of each rank how it ended."""
        kept = (event for number, event in self._events.items() if number >= since)
        return tuple(
            each
            for event in kept
            for each in (event.one_by_one() if isinstance(event, RanksOk) else (event,))
        )

    def find(self, number: int) -> CellEvent | None:
        """Return an event; None for an output that has given way."""
        return self._events.get(number)

    def add(self, events: Sequence[CellEvent]) -> None:
        """Keep events; large outputs in pieces, so that a part of them can give way."""
        for event in events:
            if isinstance(event, RankOutput):
                for piece in cut_output(event):
                    self._replace_bar(piece)
                    number = self.length
                    self._outputs[number] = self._keep(piece)
            else:
                self._keep(event)
        while self.weight_bytes > KEPT_BYTES and len(self._outputs) > 1:
            self._drop_oldest_output()

    def _keep(self, event: CellEvent) -> int:
        """Give an event its number; return its size."""
        self._events[self.length] = event
        self.length += 1
        size = size_of(event)
        self._kept_bytes += size
        return size

    def follow(self, client: bytes, sender: Sender) -> None:
        """Send this client everything from the beginning on; once more if it asks again."""
        self._flows[client] = LogFlow(client, self, sender)
        self.flush()

    def acknowledge(self, client: bytes, seen_bytes: int) -> None:
        """Note how much a client that follows has taken in."""
        if client in self._flows:
            self._flows[client].acknowledge(seen_bytes)
            self.flush()

    def flush(self) -> None:
        """Send those that follow what has come since the last time."""
        for flow in self._flows.values():
            flow.flush()
        self._flows = {client: flow for client, flow in self._flows.items() if not flow.is_over}

    def close(self) -> None:
        """Forget the outputs; who still reads them gets the results."""
        while self._outputs:
            self._drop_oldest_output()
        for flow in self._flows.values():
            flow.end()

    def _drop_oldest_output(self) -> None:
        number, size = self._outputs.popitem(last=False)
        key = _bar_of(self._events.pop(number))
        if key is not None and self._bars.get(key) == number:
            del self._bars[key]
        self.dropped_until = number + 1
        self._kept_bytes -= size
        self.omitted_bytes += size

    def _replace_bar(self, event: RankOutput) -> None:
        """Let the state of a progress bar give way to the new one, which says it all."""
        key = _bar_of(event)
        if key is None:
            return
        before = self._bars.pop(key, None)
        if before is not None:
            self._kept_bytes -= self._outputs.pop(before)
            del self._events[before]
        # Engines number bars again, and a loop may make very many.
        if not event.outputs[0].data.get("is_closed"):
            self._bars[key] = self.length


class LogFlow:
    """Reads a cell's log to one client from its beginning on, as fast as the client takes it in.

    Nothing waits here: what a slow reader has not got yet waits in the log, which is bounded.
    """

    def __init__(self, client: bytes, source: CellLog, sender: Sender) -> None:
        self._client = client
        self._source = source
        self._sender = sender
        self._next = 0
        self._known_gap = source.dropped_until
        self._sent_bytes = 0
        self._seen_bytes = 0
        self.is_over = False
        """The client was told that nothing follows."""

    def acknowledge(self, seen_bytes: int) -> None:
        """Note how much the client has taken in, over the whole cell; send more."""
        self._seen_bytes = max(self._seen_bytes, seen_bytes)
        self.flush()

    def flush(self) -> None:
        """Send what has come, as far as the client keeps up."""
        while not self.is_over and self._sent_bytes - self._seen_bytes <= WINDOW_BYTES:
            if not self._send():
                return

    def end(self) -> None:
        """Send all that is left, also to a client that does not keep up."""
        while not self.is_over and self._send():
            continue

    def _send(self) -> bool:
        """Send one batch; False when there is nothing to be sent."""
        events = self._read_batch()
        is_last = self._source.is_over and self._next == self._source.length
        if not events and not is_last:
            return False
        self.is_over = is_last
        batch = CellEvents(self._source.cell_id, tuple(events), self._sent_bytes, is_last)
        self._sender.to_client(self._client, batch)
        return True

    def _read_batch(self) -> list[CellEvent]:
        events: list[CellEvent] = []
        size = 0
        while self._next < self._source.length:
            event = self._source.find(self._next)
            # One that is missing after that has given way to a newer one that says the same.
            if event is None and self._known_gap <= self._next < self._source.dropped_until:
                self._known_gap = self._source.dropped_until
                event = CellNote(_LEFT_OUT, omits_output=True)
            weight = 0 if event is None else size_of(event)
            if events and size + weight > BATCH_BYTES:
                break
            self._next += 1
            size += weight
            if event is not None:
                events.append(event)
        self._sent_bytes += size
        return events


def _bar_of(event: CellEvent) -> tuple[int, str] | None:
    """Name the progress bar, by its one rank and number, whose state this is; None: no bar."""
    if not isinstance(event, RankOutput) or not event.outputs:
        return None
    output = event.outputs[0]
    return (event.ranks[0], str(output.data.get("bar"))) if output.kind == "progress" else None


def cut_output(event: RankOutput) -> Iterator[RankOutput]:
    """Cut an output into pieces of at most about PIECE_CHARACTERS; rich output stays whole.

    The state of each progress bar is a piece of its own.
    """
    if any(each.kind == "progress" for each in event.outputs):
        said = tuple(output for output in event.outputs if output.kind != "progress")
        yield from cut_output(RankOutput(event.ranks, said)) if said else ()
        for output in event.outputs:
            if output.kind == "progress":
                yield RankOutput(event.ranks, (output,))
        return
    if size_of(event) <= PIECE_CHARACTERS:
        yield event
        return
    piece: list[Output] = []
    size = 0
    for output in event.outputs:
        for text in _cut_text(output.text):
            part = replace(output, text=text)
            if piece and size + len(part.text) > PIECE_CHARACTERS:
                yield RankOutput(event.ranks, tuple(piece))
                piece, size = [], 0
            piece.append(part)
            size += len(part.text)
    yield RankOutput(event.ranks, tuple(piece))


def _cut_text(text: str) -> Iterator[str]:
    """Cut at ends of lines, so that what is left of a text begins with a whole line."""
    begin = 0
    while len(text) - begin > PIECE_CHARACTERS:
        end = text.rfind("\n", begin, begin + PIECE_CHARACTERS) + 1 or begin + PIECE_CHARACTERS
        yield text[begin:end]
        begin = end
    yield text[begin:]


class OutputLog:
    """The logs of the last cells, the oldest first."""

    def __init__(self, time_of_day: Callable[[], float] = time.time) -> None:
        self._time_of_day = time_of_day
        self._cells: deque[CellLog] = deque()
        self._older_bytes = 0
        """What all but the newest take in memory: nothing is added to them."""

    def begin(
        self, cell_id: str, label: str, code: str, ranks: Sequence[int], by: str = ""
    ) -> None:
        """Start with a new cell; `by` is the AI agent that has sent it, if one has."""
        now_s = self._time_of_day()
        cell = KeptCell(cell_id, label, code, tuple(ranks), now_s, is_running=True, by=by)
        if self._cells:
            self._older_bytes += self._cells[-1].weight_bytes
        self._cells.append(CellLog(cell))
        self._make_room()

    def add(self, events: Sequence[CellEvent]) -> None:
        """Keep events of the newest cell."""
        self._cells[-1].add(events)

    def flush(self) -> None:
        """Send those that follow the newest cell what has come since the last time."""
        self._cells[-1].flush()
        self._make_room()

    def finish(self) -> None:
        """Note that the newest cell has ended."""
        self._cells[-1].is_over = True
        self.flush()

    def list_cells(self, request_id: str) -> CellsListed:
        """Return which cells are kept."""
        return CellsListed(request_id, tuple(cell.describe() for cell in self._cells))

    def replay(self, request_id: str, label: str, since: int = 0) -> OutputReplayed | Refused:
        """Return what is kept of the last cell with this label, or of the last one.

        Since a mark, if one is given: the number of events that were there.
        """
        for cell in reversed(self._cells):
            if label in ("", cell.label):
                told, omitted_bytes = cell.describe(), cell.omitted_bytes
                events = cell.events(since)
                return OutputReplayed(request_id, told, events, omitted_bytes, cell.length)
        problem = "no cell has run on this cluster yet"
        if self._cells:
            labels = dict.fromkeys(cell.label for cell in reversed(self._cells))
            problem = f"{label!r} is not among the cells that are kept: {name_some([*labels])}"
        return Refused(
            request_id, ErrorCode.USAGE_ERROR, f"{problem}. %dist_output --list shows them."
        )

    def follow(self, client: bytes, request_id: str, sender: Sender) -> None:
        """Send this client the running cell's events from its beginning on."""
        newest = self._cells[-1] if self._cells else None
        if newest is None or newest.is_over:
            sender.to_client(client, CellFollowed(request_id, None))
            return
        followed = CellFollowed(request_id, newest.describe(), newest.omitted_bytes)
        sender.to_client(client, followed)
        newest.follow(client, sender)

    def acknowledge(self, client: bytes, cell_id: str, seen_bytes: int) -> None:
        """Note how much a client that follows a cell has taken in; the cell may be over."""
        for cell in self._cells:
            if cell.cell_id == cell_id:
                cell.acknowledge(client, seen_bytes)

    def _make_room(self) -> None:
        newest_bytes = self._cells[-1].weight_bytes
        while len(self._cells) > KEPT_CELLS or self._older_bytes + newest_bytes > KEPT_BYTES_IN_ALL:
            if len(self._cells) == 1:
                return
            oldest = self._cells.popleft()
            self._older_bytes -= oldest.weight_bytes
            oldest.close()
