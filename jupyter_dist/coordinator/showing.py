"""The events of one cell on their way: to the client that sent it, and into the log."""

from jupyter_dist.coordinator.flow import EventFlow
from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.output_log import OutputLog
from jupyter_dist.protocol.messages import CellEvent


class Showing:
    """Who sees what happens in a cell; those that follow it read the log."""

    def __init__(self, client: bytes, cell_id: str, outbox: Outbox, log: OutputLog) -> None:
        self._client = client
        self._log = log
        self._flow = EventFlow(client, cell_id, outbox)

    def add(self, event: CellEvent) -> None:
        """Show an event with the next batch."""
        self._log.add(event)
        self._flow.add(event)

    def acknowledge(self, client: bytes, seen_bytes: int) -> None:
        """Note how much the client that sent the cell has taken in, over the whole cell."""
        if client == self._client:
            self._flow.acknowledge(seen_bytes)

    def flush(self) -> None:
        """Send what has come since the last time."""
        self._flow.flush()
        self._log.flush()

    def finish(self) -> None:
        """Send all that is left, and say that nothing follows."""
        self._flow.finish()
        self._log.finish()
