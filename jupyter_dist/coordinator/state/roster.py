"""Who is there: every engine and host with its state, as the coordinator knows it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jupyter_dist.coordinator.state.engine_state import ABSENT, EngineEvent, EngineState, next_state
from jupyter_dist.coordinator.state.host_facts import HostReport
from jupyter_dist.launch.processes.core_wait import CoreTime
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.interfaces import HostNetwork, Interface
from jupyter_dist.model.hosts.looks import look_interval_s
from jupyter_dist.model.hosts.rank import RankInfo, assign_ranks, default_slots, name_along
from jupyter_dist.model.hosts.topology import CollectiveView
from jupyter_dist.model.spec.cluster_spec import JOIN, ClusterSpec, HostSpec
from jupyter_dist.model.spec.devices import (
    VISIBLE,
    first_device,
    index_on_host,
    make_shares,
    share_out,
    visible_devices,
)
from jupyter_dist.protocol import host_agent_pb2 as pb


@dataclass
class EngineRecord:
    """What is known of one engine; only the coordinator changes it."""

    name: str
    """On the wire, to agents and in file names: it stays when the rank changes."""
    info: RankInfo
    state: EngineState = EngineState.STARTING
    pid: int = 0
    reason: str = ""
    is_new: bool = True
    """It has not been in any generation yet."""
    shares_memory: bool = False
    """It can open files in memory of processes on the coordinator's machine."""
    is_suspect: bool = False
    is_condemned: bool = False
    """It is killed because someone wants another engine in its place."""
    beat_age_s: float = 0.0
    """Since its last heartbeat, when each engine was looked at last: only while one is silent."""
    starved_s: float = 0.0
    """Of that: for which it had no core to answer, while it was suspect."""
    looked_s: float = 0.0
    """When its agent had told last, as of the last judgement of its silence."""
    cell_label: str = ""
    busy_since_s: float = 0.0
    task: str = ""
    """Label of the ipyparallel task that has its main thread; a cell waits behind that."""
    task_since_s: float = 0.0
    asks: str = ""
    """What it does about input of a person, as `waits for input`."""
    stopped_at: str = ""
    """Where it is stopped in a debugger, as `In[5]:7`; empty: it is not."""
    owed_cell: str = ""
    """Id of a cell behind that task, which is to be interrupted as soon as it begins."""
    offsets: tuple[int, int] = (0, 0)
    """Bytes of stdout and stderr that have arrived."""
    offsets_before: tuple[int, int] = (0, 0)
    """The same when it was given its last work."""
    sample: pb.EngineSample | None = None
    identity: bytes = field(init=False)
    """Its name on ZeroMQ's sockets."""

    def __post_init__(self) -> None:
        self.identity = self.name.encode()

    def apply(self, event: EngineEvent) -> None:
        """Move along the table of engine_state.py."""
        self.state = next_state(self.state, event)
        if event is EngineEvent.JOINED:
            self.is_new = False

    def start_work(self, label: str, now_s: float) -> None:
        """Note that it was given something to do while it was idle."""
        self.state = next_state(self.state, EngineEvent.WORK_SENT)
        self.cell_label, self.busy_since_s = label, now_s
        self.offsets_before = self.offsets
        if self.sample is not None and self.sample.HasField("collective"):
            self.sample.collective.is_running = False  # what it was seen in belongs to the past
            self.sample.collective.is_earlier = True

    def end_work(self) -> None:
        """Note that it is idle again if it was busy; what is lost stays lost."""
        if self.state is EngineState.BUSY:
            self.state = next_state(self.state, EngineEvent.WORK_DONE)
            self.cell_label = ""

    @property
    def is_present(self) -> bool:
        """It has a process that takes part."""
        return self.state not in ABSENT

    @property
    def collective(self) -> CollectiveView | None:
        """Its last collective, as the agent read it from outside."""
        if self.sample is None or not self.sample.HasField("collective"):
            return None
        last = self.sample.collective
        # A sample is up to half a second old; an engine that is not busy is in no collective.
        is_running = last.is_running and self.state is EngineState.BUSY
        return CollectiveView(
            last.sequence,
            last.operation,
            last.seconds,
            is_running,
            last.site,
            last.group,
            last.arguments,
            last.root,
            last.is_earlier,
            tuple(last.awaits),
        )


