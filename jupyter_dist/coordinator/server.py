"""Everything a coordinator opens on this machine: sockets, files, and the invitations."""

import contextlib
import gc
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, time
from typing import Any

import msgspec

from jupyter_dist.control.context import new_context
from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.keys import make_cluster_keys
from jupyter_dist.control.memory_file import make_or_none
from jupyter_dist.control.relay.engine_router import EngineRouter
from jupyter_dist.control.router import Doorkeeper, Router
from jupyter_dist.coordinator.agents.admission import Admission
from jupyter_dist.coordinator.agents.agent_service import AgentService
from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.agents.certificates import Authority
from jupyter_dist.coordinator.agents.connection_limits import ConnectionLimits
from jupyter_dist.coordinator.coordinator import Coordinator
from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    connection_path,
    keep_connection,
    write_connection,
)
from jupyter_dist.launch.files.join_file import JOINER, join_path, write_join_file
from jupyter_dist.launch.launcher import JoinTicket, Ports
from jupyter_dist.launch.processes.open_files import are_crowded
from jupyter_dist.launch.processes.private_dir import this_machine
from jupyter_dist.model.hosts.interfaces import find_interface
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec, parse_ports
from jupyter_dist.model.spec.shutdown_time import AGENT_END_S
from jupyter_dist.probe.host_report import machine_id
from jupyter_dist.probe.network import list_interfaces, offered_addresses
from jupyter_dist.protocol import codec
from jupyter_dist.protocol.credentials import ClusterKeys
from jupyter_dist.protocol.messages import ClusterStopping, FromClient
from jupyter_dist.version import WIRE

LOOPBACK = "127.0.0.1"
_ALL = ("::", "0.0.0.0")  # noqa: S104  (whoever comes must prove a key)
"""Every address of this machine; the first one is IPv4 as well."""
FILE_CHECK_INTERVAL_S = 1.0
LONGEST_DIAL_S = 20.0


