"""Events of a cell on their way to its clients: batched, and bounded for a slow reader."""

from collections import deque

from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.protocol.messages import CellEvent, CellEvents, Output, RankFinished, RankOutput

WINDOW_BYTES = 8 << 20
"""So much may be on its way to a client that has not taken it in yet."""
TAIL_CHARACTERS = 64 << 10
"""So much of each rank's text is kept for a client that lags behind."""
BATCH_BYTES = 1 << 20
"""What has been said before travels in messages of about this size."""


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

    def __init__(self, client: bytes, cell_id: str, sender: Sender) -> None:
        self._client = client
        self._cell_id = cell_id
        self._sender = sender
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
        self._sender.to_client(self._client, batch)

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
        """Return the tail, headed by what was left out."""
        if not self._omitted_lines:
            return tuple(self._pieces)
        note = f"[{self._omitted_lines} lines left out: this client read too slowly]"
        return (Output("note", note), *self._pieces)
