"""The agent's stream to the coordinator: events go up, commands come down."""

import queue
import threading
from collections.abc import Iterator

import grpc

from jupyter_dist.launch.base import (
    KEEPALIVE_MS,
    MOST_MESSAGE_BYTES,
    SERVER_NAME,
    Invitation,
    keepalive_timeout_ms,
)
from jupyter_dist.protocol import host_agent_pb2 as pb

ATTEND = "/jupyter_dist.HostAgents/Attend"


class Home:
    """One mutual-TLS connection to the coordinator."""

    def __init__(self, invitation: Invitation, address: str) -> None:
        self._events: queue.SimpleQueue[pb.AgentEvent | None] = queue.SimpleQueue()
        self.refusal = ""
        """Why the coordinator does not want this agent, or empty."""
        self._timeout_s = invitation.dial_timeout_s
        credentials = grpc.ssl_channel_credentials(
            invitation.ca_certificate, invitation.private_key, invitation.certificate
        )
        host = f"[{address}]" if ":" in address else address
        self._channel = grpc.secure_channel(
            f"{host}:{invitation.ports.agents}",
            credentials,
            options=[
                ("grpc.ssl_target_name_override", SERVER_NAME),
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", keepalive_timeout_ms(invitation.lost_after_s)),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
            ],
        )
        attend = self._channel.stream_stream(
            ATTEND,
            request_serializer=pb.AgentEvent.SerializeToString,
            response_deserializer=pb.AgentCommand.FromString,
        )
        self._call = attend(iter(self._events.get, None), wait_for_ready=True)

    def tell(self, event: pb.AgentEvent) -> None:
        """Send an event; from any thread."""
        self._events.put(event)

    def say_last(self, event: pb.AgentEvent) -> None:
        """Send the last event; `commands` ends when the coordinator has taken it."""
        self._events.put(event)
        self._events.put(None)

    def commands(self) -> Iterator[pb.AgentCommand]:
        """Give the commands as they come; ends when the coordinator is gone or hangs up.

        `refusal` is set then when this agent was never admitted.
        """
        patience = threading.Timer(self._timeout_s, self._lose_patience)
        patience.daemon = True
        patience.start()
        self.refusal = "the connection ended before the coordinator had taken this agent in"
        try:
            for command in self._call:
                if command.WhichOneof("command") == "admitted":
                    patience.cancel()
                    self.refusal = ""
                yield command
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.PERMISSION_DENIED:
                self.refusal = error.details()
        finally:
            patience.cancel()

    def _lose_patience(self) -> None:
        """End an attempt that would go on for ever: TLS refuses a certificate without a word."""
        self.refusal = (
            f"the coordinator did not take this agent in within {self._timeout_s:g} s: it is out "
            "of reach or too busy, or does not accept this agent's certificate"
        )
        self._call.cancel()

    def hang_up(self) -> None:
        """Break the stream, so that `commands` ends; from any thread or a signal handler."""
        self._call.cancel()

    def close(self) -> None:
        """Close the connection."""
        self._events.put(None)
        self._channel.close()
