"""What agents say: a host has joined, an engine has started or ended, this is how it looks."""

from collections.abc import Callable

from jupyter_dist.coordinator.deployment import Deployment
from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.losses import Losses
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.coordinator.transfers import Transfer
from jupyter_dist.errors import UsageError, VersionMismatch
from jupyter_dist.model.interfaces import choose_interfaces
from jupyter_dist.model.text import name_some
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.version import WIRE

Send = Callable[[str, pb.AgentCommand], bool]


class Hosts:
    """Hands each agent's events to the part they concern."""

    def __init__(
        self,
        roster: Roster,
        rendezvous: Rendezvous,
        fence: Fence,
        losses: Losses,
        deployment: Deployment,
        send: Send,
    ) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._fence = fence
        self._losses = losses
        self._deployment = deployment
        self._send = send
        self.stopped: set[str] = set()
        """Hosts on which nothing of ours runs any more but the agent."""
        self.problem = ""
        """Why a host cannot start its engines, or empty."""
        self._findings: tuple[str, ...] = ()
        self._notes: dict[str, list[str]] = {}

    def list_notes(self) -> tuple[str, ...]:
        """Give what the user should know about the hosts, one sentence each."""
        told = (f"{name_some(hosts)}: {text}" for text, hosts in self._notes.items())
        return (*self._findings, *told)

    def on_event(self, host: str, event: pb.AgentEvent, now_s: float) -> None:
        """Take in one event of an agent."""
        match event.WhichOneof("event"):
            case "joined":
                self._on_joined(host, event.joined)
            case "engine_started":
                self._roster[event.engine_started.rank].pid = event.engine_started.pid
            case "engine_exited":
                self._losses.on_exit(event.engine_exited, now_s)
            case "telemetry":
                self._roster.take_telemetry(host, event.telemetry)
            case "start_problem":
                self.problem = f"{host}: {event.start_problem.reason}"
            case "note":
                self._notes.setdefault(event.note.text, []).append(host)
            case "all_stopped":
                self.stopped.add(host)
            case _:
                self._on_answer(host, event)

    def _on_answer(self, host: str, event: pb.AgentEvent) -> None:
        """Take in that an agent has done what it was told."""
        match event.WhichOneof("event"):
            case "signal_sent":
                self._fence.signals_under_way.discard(f"{event.signal_sent.request_id}@{host}")
            case "placed":
                if isinstance(self._fence.current, Transfer):
                    self._fence.current.on_placed(host, event.placed)

    def on_gone(self, host: str) -> None:
        """Take in that an agent's stream has broken."""
        self.stopped.add(host)
        record = self._roster.hosts.get(host)
        if record is not None and not record.is_lost:
            record.is_lost = True
            self._fence.signals_under_way = {
                under_way
                for under_way in self._fence.signals_under_way
                if not under_way.endswith(f"@{host}")
            }
            self._losses.on_host_gone(host)
            if not self._roster.engines:  # no rank is seated yet whose loss would be told
                self.problem = f"the agent of host {host} is gone"

    def _on_joined(self, host: str, joined: pb.Joined) -> None:
        """Take in a host; with the last one every rank has its place, and engines are started."""
        if joined.wire != WIRE:
            self.problem = f"{host}: {VersionMismatch(WIRE, joined.wire)}"
            return
        self._roster.take_joined(host, joined)
        if self._roster.missing_hosts or self.problem:
            return
        try:
            self._deployment.check_machines(self._roster)
            self._deployment.check_devices(self._roster)
            choice = self._deployment.choose_communicator(self._roster)
            interfaces = choose_interfaces(self._deployment.list_networks(self._roster))
        except UsageError as error:
            self.problem = str(error)
            return
        self._roster.seat()
        self._rendezvous.communicator = choice.kind
        self._rendezvous.expect_all()
        self._findings = (*choice.notes, *self._deployment.describe(self._roster))
        for name, interface in interfaces.items():
            self._roster.hosts[name].interface = interface
            command = self._deployment.order(
                self._roster, name, self._rendezvous.generation, choice.kind
            )
            self._send(name, pb.AgentCommand(start_engines=command))
