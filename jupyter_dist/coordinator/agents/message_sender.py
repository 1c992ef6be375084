"""What leaves the coordinator: to engines, to clients, and through agents to processes."""

from collections.abc import Sequence
from itertools import count

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.relay.engine_router import EngineRouter
from jupyter_dist.control.router import Router
from jupyter_dist.coordinator.agents.agent_service import AgentService
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.births import beats_path
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import FromClient, Refused, ToClient, ToEngine

NOBODY = b""
"""The client of work that the coordinator does on its own."""


class MessageSender:
    """The Outbox of all parts."""

    def __init__(
        self,
        roster: Roster,
        engines: EngineRouter,
        clients: Router[FromClient],
        beats: HeartbeatMonitor,
        agents: AgentService,
    ) -> None:
        self._roster = roster
        self._engines, self._clients, self._beats = engines, clients, beats
        self._agents = agents
        self._home_paths: set[str] = set()
        """Where ranks of this machine are listened to."""
        self.signals_under_way: set[str] = set()
        """Signals that agents have not confirmed, as `id@host`."""
        self._signal_ids = count(1)

    def to_engine(self, rank: int, message: ToEngine, buffers: Sequence[Frame] = ()) -> None:
        """Send to one engine."""
        self._engines.send(self._roster[rank].identity, message, buffers)

    def to_engines(self, ranks: Sequence[int], message: ToEngine) -> None:
        """Send the same to several engines."""
        engines = self._roster.engines
        self._engines.send_to_all([engines[rank].identity for rank in ranks], message)

    def to_stranger(self, identity: bytes, message: ToEngine) -> None:
        """Send to an engine that belongs to no rank any more."""
        self._engines.send_to_stranger(identity, message)

    def to_client(self, client: bytes, message: ToClient, buffers: Sequence[Frame] = ()) -> None:
        """Send to one client."""
        if client != NOBODY:
            self._clients.send(client, message, buffers)

    def refuse(self, client: bytes, request_id: str, code: ErrorCode, reason: str) -> None:
        """Tell a client that a request of its cannot be carried out, and why."""
        self.to_client(client, Refused(request_id, code, reason))

    def to_agent(self, host: str, command: pb.AgentCommand) -> bool:
        """Send to the agent of a host; False when it does not attend."""
        if command.WhichOneof("command") == "start_engines":
            self._prepare(command.start_engines)
        return self._agents.send(host, command)

    def _prepare(self, order: pb.StartEngines) -> None:
        """Make ready for what these engines will say, by whatever way."""
        if order.relay:
            self._engines.give_to_relay(order.relay, [place.engine for place in order.places])
        if order.home_path and not self._listen_at(order.home_path):
            order.home_path = ""

    def _listen_at(self, path: str) -> bool:
        """Let ranks of this machine come by Unix sockets; return whether they can."""
        if path not in self._home_paths:
            try:
                self._beats.bind_unix(beats_path(path))  # the longer path
                self._engines.bind_unix(path)
            except OSError:  # too long, or what is a folder for the agent is none here
                return False
            self._home_paths.add(path)
        return True

    def send_signal(
        self, ranks: Sequence[int], signal_number: int, request_id: str, cell_id: str = ""
    ) -> None:
        """Have these ranks signalled by their agents, within this cell if one is named."""
        # Each client counts its requests on its own, and a request may send several signals.
        signal_id = f"{next(self._signal_ids)}-{request_id}"
        for host, members in self._roster.group_by_host(ranks).items():
            names = [self._roster[rank].name for rank in members]
            command = pb.SendSignal(
                request_id=signal_id, engines=names, signal=signal_number, cell_id=cell_id
            )
            if self.to_agent(host, pb.AgentCommand(send_signal=command)):
                self.signals_under_way.add(f"{signal_id}@{host}")