@dataclass
class HostRecord:
    """What is known of one host."""

    spec: HostSpec
    joined: pb.Joined | None = None
    is_lost: bool = False
    observed: HostReport = field(default_factory=HostReport)
    looked_s: float = 0.0
    """When its agent began to look at its engines last, as far as that was told."""
    interface: Interface | None = None
    """Of its data path, once all hosts are known."""
    devices: tuple[str, ...] = ()
    """For its ranks, as CUDA_VISIBLE_DEVICES has them, once it has joined."""
    devices_per_engine: int = 1
    """Of those; 0: all."""
    relay: str = ""
    """What a relay of the agent that has joined proves itself with; empty: it has none yet."""
    is_count_asked: bool = True
    """Someone has said how many ranks it takes; else they follow from what it has."""

    @property
    def name(self) -> str:
        """What it is called in this cluster."""
        return self.spec.name

    @property
    def shares(self) -> tuple[str, ...]:
        """What each of its engines may see of the devices."""
        return make_shares(self.devices, self.devices_per_engine)

    def index_of(self, device: str) -> int | None:
        """Return NVML's number for a device, of several the first, where NVML counts that far."""
        if self.joined is None or not device:
            return None
        index = index_on_host(first_device(device), self.observed.uuids)
        return index if index is not None and index < self.joined.gpu_count else None

    def indices_of(self, share: str) -> tuple[int, ...]:
        """Return NVML's numbers for all devices of a share, as far as NVML knows them."""
        found = (self.index_of(device) for device in share.split(","))
        return tuple(index for index in found if index is not None)

    @property
    def network(self) -> HostNetwork:
        """What it has told of its network."""
        joined, wish = self.joined or pb.Joined(), self.spec.interface
        interfaces = tuple(
            Interface(each.name, each.address, each.prefix_length, each.speed_mbps)
            for each in joined.interfaces
        )
        return HostNetwork(
            interfaces, joined.local_address, wish, joined.machine, joined.home_address
        )


