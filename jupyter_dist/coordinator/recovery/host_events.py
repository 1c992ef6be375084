"""What agents say: a host has joined, an engine has started or ended, this is how it looks."""

from collections.abc import Sequence
from typing import NamedTuple

from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.agents.deployment import Deployment
from jupyter_dist.coordinator.cells.push import Push
from jupyter_dist.coordinator.cells.scheduler import CellScheduler
from jupyter_dist.coordinator.recovery.losses import Losses
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.roster import EngineRecord, HostRecord, Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import UsageError, VersionMismatch
from jupyter_dist.model.hosts.host_names import place_in_order
from jupyter_dist.model.hosts.interfaces import choose_interfaces
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.text.lists import name_some
from jupyter_dist.version import WIRE


class Reach(NamedTuple):
    """How hosts are reached: what they are told, who starts their agents, and how it is sent."""

    deployment: Deployment
    arrivals: Arrivals
    sender: Sender


class HostEvents:
    """Hands each agent's events to the part they concern."""

    def __init__(
        self,
        roster: Roster,
        rendezvous: Rendezvous,
        scheduler: CellScheduler,
        losses: Losses,
        reach: Reach,
    ) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._scheduler = scheduler
        self._losses = losses
        self._deployment, self._arrivals, self._sender = reach
        losses.witness = self._arrivals.job
        self._has_started = False
        self._joined: set[str] = set()
        self.stopped: set[str] = set()
        """Hosts on which nothing of ours runs any more but the agent."""
        self.problem = ""
        """Why a host cannot start its engines, or empty."""
        self._findings: tuple[str, ...] = ()
        self._notes: dict[str, dict[str, None]] = {}
        """Sentences, with the hosts that have told them."""

    def list_notes(self) -> tuple[str, ...]:
        """Return what the user should know about the hosts, one sentence each."""
        told = (f"{name_some(list(hosts))}: {text}" for text, hosts in self._notes.items())
        return (*self._findings, *told)

    def on_event(self, host: str, event: pb.AgentEvent, now_s: float) -> None:
        """Take in one event of an agent."""
        if self._has_started and host not in self._roster.hosts:
            # The cluster has gone on without this host.
            self._sender.to_agent(host, pb.AgentCommand(stop=pb.Stop()))
            return
        match event.WhichOneof("event"):
            case "joined":
                self._on_joined(host, event.joined)
            case "engines_started":
                self._roster.take_started(event.engines_started.pids)
            case "engine_exited":
                self._losses.on_exit(event.engine_exited, now_s)
            case "telemetry":
                self._roster.take_telemetry(host, event.telemetry, now_s)
            case "start_problem":
                self.problem = f"{host}: {event.start_problem.reason}"
            case "note":
                self._notes.setdefault(event.note.text, {})[host] = None
            case "all_stopped":
                self.stopped.add(host)
            case _:
                self._on_answer(host, event)

    def _on_answer(self, host: str, event: pb.AgentEvent) -> None:
        """Take in that an agent has done what it was told."""
        current = self._scheduler.current
        match event.WhichOneof("event"):
            case "signal_sent":
                self._scheduler.signals_under_way.discard(f"{event.signal_sent.request_id}@{host}")
            case "placed" if isinstance(current, Push):
                current.on_placed(host, event.placed)
            case "place_taken" if isinstance(current, Push):
                current.on_place_taken(host, event.place_taken)

    # --- for ranks that get new engines ---

    def take_problem(self) -> str:
        """Say, once, why a host cannot start its engines; empty when nothing is known."""
        problem, self.problem = self.problem, ""
        return problem

    def start_engines(self, ranks: Sequence[int]) -> None:
        """Have the agents start the engines of these ranks, which have their places."""
        groups = self._roster.by_host()
        for name, members in self._roster.group_by_host(ranks).items():
            engines = [self._roster[rank] for rank in members]
            self._order(self._roster.hosts[name], engines, groups[name])

    def _order(
        self, host: HostRecord, engines: Sequence[EngineRecord], mates: Sequence[EngineRecord]
    ) -> None:
        """Have these engines started, of all that the host has or will have."""
        present = [engine for engine in mates if engine.is_present]
        command = self._deployment.order(
            host,
            engines,
            self._rendezvous.generation,
            self._rendezvous.communicator,
            [engine.info.device for engine in present],
        )
        self._sender.to_agent(host.name, pb.AgentCommand(start_engines=command))

    def on_gone(self, host: str, why: str = "") -> None:
        """Take in that an agent is gone; `why` says how that is known, if not by its end."""
        self.stopped.add(host)
        record = self._roster.hosts.get(host)
        if record is not None and not record.is_lost:
            record.is_lost = True
            self._scheduler.signals_under_way -= {
                under_way
                for under_way in self._scheduler.signals_under_way
                if under_way.endswith(f"@{host}")
            }
            self._losses.on_host_gone(host, why)

    def _on_joined(self, host: str, joined: pb.Joined) -> None:
        """Take in a host; with the last one every rank has its place, and engines are started."""
        if joined.wire != WIRE:
            self.problem = f"{host}: {VersionMismatch(WIRE, joined.wire)}"
            return
        self._roster.take_joined(host, joined)
        self._joined.add(host)
        if (job := self._arrivals.job) is not None and job.is_pending:
            job.ask()  # it runs, whatever was seen last
        self.stopped.discard(host)
        if self._has_started:
            return  # it is back; healing gives it ranks
        if len(self._joined) < len(self._roster.hosts) or self.problem:
            return
        try:
            self._deployment.check_machines(self._roster)
            self._deployment.check_devices(self._roster)
            choice = self._deployment.choose_communicator(self._roster)
            interfaces = choose_interfaces(self._deployment.list_networks(self._roster))
        except UsageError as error:
            self.problem = str(error)
            return
        if self._arrivals.job is not None:  # one node comes as late as the other, by chance
            self._roster.sort_hosts(place_in_order)
        self._roster.seat()
        self._rendezvous.communicator = choice.kind
        self._rendezvous.expect_all()
        self._findings = (*choice.notes, *self._deployment.describe(self._roster))
        groups = self._roster.by_host()
        for name, interface in interfaces.items():
            self._roster.hosts[name].interface = interface
            self._order(self._roster.hosts[name], groups[name], groups[name])
        self._has_started = True
