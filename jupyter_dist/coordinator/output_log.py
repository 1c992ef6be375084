"""What the running or last cell said, kept for a client that comes later; bounded."""

from collections import deque

from jupyter_dist.coordinator.flow import size_of
from jupyter_dist.protocol.messages import CellEvent, OutputReplayed, RankOutput

KEPT_BYTES = 4 << 20


class OutputLog:
    """The events of one cell; older outputs give way, results never do."""

    def __init__(self) -> None:
        self._cell_id = ""
        self._code = ""
        self._outputs: deque[tuple[int, CellEvent]] = deque()
        self._results: list[CellEvent] = []
        self._kept_bytes = 0
        self._omitted_bytes = 0

    def begin(self, cell_id: str, code: str) -> None:
        """Start with a new cell; the one before is forgotten."""
        self._cell_id, self._code = cell_id, code
        self._outputs.clear()
        self._results.clear()
        self._kept_bytes = self._omitted_bytes = 0

    def add(self, event: CellEvent) -> None:
        """Keep an event."""
        if not isinstance(event, RankOutput):
            self._results.append(event)
            return
        size = size_of(event)
        self._outputs.append((size, event))
        self._kept_bytes += size
        while self._kept_bytes > KEPT_BYTES and len(self._outputs) > 1:
            dropped, _ = self._outputs.popleft()
            self._kept_bytes -= dropped
            self._omitted_bytes += dropped

    def replay(self, request_id: str, is_running: bool) -> OutputReplayed:
        """Give everything that is kept."""
        events = (*(event for _, event in self._outputs), *self._results)
        return OutputReplayed(
            request_id, self._cell_id, self._code, is_running, events, self._omitted_bytes
        )
