"""The relay between JAX's client and its service, with real connections on this machine."""

import contextlib
import errno
import os
import resource
import selectors
import socket
import struct
import threading
import time

import pytest

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.jax.service.relay import Relay

from .leftovers import wait_until

SOON_S = 30


class Service:
    """A listener that keeps its connections, in the role of JAX's service."""

    def __init__(self, host="127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family)
        self.listener.settimeout(SOON_S)
        port = self.listener.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.connections = []

    def take(self):
        """Give the next connection that says something: the relay tries the way once before."""
        while True:
            connection, _ = self.listener.accept()
            connection.settimeout(SOON_S)
            self.connections.append(connection)
            if connection.recv(1, socket.MSG_PEEK):
                return connection

    def close(self):
        for connection in (self.listener, *self.connections):
            connection.close()


def dial(relay):
    host, _, port = relay.address.rpartition(":")
    return socket.create_connection((host, int(port)), SOON_S)


def close(relay):
    """Wait for its thread to the end, too: the relay itself does so only for a moment."""
    relay.close()
    relay._thread.join(SOON_S)


def descriptors():
    return set(os.listdir("/proc/self/fd"))


@pytest.fixture
def service(request):
    address = getattr(request, "param", "127.0.0.1")
    try:
        service = Service(address)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    yield service
    service.close()


@pytest.fixture
def relay(service):
    before = descriptors()
    relay = Relay(service.address)
    yield relay
    close(relay)
    service.close()
    assert descriptors() <= before, "descriptors of the relay are left"
    assert "jax-relay" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture
def pair(service, relay):
    """The client's end and the service's."""
    client = dial(relay)
    client.sendall(b"?")
    served = service.take()
    assert served.recv(1) == b"?"
    yield client, served
    client.close()


def receive_all(connection, size):
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(1 << 16)
        assert piece, f"the connection ended after {len(data)} bytes"
        data += piece
    return bytes(data)


def is_held_open(client):
    """Nothing comes, and no end either."""
    client.settimeout(0.3)
    try:
        return client.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("service", ["127.0.0.1", "::1"], indirect=True)
def test_bytes_go_both_ways(pair):
    client, served = pair
    client.sendall(b"to the service")
    assert served.recv(100) == b"to the service"
    served.sendall(b"to the client")
    assert client.recv(100) == b"to the client"


def test_much_data_both_ways_at_once_arrives_whole(pair):
    there, back = os.urandom(20 << 20), os.urandom(10 << 20)
    client, served = pair
    senders = [
        threading.Thread(target=client.sendall, args=(there,)),
        threading.Thread(target=served.sendall, args=(back,)),
    ]
    found = {}
    reader = threading.Thread(target=lambda: found.update(there=receive_all(served, len(there))))
    for thread in (*senders, reader):
        thread.start()
    assert receive_all(client, len(back)) == back
    for thread in (*senders, reader):
        thread.join(20)
    assert found["there"] == there


def test_one_that_does_not_read_is_not_sent_more_than_it_takes(pair):
    client, served = pair
    client.settimeout(0.5)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 200 << 20:
            sent += client.send(bytes(1 << 20))
    assert sent < 200 << 20
    assert receive_all(served, sent) == bytes(sent)


def test_a_message_takes_no_longer_than_a_moment(pair, within):
    client, served = pair
    with within(2):
        for _ in range(100):
            client.sendall(b"?")
            assert served.recv(1) == b"?"
            served.sendall(b"!")
            assert client.recv(1) == b"!"


@pytest.mark.parametrize("is_reset", [False, True], ids=["ended", "reset"])
def test_the_client_waits_in_silence_when_the_service_is_gone(pair, relay, is_reset):
    client, served = pair
    assert not relay.is_service_gone
    served.sendall(b"the last word")
    if is_reset:
        assert client.recv(100) == b"the last word"
        served.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    served.close()
    wait_until(lambda: relay.is_service_gone, SOON_S, "the end of the service is noticed")
    if not is_reset:
        assert client.recv(100) == b"the last word"
    client.sendall(b"is anybody there?" * 100_000)
    assert is_held_open(client)


def test_a_client_that_comes_when_the_service_is_gone_waits_too(pair, relay, service):
    service.close()
    wait_until(lambda: relay.is_service_gone, SOON_S, "the end of the service is noticed")
    with dial(relay) as later:
        later.sendall(b"hello")
        assert is_held_open(later)


def test_a_client_that_finds_the_service_gone_first_waits_too(relay, service):
    service.close()
    with dial(relay) as client:
        client.sendall(b"hello")
        assert is_held_open(client)
        wait_until(lambda: relay.is_service_gone, SOON_S, "the end of the service is noticed")


def test_the_service_is_told_when_the_client_ends_and_is_not_gone(pair, relay):
    client, served = pair
    client.close()
    assert served.recv(1) == b""
    assert not relay.is_service_gone


def test_several_clients_have_a_connection_each(service, relay):
    clients = [dial(relay) for _ in range(3)]
    for number, client in enumerate(clients):
        client.sendall(bytes([number]))
        served = service.take()
        assert served.recv(1) == bytes([number])
        served.sendall(bytes([number + 10]))
        assert client.recv(1) == bytes([number + 10])
    for client in clients:
        client.close()


def test_one_that_is_not_admitted_is_cut_and_reaches_no_service(service):
    admitted = [True, False, True]
    relay = Relay(service.address, admits=lambda _: admitted.pop(0))
    with dial(relay) as client, dial(relay) as stranger, dial(relay) as other:
        for each in (client, other):
            each.sendall(b"?")
            served = service.take()
            assert served.recv(1) == b"?"
        assert stranger.recv(1) == b""
        assert not relay.is_service_gone
        served.sendall(b"!")
        assert other.recv(1) == b"!"
    close(relay)


def test_closing_cuts_the_client(pair, relay):
    client, _served = pair
    relay.close()
    assert client.recv(1) == b""
    relay.close()


def test_many_clients_leave_no_descriptors(service, relay):
    with dial(relay) as first:
        first.sendall(b"?")
        service.take()
    before = len(descriptors())
    for _ in range(30):
        with dial(relay) as client:
            client.sendall(b"?")
            service.take()
        service.connections.pop().close()
    wait_until(lambda: len(descriptors()) <= before, SOON_S, "descriptors are closed")


def test_one_that_cannot_be_let_in_for_lack_of_descriptors_comes_in_later(relay, service):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    client, later = dial(relay), socket.socket()
    client.sendall(b"!")
    assert service.take().recv(1) == b"!"
    host, _, port = relay.address.rpartition(":")
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        later.connect((host, int(port)))
        later.sendall(b"?")
        before_s = time.process_time()
        time.sleep(1)
        spent_s = time.process_time() - before_s
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert spent_s < 0.3, "the relay tries again and again"
    assert service.take().recv(1) == b"?"
    assert is_held_open(client)
    for connection in (client, later):
        connection.close()


class Refusing(selectors.DefaultSelector):
    """Has no room for one connection, counted from 1."""

    def __init__(self, refused):
        super().__init__()
        self._refused = refused
        self._count = 0

    def register(self, fileobj, events, data=None):
        self._count += data is not None
        if data is not None and self._count == self._refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().register(fileobj, events, data)


@pytest.mark.parametrize("which", [1, 2], ids=["of the client", "to the service"])
def test_a_connection_that_cannot_be_watched_costs_the_service_not_the_client(
    service, monkeypatch, which
):
    monkeypatch.setattr(selectors, "DefaultSelector", lambda: Refusing(which))
    relay = Relay(service.address)
    with dial(relay) as client:
        client.sendall(b"hello")
        wait_until(lambda: relay.is_service_gone, SOON_S, "the lack is noticed")
        assert is_held_open(client)
        with dial(relay) as other:
            other.sendall(b"?")
            assert service.take().recv(1) == b"?", "others are served as before"
    close(relay)


def test_a_service_that_is_not_there_is_an_error_before_a_client_needs_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    before = descriptors()
    with pytest.raises(FrameworkError, match=f"127.0.0.1:{port} .*reached"):
        Relay(f"127.0.0.1:{port}")
    assert descriptors() == before


def test_an_address_without_a_port_is_refused():
    with pytest.raises(UsageError, match="host:port"):
        Relay("127.0.0.1")
