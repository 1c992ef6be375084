"""One coordinator's whole life: agents first (they take longest), then sockets, then the loop.

The order comes as one JSON line on stdin, the answer goes as one JSON line to stdout; after
that the coordinator is on its own and outlives whoever started it.
"""

import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING

import msgspec

from jupyter_dist.control.context import new_context
from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.keys import make_cluster_keys
from jupyter_dist.control.router import Doorkeeper, Router
from jupyter_dist.launch.base import AgentProcess, Invitation
from jupyter_dist.launch.connection_file import (
    ConnectionInfo,
    StartReport,
    connection_path,
    write_connection,
)
from jupyter_dist.launch.local import LocalLauncher
from jupyter_dist.launch.private_dir import make_private_dir
from jupyter_dist.model.spec import ClusterSpec
from jupyter_dist.protocol import codec
from jupyter_dist.protocol.credentials import ClusterKeys
from jupyter_dist.protocol.messages import ClusterStopping

if TYPE_CHECKING:  # imported late, see House.open
    from jupyter_dist.coordinator.certificates import Authority

BIND_HOST = "127.0.0.1"
AGENT_END_TIMEOUT_S = 6.0
FILE_CHECK_INTERVAL_S = 1.0


class House:
    """Everything the coordinator has opened, so that all of it is closed again."""

    def __init__(self, spec: ClusterSpec, log: IO[bytes], log_path: Path) -> None:
        self._spec = spec
        self._log_path = log_path
        # The agents' imports take longest, so they begin before ours.
        launcher = LocalLauncher(log, spec.start_method, os.getpid())
        self._agents: dict[str, AgentProcess] = {
            host.name: launcher.start(host.name) for host in spec.hosts
        }
        self._stack = contextlib.ExitStack()
        self._stack.callback(self._end_agents)

    def open(self) -> ConnectionInfo:
        """Open every socket, invite the agents, write the connection file."""
        from jupyter_dist.coordinator.agents import AgentService
        from jupyter_dist.coordinator.certificates import Authority
        from jupyter_dist.coordinator.coordinator import Coordinator

        keys = make_cluster_keys()
        context = new_context()
        self._stack.callback(context.term)
        doorkeeper = Doorkeeper(context)
        self._stack.callback(doorkeeper.close)
        doorkeeper.admit("engines", keys.engine.public)
        doorkeeper.admit("clients", keys.client.public)
        # A context of their own is a network thread of their own: no large message delays a beat.
        beats_context = new_context()
        self._stack.callback(beats_context.term)
        beats_doorkeeper = Doorkeeper(beats_context)
        self._stack.callback(beats_doorkeeper.close)
        beats_doorkeeper.admit("beats", keys.engine.public)
        engines = Router(context, "engines", keys.server, codec.from_engine())
        self.clients = Router(context, "clients", keys.server, codec.from_client())
        beats = HeartbeatMonitor(beats_context, "beats", keys.server)
        for router in (engines, self.clients, beats):
            self._stack.callback(router.close)
        authority = Authority()
        hosts = tuple(host.name for host in self._spec.hosts)
        agents = AgentService(hosts, authority, authority.issue_server())
        self._stack.callback(agents.close)
        addresses = (engines.bind(BIND_HOST), beats.bind(BIND_HOST), agents.bind(BIND_HOST))
        for host, process in self._agents.items():
            process.invite(self._invitation(host, authority, keys, addresses))
        self.coordinator = Coordinator(
            self._spec, engines, self.clients, beats, agents, self._log_tail
        )
        return self._publish(self.clients.bind(BIND_HOST), keys)

    def serve(self) -> None:
        """Serve until the end, then let everyone leave."""
        self.coordinator.serve(self._tick)
        for host in self.coordinator.leave():
            self._agents[host].terminate()

    def close(self) -> None:
        """End agents, remove the connection file, answer who asked for the end, close sockets."""
        self._end_agents()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        request = self.coordinator.stop_request
        if request is not None:
            self.coordinator.to_client(request[0], ClusterStopping(request[1]))
        self._stack.close()

    def abandon(self) -> None:
        """Close what a failed start has opened; agents may not even be invited yet."""
        for process in self._agents.values():
            process.terminate()
        self._stack.close()

    def _invitation(
        self,
        host: str,
        authority: "Authority",
        keys: ClusterKeys,
        addresses: tuple[str, str, str],
    ) -> Invitation:
        engines_address, beats_address, agents_address = addresses
        certificate = authority.issue_agent(host)
        spec = self._spec
        return Invitation(
            cluster=spec.name,
            host=host,
            coordinator_address=agents_address,
            ca_certificate=authority.certificate,
            certificate=certificate.certificate,
            private_key=certificate.private_key,
            engines_address=engines_address,
            beats_address=beats_address,
            engine_credentials=keys.for_engine(),
            bind_host=BIND_HOST,
            communicator=spec.communicator,
            collective_timeout_s=spec.collective_timeout_s,
            env=spec.env,
            cwd=spec.cwd,
        )

    def _publish(self, clients_address: str, keys: ClusterKeys) -> ConnectionInfo:
        self._path = connection_path(self._spec.name)
        self._info = ConnectionInfo(
            name=self._spec.name,
            clients_address=clients_address,
            credentials=keys.for_client(),
            coordinator_pid=os.getpid(),
            world_size=self._spec.world_size,
            log_path=str(self._log_path),
        )
        write_connection(self._path, self._info, is_new=True)
        self._next_check_s = monotonic() + FILE_CHECK_INTERVAL_S
        return self._info

    def _tick(self, now_s: float) -> None:
        """Notice agents that ended by themselves, and a connection file that was deleted."""
        for host, process in self._agents.items():
            status = process.poll()
            if status is not None:
                self.coordinator.fail_start(f"the agent of {host} ended with status {status}")
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + FILE_CHECK_INTERVAL_S
            if not self._path.exists():
                with contextlib.suppress(OSError):  # a full disk: tried again next time
                    write_connection(self._path, self._info)

    def _log_tail(self) -> str:
        try:
            return self._log_path.read_text(errors="replace").strip()[-2000:]
        except OSError as error:
            return f"({error})"

    def _end_agents(self) -> None:
        for process in self._agents.values():
            if process.wait(AGENT_END_TIMEOUT_S) is None:
                process.kill()


