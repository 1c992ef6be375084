"""What a host is told to run, and what is to be said about hosts that differ."""

from collections.abc import Mapping, Sequence

import msgspec

from jupyter_dist.control.relay.envelope import new_relay
from jupyter_dist.coordinator.agents.communicator_choice import (
    Choice,
    HostDevices,
    choose_communicator,
)
from jupyter_dist.coordinator.state.roster import EngineRecord, HostRecord, Roster
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.interfaces import HostNetwork
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.model.spec.devices import AS_NVML, ORDER, VISIBLE, why_not_shared
from jupyter_dist.probe.host_report import machine_id
from jupyter_dist.probe.software import list_versions
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.births import home_path
from jupyter_dist.protocol.credentials import Credentials
from jupyter_dist.text.lists import group_pairs, name_some

CROSSING = ("python",)
"""Of these the minor version counts: functions that travel between two of them may not load."""
COMPARED = ("jupyter-dist", "numpy", "jax", "cupy", "torch", "nccl", "nccl4py", "driver")
"""Of these every difference is told."""
RELAYS_FROM_RANKS, RELAY_FROM_RANKS = 32, 4
"""Ranks of a cluster, and of a host of it, from which on a relay saves more than its way costs."""
NOTEBOOK = "the notebook's side"


class Deployment:
    """Turns the specification into one order for each host."""

    def __init__(self, spec: ClusterSpec, credentials: Credentials) -> None:
        self._spec = spec
        self._credentials = credentials
        self._machine = machine_id()
        # Now: once there are ports, strangers may have taken the files that reading needs.
        self._own_versions = {} if all(map(_is_as_here, spec.hosts)) else list_versions()

    def order(
        self,
        host: HostRecord,
        engines: Sequence[EngineRecord],
        generation: int,
        communicator: str,
        devices: Sequence[str],
    ) -> pb.StartEngines:
        """Write what a host's agent is told: to start these engines, whose place is known.

        `devices` are those of all engines of the host, also of those that run already.
        """
        assert host.interface is not None
        own, relay = self._credentials.own, self._relay_of(host, engines[0].info.world_size)
        return pb.StartEngines(
            places=[
                pb.RankPlace(**msgspec.structs.asdict(engine.info), engine=engine.name)
                for engine in engines
            ],
            generation=generation,
            server_public_key=self._credentials.server_public,
            own_public_key=own.public,
            own_secret_key=own.secret,
            communicator=communicator,
            collective_timeout_s=self._spec.collective_timeout_s,
            bind_host=host.interface.address,
            interface=host.interface.name,
            env=self._environment(host, [engine.info.device for engine in engines], devices),
            jax=self._spec.jax,
            save_on_preempt=self._spec.save_on_preempt,
            preempt_command=self._spec.preempt_command,
            relay=relay,
            home_path="" if relay else self._home_path_on(host),
            cwd=host.spec.cwd or self._spec.cwd,
            is_cwd_required=self._is_cwd_required(host.spec),
        )

    def _is_cwd_required(self, host: HostSpec) -> bool:
        return bool(host.cwd) or (host.is_here and not self._spec.is_cwd_optional)

    def _home_path_on(self, host: HostRecord) -> str:
        """Return where ranks on this machine find its coordinator; empty for other machines."""
        if host.joined is None or host.joined.machine != self._machine:
            return ""
        return home_path(host.joined.log_dir)

    def _relay_of(self, host: HostRecord, world_size: int) -> str:
        """Return what the relay of this host proves itself with; empty: it is to have none."""
        if not self._has_relay(host, world_size):
            return ""
        host.relay = host.relay or new_relay()
        return host.relay

    def _has_relay(self, host: HostRecord, world_size: int) -> bool:
        """Return whether a relay on this host gains: not for few ranks, nor on this machine."""
        if self._spec.relays != "auto":
            return self._spec.relays == "all"
        is_here = host.joined is None or host.joined.machine == self._machine
        is_large = world_size >= RELAYS_FROM_RANKS and host.spec.slots >= RELAY_FROM_RANKS
        return is_large and not is_here

    def list_networks(self, roster: Roster) -> dict[str, HostNetwork]:
        """Return each host's network, with the wish that counts for it: its own, or the cluster's.

        Interfaces of one name need not exist everywhere; a network that was asked for must.
        """
        networks = {name: host.network for name, host in roster.hosts.items()}
        wish = self._spec.interface
        return {
            name: msgspec.structs.replace(network, wish=wish)
            if wish and not network.wish and ("/" in wish or network.has_interface(wish))
            else network
            for name, network in networks.items()
        }

    def check_machines(self, roster: Roster) -> None:
        """Refuse two names for one machine, which would give its GPUs away twice."""
        if self._spec.one_machine:
            return
        by_machine = group_pairs(
            (host.joined.machine, host)
            for host in roster.hosts.values()
            if host.joined is not None and host.spec.launcher != "join"
        )
        for hosts in by_machine.values():
            if len(hosts) > 1:
                names = " and ".join(host.name for host in hosts)
                slots = sum(host.spec.slots for host in hosts)
                hostname = hosts[0].joined.hostname if hosts[0].joined else ""
                raise UsageError(
                    f"{names} are the same machine ({hostname}). Name it once: "
                    f"{hosts[0].name}:{slots}."
                )

    def check_devices(self, roster: Roster) -> None:
        """Refuse devices that a host does not have, and more for each rank than there are.

        CUDA would hide from a rank what follows the first device that it does not know.
        """
        for name, host in roster.hosts.items():
            count = host.joined.gpu_count if host.joined is not None else 0
            absent = [str(device) for device in host.spec.devices if device >= count]
            if count and absent:
                raise UsageError(
                    f"{name} has no device {name_some(absent)}. It has: "
                    f"{name_some([str(device) for device in range(count)])}. Correct its devices "
                    "in the specification."
                )
            problem = why_not_shared(
                name,
                host.spec.slots,
                len(host.devices),
                self._spec.devices_per_engine,
                is_count_asked=host.is_count_asked,
            )
            if problem:
                raise UsageError(problem)

    def choose_communicator(self, roster: Roster) -> Choice:
        """Choose the kind for all hosts as they are; raises UsageError where none can be."""
        found = {
            name: HostDevices(
                ranks=host.spec.slots,
                devices=host.devices,
                versions=dict(host.joined.versions),
                gpu_problem=host.joined.gpu_problem,
            )
            for name, host in roster.hosts.items()
            if host.joined is not None
        }
        return choose_communicator(self._spec.communicator, found, self._spec.oversubscribe)

    def describe(self, roster: Roster) -> tuple[str, ...]:
        """Return how the software of the hosts and of the notebook differs."""
        hosts = {
            name: dict(host.joined.versions)
            for name, host in roster.hosts.items()
            if host.joined is not None
        }
        return describe_differences(self._own_versions, hosts)

    def _environment(
        self, host: HostRecord, given: Sequence[str], devices: Sequence[str]
    ) -> dict[str, str]:
        """Return the variables of ranks; `given` are their own devices, `devices` those in use."""
        env = {**self._spec.env, **host.spec.env}
        if self._spec.cpu_devices:
            env.setdefault("JAX_NUM_CPU_DEVICES", str(self._spec.cpu_devices))
        asked, has_own = host.spec.devices, any(given)
        gpus = range(host.joined.gpu_count if host.joined is not None else 0)
        is_all = host.devices == tuple(str(index) for index in gpus)
        if VISIBLE not in env and (asked or (has_own and is_all)):
            env.setdefault(ORDER, AS_NVML)
        if asked and not has_own:
            env.setdefault(VISIBLE, ",".join(host.devices))
        in_use = [device for device in devices if device]
        if len(set(in_use)) < len(in_use):
            env.setdefault("NCCL_MULTI_RANK_GPU_ENABLE", "1")
        return env


def _is_as_here(host: HostSpec) -> bool:
    """Return whether its ranks have the packages of this very process."""
    return host.launcher == "local" and not (host.python or host.setup)


def describe_differences(
    notebook: Mapping[str, str], hosts: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
    """Say for each package which hosts have which version, where they are not all alike.

    A package that a host lacks is a difference; what the notebook's side lacks it may not need.
    """
    told = []
    for package in (*CROSSING, *COMPARED):
        sides = {NOTEBOOK: notebook, **hosts} if package in notebook else hosts
        told.append(_tell_versions(package, sides))
    return tuple(filter(None, told))


def _tell_versions(package: str, hosts: Mapping[str, Mapping[str, str]]) -> str:
    parts = 2 if package in CROSSING else None
    groups = group_pairs(
        (".".join(versions.get(package, "").split(".")[:parts]), host)
        for host, versions in hosts.items()
    )
    if len(groups) < 2:
        return ""
    told = [
        f"{version or 'none'} on {name_some(names)}"
        for version, names in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    return f"{package} differs: {'; '.join(told)}"
