"""Whoever does not hold the keys, or speaks otherwise, is turned away and does no harm."""

import contextlib
import os
import socket
import ssl
from pathlib import Path

import grpc
import msgspec
import pytest
import zmq
from grpc_health.v1 import health_pb2, health_pb2_grpc
from zmq.utils.monitor import recv_monitor_message

from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol import codec
from jupyter_dist.protocol.codec import VERSION, encode
from jupyter_dist.protocol.messages import Hello, Leave, PushObjects, Refused, SubmitCell
from tests.patience import Stopwatch

from .leftovers import coordinator_of, engines_of, ports_of, wait_until


@pytest.fixture
def ports(four):
    """Every port on which the cluster listens."""
    found = [
        port for process in (coordinator_of(four), *engines_of(four)) for port in ports_of(process)
    ]
    assert len(found) >= 4 + 4, "three ZeroMQ sockets, gRPC, and a communicator for each rank"
    return found


@pytest.fixture
def sockets():
    """Make ZeroMQ sockets that are closed in the end."""
    with zmq.Context() as context, contextlib.ExitStack() as stack:

        def make(address, server=None, own=None, watched=0):
            socket = stack.enter_context(context.socket(zmq.DEALER))
            socket.linger = 0
            if watched:  # before it connects, so that no event is missed
                stack.enter_context(socket.get_monitor_socket(watched))
                stack.callback(socket.disable_monitor)
            if server is not None:
                socket.curve_serverkey = server.encode()
                socket.curve_publickey, socket.curve_secretkey = own
            socket.connect(address)
            return socket

        yield make


def credentials(cluster):
    """The secrets of the connection file: (server's public key, own key pair)."""
    held = cluster._connection.credentials
    return held.server_public, (held.own.public.encode(), held.own.secret.encode())


def dial(cluster, sockets):
    """An authenticated client that may say anything."""
    return sockets(cluster._connection.clients_address, *credentials(cluster))


def speak_to_any_port(socket, frames):
    """Send, unless the port has refused the connection already: its socket then takes nothing."""
    with contextlib.suppress(zmq.Again):
        socket.send_multipart(frames, zmq.NOBLOCK)


def hear(socket, within_s=30):
    """The next message to a client."""
    assert socket.poll(within_s * 1000), "no answer"
    return codec.to_client().decode(socket.recv_multipart())


def assert_unharmed(cluster):
    """Everything works, in the old processes and in a new generation too."""
    code = "import numpy as np\ncomm.all_reduce(np.ones(1)).tolist()"
    for _ in range(2):
        assert [rank.value_repr for rank in cluster.run(code)] == ["[4.0]"] * 4
        cluster.run("if rank == 0: 1/0")
    assert [rank.value_repr for rank in cluster.run(code)] == ["[4.0]"] * 4
    assert set(cluster.status().ranks.values()) == {"idle"}


def test_garbage_on_every_port_does_no_harm(four, ports):
    words = [
        os.urandom(4096),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00" * 1000,
        b"\xff" + bytes(63),
    ]
    with contextlib.ExitStack() as stack:
        for port in ports:
            for word in words:
                visitor = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                with contextlib.suppress(ConnectionError):
                    visitor.sendall(word)
        assert_unharmed(four)
    assert_unharmed(four)


def test_silent_connections_on_every_port_do_no_harm(four, ports):
    with contextlib.ExitStack() as stack:
        for port in ports * 20:
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert_unharmed(four)


def test_plain_zeromq_is_not_heard_on_any_port(four, ports, sockets):
    visitors = [sockets(f"tcp://127.0.0.1:{port}") for port in ports]
    for visitor in visitors:
        speak_to_any_port(visitor, [VERSION, b"anything"])
    assert_unharmed(four)
    assert not any(visitor.poll(0) for visitor in visitors)


def test_a_key_that_is_not_known_opens_no_port(four, ports, sockets):
    server, _ = credentials(four)
    refused, opened = zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_SUCCEEDED
    visitors = {
        port: sockets(
            f"tcp://127.0.0.1:{port}", server, zmq.curve_keypair(), watched=refused | opened
        )
        for port in ports
    }
    seen = {refused: set(), opened: set()}

    def have_three_answered():
        for port, visitor in visitors.items():
            monitor = visitor.get_monitor_socket()
            while monitor.poll(0):
                seen[recv_monitor_message(monitor)["event"]].add(port)
        return len(seen[refused] | seen[opened]) >= 3

    wait_until(have_three_answered, 20, "the three ZeroMQ sockets have answered")
    assert_unharmed(four)
    assert have_three_answered()  # others have had time to answer by now
    assert (len(seen[refused]), seen[opened]) == (3, set())


def test_the_clients_key_does_not_open_the_engines_ports(four, ports, sockets):
    clients_port = int(four._connection.clients_address.rpartition(":")[2])
    visitors = {port: sockets(f"tcp://127.0.0.1:{port}", *credentials(four)) for port in ports}
    for visitor in visitors.values():
        speak_to_any_port(visitor, [b"jupyter-dist/0", b""])
    assert isinstance(hear(visitors.pop(clients_port)), Refused)
    assert not any(visitor.poll(50) for visitor in visitors.values())
    assert_unharmed(four)


