"""The gRPC service that agents dial; everything they say lands in the coordinator's mailbox."""

import contextlib
import errno
import math
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from jupyter_dist.control.poller import Waker
from jupyter_dist.coordinator.agents.admission import Admission, NotAdmitted
from jupyter_dist.coordinator.agents.agent_sessions import HostsHeard, Session, Sessions
from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.agents.certificates import Authority, Certificate
from jupyter_dist.coordinator.agents.connection_limits import HANDSHAKE_MS, Proven
from jupyter_dist.errors import no_free_port
from jupyter_dist.launch.launcher import STREAM_OPTIONS, keepalive_ms, keepalive_timeout_ms
from jupyter_dist.protocol import host_agent_pb2 as pb

SERVICE = "jupyter_dist.HostAgents"
_SPARE_STREAMS = 64
"""For the health service, and for strangers who have proven a certificate of an earlier agent."""


class AgentService:
    """One session per host, over one stream after the other.

    Events are taken with `receive`, after `waker` has woken the loop, and with each of its ticks:
    that is soon enough for what agents observe, twice a second on each of many hosts.
    """

    def __init__(
        self,
        admission: Admission,
        authority: Authority,
        server: Certificate,
        lost_after_s: float,
        witness: Arrivals,
        *,
        is_local: bool = False,
    ) -> None:
        """Serve agents; `is_local`: all of them are on this machine."""
        timeout_ms = keepalive_timeout_ms(lost_after_s, is_local=is_local)
        ping_after_ms = keepalive_ms(lost_after_s, admission.places, is_local=is_local)
        self.waker = Waker()
        self.is_telemetry_awaited = False
        """Someone waits for what agents observe, so that it wakes the loop as well."""
        self.proven = Proven()
        """From where agents attend; all other connections are those of strangers."""
        self._admission = admission
        self._events: queue.SimpleQueue[tuple[str, pb.AgentEvent | None]] = queue.SimpleQueue()
        silence_s = (ping_after_ms + timeout_ms) / 1000
        # The kernel tells of an agent on this machine whether it has ended, or is stopped.
        has_pings = not (is_local and sys.platform == "linux")
        stopped_s = math.inf if has_pings else timeout_ms / 1000
        self._sessions = Sessions(self._put, witness, lost_after_s, silence_s, stopped_s)
        self._is_serving = False
        self._credentials = grpc.ssl_server_credentials(
            [(server.private_key, server.certificate)],
            root_certificates=authority.certificate,
            require_client_auth=True,
        )
        self._server = grpc.server(
            # Made as streams come: one for each agent, and a second one while it comes back.
            ThreadPoolExecutor(
                2 * admission.places + _SPARE_STREAMS, thread_name_prefix="agent-stream"
            ),
            options=[
                *STREAM_OPTIONS,
                *(_pings(ping_after_ms, timeout_ms) if has_pings else ()),
                ("grpc.http2.min_ping_interval_without_data_ms", 500),
                ("grpc.so_reuseport", 0),
                ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
            ],
        )
        attend = grpc.stream_stream_rpc_method_handler(
            self._attend,
            request_deserializer=pb.AgentEvent.FromString,
            response_serializer=pb.AgentCommand.SerializeToString,
        )
        handlers = grpc.method_handlers_generic_handler(SERVICE, {"Attend": attend})
        self._server.add_generic_rpc_handlers((handlers,))
        _tell_health(self._server)

    def bind(self, host: str, ports: Sequence[int] = ()) -> int:
        """Listen on a free port (one of these, if given) of this address; OSError without one."""
        at = f"[{host}]" if ":" in host else host
        for wish in ports or (0,):
            with contextlib.suppress(RuntimeError):  # gRPC's only word for a port that is taken
                port = self._server.add_secure_port(f"{at}:{wish}", self._credentials)
                break
        else:
            raise OSError(errno.EADDRINUSE, no_free_port(host))
        self._server.start()
        self._is_serving = True
        return int(port)

    def receive(self) -> Iterator[tuple[str, pb.AgentEvent | None]]:
        """Yield what has arrived as (host, event); event None: the agent is gone."""
        self.waker.clear()
        while True:
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return

    def judge(self, now_s: float, hosts_heard_s: HostsHeard) -> float:
        """Find agents that are gone by the time that has passed; return when to look again.

        `hosts_heard_s` tells when something else on each host was heard last.
        """
        return self._sessions.judge(now_s, hosts_heard_s)

    def attends(self, host: str) -> bool:
        """Return whether the agent of a host is connected."""
        return self._sessions.attends(host)

    @property
    def left(self) -> frozenset[str]:
        """Hosts whose agents have said their last, and so end now."""
        return self._sessions.left

    def why_gone(self, host: str) -> str:
        """Return how it is known that the agent of this host is gone; empty: its process ended."""
        return self._sessions.why_gone.get(host, "")

    def send(self, host: str, command: pb.AgentCommand) -> bool:
        """Send a command to a host's agent, now or when it is back; False when it is gone."""
        return self._sessions.say(host, command)

    def await_ends(self, timeout_s: float) -> None:
        """Wait for the processes on this machine of agents that have said their last."""
        self._sessions.await_ends(timeout_s)

    def close(self) -> None:
        """End all streams."""
        self._sessions.end()
        if self._is_serving:  # the end of a server that never began is waited for in vain
            self._server.stop(grace=0.5).wait()
        self.waker.close()

    def _attend(self, events: Iterator[pb.AgentEvent], context: Any) -> Iterator[pb.AgentCommand]:
        """Serve one stream of an agent, on a thread of the server."""
        first = next(events, None) or pb.AgentEvent()
        names = tuple(context.auth_context().get("x509_common_name", []))
        try:
            if not first.number and first.WhichOneof("event") != "resume":
                raise NotAdmitted("its jupyter-dist is older than the coordinator's")
            if first.WhichOneof("event") == "resume":
                session = self._sessions.find(first.resume.session, names)
                opening = pb.AgentCommand()
            else:
                session = self._sessions.open(
                    self._admission.admit(names, first.joined.host), names
                )
                opening = None
        except NotAdmitted as refusal:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, str(refusal))
        self.proven.enter(context)
        connection = self._sessions.connect(session, first, context)
        context.add_callback(lambda: self._on_break(session, connection))
        threading.Thread(
            target=self._read,
            args=(session, connection, events),
            name=f"agent-{session.host}",
            daemon=True,
        ).start()
        yield from session.conversation.outgoing(connection, opening)

    def _read(self, session: Session, connection: int, events: Iterator[pb.AgentEvent]) -> None:
        # The stream breaks, which the last line tells, or gRPC stops and raises a bare Exception.
        with contextlib.suppress(Exception):
            for event in events:
                self._sessions.take(session, connection, event)
        self._on_break(session, connection)

    def _on_break(self, session: Session, connection: int) -> None:
        self._sessions.on_break(session, connection, monotonic())
        self.waker.wake()

    def _put(self, host: str, event: pb.AgentEvent | None) -> None:
        self._events.put((host, event))
        is_telemetry = event is not None and event.WhichOneof("event") == "telemetry"
        if self.is_telemetry_awaited or not is_telemetry:
            self.waker.wake()


def _pings(after_ms: int, timeout_ms: int) -> tuple[tuple[str, int], ...]:
    """Return what has gRPC make sure of an agent after a silence, and for how long it may take."""
    return (
        ("grpc.keepalive_time_ms", after_ms),
        ("grpc.keepalive_timeout_ms", timeout_ms),
        # For an agent that is stopped, whose kernel still takes in what is sent. Agents
        # are more patient: a coordinator may sleep with its machine.
        ("grpc.http2.ping_timeout_ms", timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
    )


def _tell_health(server: grpc.Server) -> None:
    """Let it answer gRPC's own question whether it serves."""
    servicer = health.HealthServicer()
    servicer.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