class Roster:
    """All engines by rank and all hosts by name."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self.hosts = {
            host.name: HostRecord(host, devices_per_engine=spec.devices_per_engine)
            for host in spec.hosts
        }
        self.look_interval_s = look_interval_s(len(spec.hosts))
        """How old what agents have told of busy ranks can be, in seconds."""
        self.engines: list[EngineRecord] = []
        self._by_name: dict[str, EngineRecord] = {}
        self._by_host: dict[str, list[EngineRecord]] | None = None
        """None: hosts or seats have changed since it was asked for."""
        # Who joins brings its own name, so that nobody has a place before all have come.
        if spec.world_size and not any(host.launcher == JOIN for host in spec.hosts):
            self._seat(spec.hosts)
        self._replacements = 0
        self._axes = Axes()

    @property
    def axes(self) -> Axes:
        """The axes over its ranks, which sentences name from when they are set."""
        return self._axes

    @axes.setter
    def axes(self, axes: Axes) -> None:
        self._axes = msgspec.structs.replace(axes, version=self._axes.version + 1)
        name_along(self._axes)

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return self._spec.name

    @property
    def missing_hosts(self) -> list[HostRecord]:
        """Hosts whose agent has not joined yet."""
        return [host for host in self.hosts.values() if host.joined is None]

    def take_joined(self, name: str, joined: pb.Joined) -> None:
        """Take in a host; one that joins on its own takes the next place that is kept for such."""
        if name not in self.hosts:
            place = next(host for host in self.missing_hosts if host.spec.launcher == "join")
            place.spec = msgspec.structs.replace(place.spec, name=name)
            self.hosts = {host.name: host for host in self.hosts.values()}
            self._by_host = None
        host = self.hosts[name]
        host.joined, host.is_lost, host.relay = joined, False, ""
        host.observed.take_joined(joined)
        host.devices = self._devices_of(host.spec, joined)
        if not host.spec.slots:
            slots = joined.slots or default_slots(
                len(host.devices), joined.cpu_count, host.devices_per_engine
            )
            host.is_count_asked = joined.slots > 0
            host.spec = msgspec.structs.replace(host.spec, slots=slots)

    def _devices_of(self, host: HostSpec, joined: pb.Joined) -> tuple[str, ...]:
        """List the devices for a host's ranks: what the user's variables say goes before all."""
        env = {**self._spec.env, **host.env}
        if VISIBLE in env:
            return visible_devices((), env[VISIBLE], joined.gpu_count)
        return visible_devices(host.devices, ",".join(joined.devices), joined.gpu_count)

    def sort_hosts(self, key: Callable[[str], Any]) -> None:
        """Put hosts into another order, by their names, before anybody has a seat."""
        self.hosts = {name: self.hosts[name] for name in sorted(self.hosts, key=key)}
        self._by_host = None

    def seat(self) -> None:
        """Give every slot its rank and device, now that all hosts have told what they have."""
        if not self.engines:
            self._seat([host.spec for host in self.hosts.values()])
        for name, engines in self.by_host().items():
            shares = share_out(len(engines), self.hosts[name].shares, self._spec.oversubscribe)
            for engine, device in zip(engines, shares, strict=False):
                engine.info = msgspec.structs.replace(engine.info, device=device)

    def _seat(self, hosts: Sequence[HostSpec]) -> None:
        self.engines = [EngineRecord(str(info.rank), info) for info in assign_ranks(hosts)]
        self._by_name = {engine.name: engine for engine in self.engines}
        self._by_host = None

    def find(self, name: str) -> EngineRecord | None:
        """Return the engine with this name; None for one that was replaced."""
        return self._by_name.get(name)

    def replace(self, rank: int, info: RankInfo) -> None:
        """Give a rank a new engine, which is to be started at this place."""
        self._replacements += 1
        del self._by_name[self.engines[rank].name]
        engine = self.engines[rank] = EngineRecord(f"{rank}.{self._replacements}", info)
        self._by_name[engine.name] = engine
        self._by_host = None

    def condemn(self, ranks: Iterable[int]) -> None:
        """Note that the engines of these ranks are killed, to be replaced."""
        for rank in ranks:
            self[rank].is_condemned = True

    def count_local_ranks(self) -> None:
        """Tell every engine again how many its host has."""
        for mates in self.by_host().values():
            for engine in mates:
                engine.info = msgspec.structs.replace(engine.info, local_world_size=len(mates))

    def shrink(self) -> dict[int, int]:
        """Leave lost ranks and hosts out, number the others without gaps; give new by old.

        Axes are dropped: those that are left fill them no longer.
        """
        if self.axes:
            self.axes = Axes()
        present = self.present()
        renumbered = {engine.info.rank: rank for rank, engine in enumerate(present)}
        self.engines, self._by_name = present, {engine.name: engine for engine in present}
        self._by_host = None
        groups = self.by_host()
        self.hosts = {
            name: host for name, host in self.hosts.items() if not host.is_lost or groups[name]
        }
        self._by_host = None
        for host_rank, name in enumerate(self.hosts):
            for local_rank, engine in enumerate(groups[name]):
                engine.info = msgspec.structs.replace(
                    engine.info,
                    rank=renumbered[engine.info.rank],
                    world_size=len(present),
                    local_rank=local_rank,
                    local_world_size=len(groups[name]),
                    host_rank=host_rank,
                )
        return renumbered

    def __getitem__(self, rank: int) -> EngineRecord:
        return self.engines[rank]

    @property
    def world_size(self) -> int:
        """Number of ranks, present or not."""
        return len(self.engines)

    def ranks_in(self, *states: EngineState) -> list[int]:
        """Ranks that are in one of these states."""
        return [engine.info.rank for engine in self.engines if engine.state in states]

    def present(self) -> list[EngineRecord]:
        """Return the engines that have a process that takes part."""
        return [engine for engine in self.engines if engine.state not in ABSENT]

    def present_ranks(self) -> list[int]:
        """Ranks that have a process that takes part."""
        return [engine.info.rank for engine in self.engines if engine.state not in ABSENT]

    def lost_ranks(self) -> list[int]:
        """Ranks that have no process any more, or one that is out of reach."""
        return self.ranks_in(*ABSENT)

    def on_host(self, host: str) -> list[EngineRecord]:
        """Engines of this host."""
        return self.by_host().get(host, [])

    def by_host(self) -> dict[str, list[EngineRecord]]:
        """Return the engines of each host; not to be changed by the caller."""
        if self._by_host is None:
            self._by_host = {name: [] for name in self.hosts}
            for engine in self.engines:
                self._by_host[engine.info.host].append(engine)
        return self._by_host

    def group_by_host(self, ranks: Iterable[int]) -> dict[str, list[int]]:
        """Sort ranks by their host."""
        groups: dict[str, list[int]] = {}
        for rank in ranks:
            groups.setdefault(self[rank].info.host, []).append(rank)
        return groups

    def take_telemetry(self, host: str, telemetry: pb.Telemetry, now_s: float = 0.0) -> None:
        """Take in what an agent observed."""
        self.hosts[host].observed.take_sample(telemetry, now_s)
        self.hosts[host].looked_s = now_s - telemetry.engines_age_s
        for sample in telemetry.engines:
            if (engine := self.find(sample.engine)) is not None:
                engine.sample = sample

    def core_time(self, rank: int, now_s: float) -> CoreTime:
        """Return how long a rank has had a core, and has lacked one in cells that were interrupted.

        What its agent has not seen in time counts as lacking: it shares those cores.
        """
        engine = self[rank]
        if engine.sample is None:
            return CoreTime()
        late_s = now_s - self.hosts[engine.info.host].looked_s - 2 * self.look_interval_s
        return CoreTime(engine.sample.core_s, engine.sample.core_wait_s + max(0.0, late_s))

    def take_started(self, pids: Mapping[str, int]) -> None:
        """Take in that engines have their processes."""
        for name, pid in pids.items():
            if (engine := self.find(name)) is not None:
                engine.pid = pid

    @property
    def ranks_in_tasks(self) -> list[int]:
        """Ranks that run a task of ipyparallel."""
        return [each.info.rank for each in self.engines if each.task and each.is_present]

    def start_task(self, rank: int, label: str, since_s: float) -> None:
        """Note that a task of ipyparallel has the main thread of an engine."""
        self[rank].task, self[rank].task_since_s = label, since_s

    def owe_interrupt(self, ranks: Iterable[int], cell_id: str) -> None:
        """Note that a cell is to be interrupted, but not the tasks before it."""
        for rank in ranks:
            self[rank].owed_cell = cell_id

    def end_task(self, rank: int) -> str:
        """Note that the task is over; gives the cell that is to be interrupted now, or nothing."""
        engine = self[rank]
        cell_id, engine.task, engine.owed_cell = engine.owed_cell, "", ""
        return cell_id

    def lose(self, rank: int, reason: str) -> bool:
        """Note that an engine is gone; True when that is news."""
        engine = self[rank]
        if not engine.is_present:
            return False
        engine.apply(EngineEvent.WENT_AWAY)
        engine.reason = reason
        engine.cell_label = ""
        return True