def main() -> None:
    """Coordinate one cluster from its start to its end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=ClusterSpec)
    os.umask(0o077)
    state_dir = make_private_dir()
    log_path = state_dir / "coordinator.log"
    with log_path.open("ab", buffering=0) as log:
        _redirect(log)
        try:
            _coordinate(spec, log, log_path)
        finally:
            shutil.rmtree(state_dir, ignore_errors=True)


def _coordinate(spec: ClusterSpec, log: IO[bytes], log_path: Path) -> None:
    house = House(spec, log, log_path)
    try:
        report = StartReport(house.open())
        signal.signal(signal.SIGTERM, lambda *_: _stop(house))
    except OSError as error:
        _give_up(house, str(error))
        return
    except BaseException as error:
        _give_up(house, f"{type(error).__name__}: {error}")
        raise
    _report(report)
    try:
        house.serve()
    finally:
        house.close()


def _give_up(house: House, problem: str) -> None:
    """Report why there is no cluster, and clean up undisturbed.

    The starter answers the report with SIGTERM; raised in the middle of closing, it would leave a
    socket open for which libzmq then waits for ever.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _report(StartReport(problem=problem))
    house.abandon()


def _stop(house: House) -> None:
    house.coordinator.is_stopping = True


_report_descriptor = -1


def _redirect(log: IO[bytes]) -> None:
    """Keep stdout for the report, and send whatever else is printed to the log."""
    global _report_descriptor  # noqa: PLW0603  (one process, one report)
    _report_descriptor = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)


def _report(report: StartReport) -> None:
    """Tell the starter; it may be gone already, which is no reason to end."""
    with contextlib.suppress(BrokenPipeError), os.fdopen(_report_descriptor, "wb") as out:
        out.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
