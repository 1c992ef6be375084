"""The agent's stream to the coordinator: events go up, commands come down.

A stream that breaks is no end: the agent dials again, and goes on where the last one broke.
"""

import threading
import time
from collections.abc import Generator, Iterator
from time import monotonic

import grpc
from grpc import _common as grpc_waits

from jupyter_dist.launch.launcher import (
    SERVER_NAME,
    STREAM_OPTIONS,
    JoinTicket,
    keepalive_ms,
    keepalive_timeout_ms,
)
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.model.hosts.addresses import join_address
from jupyter_dist.probe.host_report import machine_id
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.conversation import Conversation

ATTEND = "/jupyter_dist.HostAgents/Attend"
_LONGEST_ATTEMPT_MS = 2000
"""An attempt to connect that is not answered is made again."""
_LONGEST_PAUSE_MS = 200
_EARLIER_S = 1.5
"""So long before the coordinator gives an agent up that agent ends, with all it has started."""
_LONGEST_ABSENCE_S = 8.5
"""An agent that finds no coordinator where one was ends, however patient that would be."""
_SILENT_S = 3.0
"""Of a coordinator that was heard within this time it is known that it went only now."""
_FAREWELL_S = 1.0
_SLICE_S = 0.2
_PAUSE_S = 0.05


class CoordinatorStream:
    """A conversation with the coordinator, over one mutual-TLS connection after the other."""

    def __init__(self, ticket: JoinTicket, address: str) -> None:
        self.refusal = ""
        """Why the coordinator does not want this agent, or empty."""
        self._ticket = ticket
        self._conversation = Conversation(pb.AgentEvent)
        self._session = ""
        self._is_leaving = self._is_over = self._was_answered = False
        self._heard_s = monotonic()
        is_local = ticket.machine == machine_id()
        lost_after_s = ticket.lost_after_s
        credentials = grpc.ssl_channel_credentials(
            ticket.ca_certificate, ticket.private_key, ticket.certificate
        )
        self._keepalive_timeout_ms = keepalive_timeout_ms(lost_after_s, is_local=is_local)
        ping_after_ms = keepalive_ms(lost_after_s, ticket.hosts, is_local=False, is_agent=True)
        pings = (
            ("grpc.keepalive_time_ms", ping_after_ms),
            ("grpc.keepalive_timeout_ms", self._keepalive_timeout_ms),
        )
        _wait_for_commands_only()
        self._channel = grpc.secure_channel(
            join_address(address, ticket.ports.agents),
            credentials,
            options=[
                *STREAM_OPTIONS,
                *(() if is_local else pings),  # there the kernel tells of the coordinator's end
                ("grpc.ssl_target_name_override", SERVER_NAME),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", _LONGEST_ATTEMPT_MS),
                ("grpc.max_reconnect_backoff_ms", _LONGEST_PAUSE_MS),
                ("grpc.enable_http_proxy", 0),
            ],
        )
        self._attend = self._channel.stream_stream(
            ATTEND,
            request_serializer=pb.AgentEvent.SerializeToString,
            response_deserializer=pb.AgentCommand.FromString,
        )
        self._dial()

    def tell(self, event: pb.AgentEvent) -> None:
        """Send an event; from any thread."""
        self._conversation.say(event)

    def say_last(self, event: pb.AgentEvent) -> None:
        """Send the last event; `commands` ends when the coordinator has taken it."""
        event.is_last = True
        self._is_leaving = True
        self._conversation.say(event)
        self._conversation.end()

    def commands(self) -> Iterator[pb.AgentCommand]:
        """Yield the commands as they come, over as many connections as that takes.

        Ends when the coordinator hangs up, or was out of reach for too long. `refusal` is set
        then when this agent was never admitted.
        """
        self.refusal = "the connection ended before the coordinator had taken this agent in"
        until_s = monotonic() + self._ticket.dial_timeout_s
        while (yield from self._attend_once(until_s)) and self._session:
            now_s = monotonic()
            if self._was_answered:
                until_s = now_s + self._patience_s()
            if self._is_over or now_s >= until_s or self._is_coordinator_dead():
                return
            time.sleep(_PAUSE_S)
            self._dial()

    def _dial(self) -> None:
        """Begin a stream; with the name of the session when there is one to go on with."""
        self._connection = self._conversation.connect()
        opening = pb.AgentEvent(resume=pb.Resume(session=self._session)) if self._session else None
        outgoing = self._conversation.outgoing(self._connection, opening)
        self._call = self._attend(outgoing, wait_for_ready=True)

    def _attend_once(self, until_s: float) -> Generator[pb.AgentCommand, None, bool]:
        """Yield the commands of one stream; return whether it broke, which is not its end."""
        answered = threading.Event()
        watched = (self._call, answered, until_s)
        threading.Thread(target=self._watch, args=watched, name="patience", daemon=True).start()
        self._was_answered = False
        try:
            for command in self._call:
                answered.set()
                self._was_answered = True
                self._heard_s = monotonic()
                if not self._conversation.take(self._connection, command):
                    continue
                if command.WhichOneof("command") == "admitted":
                    self._session = command.admitted.session
                    self.refusal = ""
                yield command
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                return True
            if not self._session:
                self.refusal = error.details()
        finally:
            answered.set()
        return False

    def _watch(self, call: grpc.Call, answered: threading.Event, until_s: float) -> None:
        """End an attempt that would go on for ever: TLS refuses a certificate without a word."""
        while not answered.wait(min(_SLICE_S, max(0.0, until_s - monotonic()))):
            if monotonic() >= until_s:
                if not self._session and not self._is_over:
                    self.refusal = (
                        "the coordinator did not take this agent in within "
                        f"{self._ticket.dial_timeout_s:g} s: it is out of reach or too busy, "
                        "or does not accept this agent's certificate"
                    )
                call.cancel()
                return
            if self._is_over or self._is_coordinator_dead():
                call.cancel()
                return

    def _patience_s(self) -> float:
        """Return for how long a stream that broke just now may be away, in seconds."""
        patience_s = self._ticket.lost_after_s - _EARLIER_S
        if monotonic() - self._heard_s > _SILENT_S:
            # The silence lasted at least that long; how much longer is not known.
            return patience_s - self._keepalive_timeout_ms / 1000
        return min(_LONGEST_ABSENCE_S, patience_s)

    def _is_coordinator_dead(self) -> bool:
        """Return whether the coordinator is known to be dead: it was a process of this machine."""
        pid = self._ticket.pid_on(machine_id())
        return bool(pid) and not process_lives(pid)

    def hang_up(self) -> None:
        """Take leave, so that `commands` ends; from any thread or a signal handler."""
        if self._session and not self._is_leaving:
            self.say_last(pb.AgentEvent())
            farewell = threading.Timer(_FAREWELL_S, self._break_off)
            farewell.daemon = True
            farewell.start()
        else:
            self._break_off()

    def _break_off(self) -> None:
        self._is_over = True
        self._call.cancel()

    def close(self) -> None:
        """Close the connection."""
        self._conversation.disconnect(self._connection)
        self._channel.close()


def _wait_for_commands_only() -> None:
    """Have gRPC wait for the next command, however long that takes.

    A thread that waits for one would else wake up ten times a second to see whether there was a
    signal, which wakes it anyway.
    """
    grpc_waits.MAXIMUM_WAIT_TIMEOUT = threading.TIMEOUT_MAX
