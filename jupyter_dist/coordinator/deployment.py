"""What a host is told to run, and what is to be said about hosts that differ."""

import msgspec

from jupyter_dist.coordinator.roster import HostRecord, Roster
from jupyter_dist.errors import UsageError
from jupyter_dist.model.interfaces import HostNetwork
from jupyter_dist.model.spec import ClusterSpec
from jupyter_dist.model.versions import describe_differences
from jupyter_dist.probe.software import list_versions
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.credentials import Credentials


class Deployment:
    """Turns the specification into one order for each host."""

    def __init__(self, spec: ClusterSpec, communicator: str, credentials: Credentials) -> None:
        self._spec = spec
        self._communicator = communicator
        self._credentials = credentials

    def order(self, roster: Roster, name: str, generation: int) -> pb.StartEngines:
        """Write what the agent of this host is told, once its place and interface are known."""
        host = roster.hosts[name]
        assert host.interface is not None
        own = self._credentials.own
        return pb.StartEngines(
            places=[
                pb.RankPlace(**msgspec.structs.asdict(engine.info))
                for engine in roster.on_host(name)
            ],
            generation=generation,
            server_public_key=self._credentials.server_public,
            own_public_key=own.public,
            own_secret_key=own.secret,
            communicator=self._communicator,
            collective_timeout_s=self._spec.collective_timeout_s,
            bind_host=host.interface.address,
            interface=host.interface.name,
            env=self._environment(host),
            cwd=host.spec.cwd or self._spec.cwd,
            is_cwd_required=bool(host.spec.cwd) or host.spec.launcher in ("auto", "local"),
        )

    def list_networks(self, roster: Roster) -> dict[str, HostNetwork]:
        """Give each host's network, with the wish that counts for it: its own, or the cluster's.

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
        by_machine: dict[str, list[HostRecord]] = {}
        for host in roster.hosts.values():
            if host.joined is not None and host.spec.launcher != "join":
                by_machine.setdefault(host.joined.machine, []).append(host)
        for hosts in by_machine.values():
            if len(hosts) > 1:
                names = " and ".join(host.name for host in hosts)
                slots = sum(host.spec.slots for host in hosts)
                hostname = hosts[0].joined.hostname if hosts[0].joined else ""
                raise UsageError(
                    f"{names} are the same machine ({hostname}). Name it once: "
                    f"{hosts[0].name}:{slots}."
                )

    def describe(self, roster: Roster) -> tuple[str, ...]:
        """Say how the software of the hosts and of the notebook differs."""
        hosts = {
            name: dict(host.joined.versions)
            for name, host in roster.hosts.items()
            if host.joined is not None
        }
        return describe_differences(list_versions(), hosts)

    def _environment(self, host: HostRecord) -> dict[str, str]:
        env = {**self._spec.env, **host.spec.env}
        if host.spec.devices:
            devices = ",".join(str(device) for device in host.spec.devices)
            env.setdefault("CUDA_VISIBLE_DEVICES", devices)
        return env