class CoordinatorServer:
    """Opens everything a cluster needs on this machine, and closes all of it again."""

    def __init__(self, spec: ClusterSpec, arrivals: Arrivals, log_path: Path) -> None:
        self._spec = spec
        self._arrivals = arrivals
        self._log_path = log_path
        self._stack = contextlib.ExitStack()
        self._stack.callback(arrivals.end, AGENT_END_S)
        self._proof = make_or_none()
        self._is_frozen = False

    def open(self) -> ConnectionInfo:
        """Open every socket, invite the agents, write the connection file."""
        keys = make_cluster_keys()
        engines, self.clients, beats = self._open_routers(keys)
        authority = Authority()
        joining = [host for host in self._spec.hosts if host.launcher == "join"]
        invited = [host.name for host in self._spec.hosts if host.launcher != "join"]
        self._admission = Admission(invited, len(joining))
        self._agents = AgentService(
            self._admission,
            authority,
            authority.issue_server(),
            self._spec.health.lost_after_s,
            self._arrivals,
            is_local=all(host.is_here for host in self._spec.hosts),
        )
        self._stack.callback(self._agents.close)
        at = _listening_address(self._spec)
        ports = self._bind(at, self._agents, engines, beats)
        for host in self._spec.hosts:
            if host.launcher != "join":
                homes = _homes(at, host)
                ticket = self._ticket(host.name, homes, ports, authority)
                self._arrivals.invite(host.name, ticket)
        self.coordinator = Coordinator(
            self._spec,
            engines,
            self.clients,
            beats,
            self._agents,
            self._arrivals,
            keys.for_engine(),
        )
        self.coordinator.own_errors.log_path = str(self._log_path)
        clients_port = self.clients.bind(LOOPBACK)
        clients_path = self._listen_at(self._log_path.with_name("clients"))
        others = (ports.engines, ports.beats, clients_port)
        self._limits = ConnectionLimits(self._agents.proven, ports.agents, others)
        connection = self._publish(clients_port, clients_path, keys)
        if joining:  # only now is the cluster's name ours
            self._write_join_file(at, ports, authority)
        return connection

    def serve(self) -> None:
        """Serve until the end, then let everyone leave."""
        self.coordinator.serve(self._tick)
        self._arrivals.terminate(self.coordinator.leave())

    def stop(self) -> None:
        """Have `serve` end, also from the handler of a signal."""
        self.coordinator.stop()

    def close(self) -> None:
        """End agents, remove the connection file, answer who asked for the end, close sockets."""
        self._arrivals.end(AGENT_END_S)
        self._agents.await_ends(AGENT_END_S)  # those that were not started from here
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        request = self.coordinator.stop_request
        if request is not None:
            left = self._arrivals.job.left if self._arrivals.job is not None else ""
            self.clients.send(request[0], ClusterStopping(request[1], left))
        self._stack.close()

    def abandon(self) -> None:
        """Close what a failed start has opened; agents may not even be invited yet."""
        self._arrivals.terminate()
        self._stack.close()

    def _open_routers(
        self, keys: ClusterKeys
    ) -> tuple[EngineRouter, Router[FromClient], HeartbeatMonitor]:
        ranks_here = sum(host.slots for host in self._spec.hosts if host.is_here)
        context = new_context(is_crowded=are_crowded(ranks_here))
        # With what half of a failed start has left open, for whose end `term` waits for ever.
        self._stack.callback(context.destroy, 0)
        doorkeeper = Doorkeeper(context)
        self._stack.callback(doorkeeper.close)
        doorkeeper.admit("engines", keys.engine.public)
        doorkeeper.admit("clients", keys.client.public)
        # A context of their own is a network thread of their own: no large message delays a beat.
        beats_context = new_context()
        self._stack.callback(beats_context.destroy, 0)
        beats_doorkeeper = Doorkeeper(beats_context)
        self._stack.callback(beats_doorkeeper.close)
        beats_doorkeeper.admit("beats", keys.engine.public)
        engines = EngineRouter(context, "engines", keys.server)
        clients = Router(context, "clients", keys.server, codec.from_client())
        beats = HeartbeatMonitor(beats_context, "beats", keys.server, engines.relays)
        for router in (engines, clients, beats):
            self._stack.callback(router.close)
        return engines, clients, beats

    def _bind(self, at: str, *listeners: AgentService | Router[Any] | HeartbeatMonitor) -> Ports:
        """Let everyone listen at this address; a port of the range goes to one of them only."""
        allowed = list(parse_ports(self._spec.ports))
        bound: list[int] = []
        for listener in listeners:
            bound.append(listener.bind(at, allowed))
            allowed = [port for port in allowed if port not in bound]
        return Ports(*bound)

    def _ticket(
        self, host: str, homes: Sequence[str], ports: Ports, authority: Authority
    ) -> JoinTicket:
        certificate = authority.issue_agent(host or JOINER)
        return JoinTicket(
            wire=WIRE,
            cluster=self._spec.name,
            host=host,
            homes=tuple(homes),
            ports=ports,
            lost_after_s=self._spec.health.lost_after_s,
            sample_interval_s=self._spec.sample_interval_s,
            hosts=len(self._spec.hosts),
            dial_timeout_s=min(LONGEST_DIAL_S, self._spec.timeout_s / 2),
            ca_certificate=authority.certificate,
            certificate=certificate.certificate,
            private_key=certificate.private_key,
            machine=machine_id(),
            coordinator_pid=os.getpid(),
            memory_proof=self._proof.name if self._proof is not None else "",
        )

    def _write_join_file(self, at: str, ports: Ports, authority: Authority) -> None:
        path, batch, job = join_path(self._spec.name), self._spec.batch, self._arrivals.job
        if batch is not None:
            from jupyter_dist.launch.batch.files import make_job_dir

            path = make_job_dir(batch.directory or path.parent, self._spec.name) / path.name
        homes = (*_offered(at), LOOPBACK) if at in _ALL else _offered(at)
        ticket = self._ticket("", homes, ports, authority)
        good_until_s = time() + self._spec.timeout_s
        write_join_file(path, msgspec.structs.replace(ticket, good_until_s=good_until_s))
        self._arrivals.join_path = path
        if job is not None:
            job.start(path)

    def _listen_at(self, path: Path) -> str:
        """Let clients of this machine come by a Unix socket; empty where they cannot."""
        try:
            self.clients.bind_unix(str(path))
        except OSError:  # too long, as where TMPDIR names a deep folder
            return ""
        return str(path)

    def _publish(self, clients_port: int, clients_path: str, keys: ClusterKeys) -> ConnectionInfo:
        self._path = connection_path(self._spec.name)
        self._info = ConnectionInfo(
            name=self._spec.name,
            clients_address=f"tcp://{LOOPBACK}:{clients_port}",
            credentials=keys.for_client(),
            coordinator_pid=os.getpid(),
            world_size=self._spec.world_size,
            log_path=str(self._log_path),
            hosts=self._spec.hosts,
            job_dir=self._spec.batch.directory if self._spec.batch is not None else "",
            machine=this_machine(),
            clients_path=clients_path,
        )
        write_connection(self._path, self._info, is_new=True)
        self._next_check_s = monotonic() + FILE_CHECK_INTERVAL_S
        return self._info

    def _tick(self, now_s: float) -> float:
        """Keep strangers few and the connection file true, written again when it was deleted.

        Returns when that is to be looked at again.
        """
        if not self._is_frozen and self.coordinator.has_been_ready:
            self._is_frozen = True
            gc.freeze()  # what the cluster is made of stays: no collection walks it again
        roster = self.coordinator.roster
        self._limits.expect(len(roster.hosts), roster.world_size)
        due_s = self._limits.look(now_s)
        if self._info.world_size != roster.world_size:
            hosts = tuple(host.spec for host in roster.hosts.values())
            self._info = msgspec.structs.replace(
                self._info, world_size=roster.world_size, hosts=hosts
            )
            with contextlib.suppress(OSError):  # a full disk: tried again next time
                write_connection(self._path, self._info)
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + FILE_CHECK_INTERVAL_S
            with contextlib.suppress(OSError):
                keep_connection(self._path, self._info)
            if self._admission.is_full:
                self._arrivals.remove_join_file()
        return due_s


def _listening_address(spec: ClusterSpec) -> str:
    """Choose where to listen: only on this machine as long as nobody dials from outside."""
    if all(host.is_here or host.tunnel for host in spec.hosts):
        return LOOPBACK
    interfaces = list_interfaces()
    if spec.interface:
        chosen = find_interface(interfaces, spec.interface, "this machine")
        if chosen.is_loopback:
            raise UsageError(
                f"interface {spec.interface!r} leads to this machine only, and other hosts must "
                f"reach it. It has: {', '.join(map(str, interfaces))}."
            )
        return chosen.address
    has_ipv6 = any(":" in interface.address for interface in interfaces)
    return _ALL[0] if has_ipv6 and socket.has_dualstack_ipv6() else _ALL[1]


def _homes(at: str, host: HostSpec) -> tuple[str, ...]:
    """Return the addresses that this host is to try when we listen at `at`."""
    if host.is_here or host.tunnel:
        return (LOOPBACK,) if at in (*_ALL, LOOPBACK) else (at,)
    return _offered(at)


def _offered(at: str) -> tuple[str, ...]:
    """Return every address under which others may reach a socket that listens at `at`."""
    if at not in _ALL:
        return (at,)
    offered = offered_addresses(list_interfaces())
    return tuple(address for address in offered if at == "::" or ":" not in address)
