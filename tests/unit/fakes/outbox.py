"""An outbox that keeps what it is given."""

from collections.abc import Sequence
from typing import Any

from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import CellEvents, RanksOk, Refused, ToClient, ToEngine


class RecordingSender:
    """Remembers every message and signal in the order they were sent."""

    def __init__(self) -> None:
        self.engines: list[tuple[int, ToEngine, list[Frame]]] = []
        self.clients: list[tuple[bytes, ToClient, list[Frame]]] = []
        self.signals: list[tuple[tuple[int, ...], int, str]] = []
        self.commands: list[tuple[str, pb.AgentCommand]] = []
        self.signals_under_way: set[str] = set()
        self.hosts_with_agents: set[str] | None = None
        """None: every host has one."""

    def to_agent(self, host: str, command: pb.AgentCommand) -> bool:
        if self.hosts_with_agents is not None and host not in self.hosts_with_agents:
            return False
        self.commands.append((host, command))
        return True

    def to_engine(self, rank: int, message: ToEngine, buffers: Sequence[Frame] = ()) -> None:
        self.engines.append((rank, message, list(buffers)))

    def to_engines(self, ranks: Sequence[int], message: ToEngine) -> None:
        for rank in ranks:
            self.to_engine(rank, message)

    def to_client(self, client: bytes, message: ToClient, buffers: Sequence[Frame] = ()) -> None:
        self.clients.append((client, message, list(buffers)))

    def refuse(self, client: bytes, request_id: str, code: ErrorCode, reason: str) -> None:
        self.to_client(client, Refused(request_id, code, reason))

    def send_signal(
        self, ranks: Sequence[int], signal_number: int, request_id: str, cell_id: str = ""
    ) -> None:
        self.signals.append((tuple(ranks), int(signal_number), request_id))

    def sent_to_ranks(self, kind: type) -> dict[int, list]:
        """Messages of one kind by rank."""
        found: dict[int, list] = {}
        for rank, message, _ in self.engines:
            if isinstance(message, kind):
                found.setdefault(rank, []).append(message)
        return found

    def told(self, kind: type, client: bytes | None = None) -> list:
        """Messages of one kind to one client, or to all."""
        return [
            message
            for to, message, _ in self.clients
            if isinstance(message, kind) and client in (None, to)
        ]

    def cell_events(self, kind: Any = object, client: bytes | None = None) -> list:
        """Events of cells of one kind that were told to one client, or to all.

        Of each rank on its own that it is done.
        """
        told = [event for batch in self.told(CellEvents, client) for event in batch.events]
        each = (e.one_by_one() if isinstance(e, RanksOk) else (e,) for e in told)
        return [event for events in each for event in events if isinstance(event, kind)]

    def commanded(self, kind: str) -> list[tuple[str, Any]]:
        """Commands of one kind to agents, with their hosts."""
        return [
            (host, getattr(command, kind))
            for host, command in self.commands
            if command.WhichOneof("command") == kind
        ]

    def forget(self) -> None:
        """Start over."""
        self.engines.clear()
        self.clients.clear()
        self.signals.clear()
        self.commands.clear()
