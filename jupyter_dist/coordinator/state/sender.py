"""How the coordinator's parts speak: they decide, the outbox sends."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import FetchObject, ToClient, ToEngine

Handlers = dict[type[Any], Callable[[bytes, Any, float], None]]
"""What takes in a message of a client, by its type: who has sent it, the message, and now."""
ARE_YOU_IDLE = FetchObject("", "rank")
"""An order that a rank answers once its main thread is free, whatever it did before."""


class Sender(Protocol):
    """Sends to engines by rank, to clients by identity, and signals through agents."""

    signals_under_way: set[str]
    """Signals that agents have not confirmed, as `id@host`."""

    def to_engine(self, rank: int, message: ToEngine, buffers: Sequence[Frame] = ()) -> None:
        """Send to one engine."""

    def to_engines(self, ranks: Sequence[int], message: ToEngine) -> None:
        """Send the same to several engines."""

    def to_client(self, client: bytes, message: ToClient, buffers: Sequence[Frame] = ()) -> None:
        """Send to one client."""

    def refuse(self, client: bytes, request_id: str, code: ErrorCode, reason: str) -> None:
        """Tell a client that a request of its cannot be carried out, and why."""

    def to_agent(self, host: str, command: pb.AgentCommand) -> bool:
        """Send to the agent of a host; False when it does not attend."""

    def send_signal(
        self, ranks: Sequence[int], signal_number: int, request_id: str, cell_id: str = ""
    ) -> None:
        """Have these ranks' processes signalled by their agents.

        With `cell_id` each is signalled while it runs that cell: not before, and not after it.
        """