def test_another_version_is_refused_naming_both(four, sockets):
    visitor = dial(four, sockets)
    visitor.send_multipart([b"jupyter-dist/0", b"whatever"])
    answer = hear(visitor)
    assert isinstance(answer, Refused)
    assert answer.code == ErrorCode.VERSION_MISMATCH
    assert "jupyter-dist/0" in answer.reason
    assert VERSION.decode() in answer.reason
    assert_unharmed(four)


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [VERSION],
        [VERSION, b""],
        [VERSION, b"no message"],
        [VERSION, msgspec.msgpack.encode({"type": "NoSuchThing"})],
        [VERSION, msgspec.msgpack.encode({"type": "SubmitCell", "request_id": 7})],
        encode(Leave()),
        encode(Hello(0, 1, 1)),
        [VERSION, *[os.urandom(100)] * 50],
    ],
    ids=lambda frames: str(len(frames)),
)
def test_a_message_that_is_none_is_refused(four, sockets, frames):
    visitor = dial(four, sockets)
    visitor.send_multipart(frames)
    answer = hear(visitor)
    assert isinstance(answer, Refused)
    assert answer.code in (ErrorCode.MALFORMED_MESSAGE, ErrorCode.VERSION_MISMATCH)
    assert four.run("1").ok


@pytest.mark.parametrize(
    "message",
    [
        SubmitCell("r", "1", ranks=(4,)),
        SubmitCell("r", "1", ranks=(-1,)),
        SubmitCell("r", "1", ranks=()),
        SubmitCell("r", "1", ranks=(0, 0)),
        PushObjects("r", ("a",), (1,), ranks=(9,)),
        PushObjects("r", ("a", "b"), (1,)),
        PushObjects("r", ("a",), (-5,)),
        PushObjects("r", ("a",), (7,)),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_meant_does_no_harm(four, sockets, message):
    visitor = dial(four, sockets)
    visitor.send_multipart(encode(message))
    assert hear(visitor) is not None
    assert four.run("1").ok


@pytest.mark.parametrize("how", ["plain", "without a certificate", "with a foreign certificate"])
def test_grpc_without_our_certificate_is_refused_on_every_port(four, how):
    for port in ports_of(coordinator_of(four)):
        address = f"127.0.0.1:{port}"
        if how == "plain":
            channel = grpc.insecure_channel(address)
        else:
            foreign = _foreign_certificate() if how != "without a certificate" else (None,) * 3
            channel = grpc.secure_channel(
                address,
                grpc.ssl_channel_credentials(*foreign),
                [("grpc.ssl_target_name_override", "jupyter-dist-coordinator")],
            )
        with channel, pytest.raises(grpc.RpcError) as caught:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1)
        assert caught.value.code() in (
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.DEADLINE_EXCEEDED,
        )
    assert_unharmed(four)


def _foreign_certificate():
    """Root, key and certificate of another cluster."""
    from jupyter_dist.coordinator.agents.certificates import Authority

    authority = Authority()
    issued = authority.issue_agent("localhost")
    return authority.certificate, issued.private_key, issued.certificate


def test_nothing_listens_beyond_this_machine(four):
    for process in (coordinator_of(four), *engines_of(four)):
        for connection in process.net_connections("all"):
            if connection.laddr and hasattr(connection.laddr, "ip"):
                assert connection.laddr.ip.removeprefix("::ffff:") in ("127.0.0.1", "::1")


def test_ranks_of_this_machine_come_through_a_folder_that_is_closed_to_others(four):
    coordinator = coordinator_of(four)
    at = {each.laddr for each in coordinator.net_connections("unix")}
    doors = [Path(path) for path in at if path.endswith(("/home", "/home-beats"))]
    assert len(doors) == 2
    for door in doors:
        folder = door.parent.stat()
        assert (folder.st_uid, folder.st_mode & 0o777) == (os.geteuid(), 0o700)
    for engine in engines_of(four):
        connections = [each for each in engine.net_connections("tcp") if each.raddr]
        assert not {each.raddr.port for each in connections} & set(ports_of(coordinator))


def test_no_secret_stands_on_a_command_line_or_in_the_environment(four, shared):
    held = four._connection.credentials
    for process in shared.processes():
        exposed = " ".join([*process.cmdline(), *process.environ().values()])
        assert held.own.secret not in exposed
        assert held.server_public not in exposed


@pytest.mark.slow
def test_silent_connections_end_within_five_seconds_on_every_port(four, ports):
    with contextlib.ExitStack() as stack:
        visitors = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for port in ports
            for _ in range(10)
        ]
        watch = Stopwatch()
        for visitor in visitors:
            visitor.settimeout(30)
            while visitor.recv(4096):  # libzmq greets first
                pass
        watch.assert_less(7, "strangers have been sent away")
    assert four.run("1").ok


def test_strangers_leave_no_line_in_the_log(four):
    log = Path(four._connection.log_path)
    before = log.stat().st_size
    words = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + os.urandom(200), b"", os.urandom(100)]
    for port in ports_of(coordinator_of(four)):
        for number in range(500):
            with socket.create_connection(("127.0.0.1", port)) as visitor:
                visitor.sendall(words[number % len(words)])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for port in ports_of(coordinator_of(four)):
        with (
            contextlib.suppress(ssl.SSLError, ConnectionError, TimeoutError),
            socket.create_connection(("127.0.0.1", port), 1) as plain,
            context.wrap_socket(plain) as visitor,
        ):
            visitor.recv(1)
    assert four.run("1").ok
    assert log.stat().st_size == before
