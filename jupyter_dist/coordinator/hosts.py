"""What agents say: a host has joined, an engine has started or ended, this is how it looks."""

from collections.abc import Callable

import msgspec

from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.losses import Losses
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.coordinator.transfers import Transfer
from jupyter_dist.protocol import host_agent_pb2 as pb

Send = Callable[[str, pb.AgentCommand], bool]


class Hosts:
    """Hands each agent's events to the part they concern."""

    def __init__(
        self, roster: Roster, rendezvous: Rendezvous, fence: Fence, losses: Losses, send: Send
    ) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._fence = fence
        self._losses = losses
        self._send = send
        self.stopped: set[str] = set()
        """Hosts on which nothing of ours runs any more but the agent."""
        self.problem = ""
        """Why a host cannot start its engines, or empty."""

    def on_event(self, host: str, event: pb.AgentEvent, now_s: float) -> None:
        """Take in one event of an agent."""
        record = self._roster.hosts[host]
        match event.WhichOneof("event"):
            case "joined":
                record.joined, record.is_lost = event.joined, False
                self._start_engines(host)
            case "engine_started":
                self._roster[event.engine_started.rank].pid = event.engine_started.pid
            case "engine_exited":
                self._losses.on_exit(event.engine_exited, now_s)
            case "signal_sent":
                self._fence.signals_under_way.discard(f"{event.signal_sent.request_id}@{host}")
            case "telemetry":
                self._roster.take_telemetry(host, event.telemetry)
            case "start_problem":
                self.problem = f"{host}: {event.start_problem.reason}"
            case "placed":
                if isinstance(self._fence.current, Transfer):
                    self._fence.current.on_placed(host, event.placed)
            case "all_stopped":
                self.stopped.add(host)

    def on_gone(self, host: str) -> None:
        """Take in that an agent's stream has broken."""
        self.stopped.add(host)
        record = self._roster.hosts[host]
        if not record.is_lost:
            record.is_lost = True
            self._fence.signals_under_way = {
                under_way
                for under_way in self._fence.signals_under_way
                if not under_way.endswith(f"@{host}")
            }
            self._losses.on_host_gone(host)

    def _start_engines(self, host: str) -> None:
        engines = self._roster.on_host(host)
        places = [pb.RankPlace(**msgspec.structs.asdict(engine.info)) for engine in engines]
        command = pb.StartEngines(places=places, generation=self._rendezvous.generation)
        self._send(host, pb.AgentCommand(start_engines=command))
