"""Events of a cell on their way to its clients: batched, and bounded for a slow reader."""

from collections import deque
from typing import Protocol

from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.protocol.messages import (
    CellEvent,
    CellEvents,
    CellNote,
    Output,
    RankFinished,
    RankOutput,
)

WINDOW_BYTES = 8 << 20
"""So much may be on its way to a client that has not taken it in yet."""
TAIL_CHARACTERS = 64 << 10
"""So much of each rank's text is kept for a client that lags behind."""
BATCH_BYTES = 1 << 20
"""What has been said before travels in messages of about this size."""
_LEFT_OUT = "[older output left out: this client read too slowly; each host's log has all of it]"


def size_of(event: CellEvent) -> int:
    """Estimate what an event weighs."""
    if isinstance(event, RankFinished):
        traceback = event.error.traceback if event.error is not None else ()
        return 200 + len(event.value_repr or "") + sum(map(len, traceback))
    if not isinstance(event, RankOutput):
        return 200
    return sum(
        len(output.text) + sum(len(str(value)) for value in output.data.values()) + 50
        for output in event.outputs
    )


class EventFlow:
    """Hands events over in batches; of a client that does not keep up it keeps only the tail."""

    def __init__(self, client: bytes, cell_id: str, outbox: Outbox) -> None:
        self._client = client
        self._cell_id = cell_id
        self._outbox = outbox
        self._pending: list[CellEvent] = []
        self._sent_bytes = 0
        self._seen_bytes = 0
        self._held: dict[int, HeldText] = {}

    def add(self, event: CellEvent) -> None:
        """Queue an event for the next flush."""
        if isinstance(event, RankOutput) and self._is_full:
            held = self._held.setdefault(event.rank, HeldText())
            rich = tuple(output for output in event.outputs if not held.take(output))
            if rich:
                self._pending.append(RankOutput(event.rank, rich))
            return
        self._release(event.rank if hasattr(event, "rank") else None)
        self._pending.append(event)

    def acknowledge(self, seen_bytes: int) -> None:
        """Note how much the client has taken in, over the whole cell."""
        self._seen_bytes = max(self._seen_bytes, seen_bytes)
        if not self._is_full:
            self._release(None)

    def flush(self) -> None:
        """Send what is queued as one message."""
        if self._pending:
            self._send(is_last=False)

    def finish(self) -> None:
        """Send everything that is left, held text too, and say that nothing follows."""
        self._release(None)
        self._send(is_last=True)

    def _send(self, is_last: bool) -> None:
        events, self._pending = tuple(self._pending), []
        self._sent_bytes += sum(size_of(event) for event in events)
        batch = CellEvents(self._cell_id, events, self._sent_bytes, is_last)
        self._outbox.to_client(self._client, batch)

    @property
    def _is_full(self) -> bool:
        return self._sent_bytes - self._seen_bytes > WINDOW_BYTES

    def _release(self, rank: int | None) -> None:
        """Queue what was held back, of one rank or of all."""
        for held_rank in [rank] if rank is not None else list(self._held):
            held = self._held.pop(held_rank, None)
            if held is not None:
                self._pending.append(RankOutput(held_rank, held.outputs()))


class HeldText:
    """The tail of one rank's text, and how many lines before it were left out."""

    def __init__(self) -> None:
        self._pieces: deque[Output] = deque()
        self._characters = 0
        self._omitted_lines = 0

    def take(self, output: Output) -> bool:
        """Keep a piece of text; False for rich output, which is never held back."""
        if output.kind not in ("stdout", "stderr"):
            return False
        self._pieces.append(output)
        self._characters += len(output.text)
        while len(self._pieces) > 1 and self._characters > TAIL_CHARACTERS:
            dropped = self._pieces.popleft()
            self._characters -= len(dropped.text)
            self._omitted_lines += dropped.text.count("\n")
        return True

    def outputs(self) -> tuple[Output, ...]:
        """Give the tail, headed by what was left out."""
        head = (
            (
                Output(
                    "note", f"[{self._omitted_lines} lines left out: this client read too slowly]"
                ),
            )
            if self._omitted_lines
            else ()
        )
        return (*head, *self._pieces)


class EventSource(Protocol):
    """The events of one cell by their numbers; the oldest outputs may be gone."""

    length: int
    """Number of the event that comes next."""
    dropped_until: int
    """No output before this number is kept."""
    is_over: bool
    """Nothing follows."""

    @property
    def cell_id(self) -> str:
        """Which cell it is."""

    def find(self, number: int) -> CellEvent | None:
        """Give an event; None for one that is gone."""


class LogFlow:
    """Reads a cell's log to one client from its beginning on, as fast as the client takes it in.

    Nothing waits here: what a slow reader has not got yet waits in the log, which is bounded.
    """

    def __init__(self, client: bytes, source: EventSource, outbox: Outbox) -> None:
        self._client = client
        self._source = source
        self._outbox = outbox
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
        self._outbox.to_client(self._client, batch)
        return True

    def _read_batch(self) -> list[CellEvent]:
        events: list[CellEvent] = []
        size = 0
        while self._next < self._source.length:
            event = self._source.find(self._next)
            # One that is missing after that has given way to a newer one that says the same.
            if event is None and self._known_gap <= self._next < self._source.dropped_until:
                self._known_gap = self._source.dropped_until
                event = CellNote(_LEFT_OUT)
            weight = 0 if event is None else size_of(event)
            if events and size + weight > BATCH_BYTES:
                break
            self._next += 1
            size += weight
            if event is not None:
                events.append(event)
        self._sent_bytes += size
        return events
