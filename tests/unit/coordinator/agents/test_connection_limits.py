"""Who is a stranger, and which of them have to go; real sockets on loopback, no process."""

import contextlib
import socket
import time

import pytest

from jupyter_dist.coordinator.agents.connection_limits import ConnectionLimits, Proven, read_peer

MOST = 16


class Port:
    """A listener whose connections are kept open."""

    def __init__(self, stack):
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        self.number = self._listener.getsockname()[1]

    def visit(self, count, data=b""):
        visitors = []
        for _ in range(count):
            visitor = self._stack.enter_context(
                socket.create_connection(("127.0.0.1", self.number))
            )
            visitor.setblocking(False)
            self._stack.enter_context(self._listener.accept()[0])
            if data:
                visitor.sendall(data)
            visitors.append(visitor)
        return visitors


class Call:
    """What gRPC tells of a call."""

    def __init__(self, visitor):
        self._port = visitor.getsockname()[1]
        self.end = None

    def peer(self):
        return f"ipv6:%5B::ffff:127.0.0.1%5D:{self._port}"

    def add_callback(self, callback):
        self.end = callback
        return True


@pytest.fixture
def ports():
    with contextlib.ExitStack() as stack:
        yield Port(stack), Port(stack)


@pytest.fixture
def proven():
    return Proven()


@pytest.fixture
def limits(ports, proven):
    agents, zeromq = ports
    found = ConnectionLimits(proven, agents.number, (zeromq.number,))
    found._of_strangers = found._most = MOST
    return found


def ended(visitors):
    """Tell of each whether the other side has hung up."""
    found = []
    for visitor in visitors:
        try:
            found.append(visitor.recv(1) == b"")
        except BlockingIOError:
            found.append(False)
    return found


def test_the_oldest_go_when_there_are_too_many(ports, limits):
    old = ports[0].visit(MOST)
    limits.look(1.0)
    assert not any(ended(old))
    new = ports[0].visit(5)
    limits.look(10.0)
    assert sum(ended(old)) == 5
    assert not any(ended(new))


def test_as_many_more_stay_as_the_cluster_itself_may_have_under_way(ports, limits):
    limits.expect(hosts=1, ranks=4)  # 8 and 2 * 4
    dialling = ports[0].visit(MOST + 8) + ports[1].visit(8)
    limits.look(1.0)
    assert not any(ended(dialling))
    ports[0].visit(3)
    limits.look(10.0)
    assert sum(ended(dialling)) == 3


def test_a_large_cluster_leaves_half_of_all_files_to_what_is_proven(limits):
    limits.expect(hosts=1 << 20, ranks=1 << 20)
    assert limits._most == MOST + limits._limit // 4


def test_the_silent_ones_go_first_on_all_ports_together(ports, limits):
    talking = ports[0].visit(MOST, b"\x16\x03\x01")
    limits.look(1.0)
    silent = ports[0].visit(4) + ports[1].visit(4)
    limits.look(10.0)
    assert all(ended(silent))
    assert not any(ended(talking))


def test_who_has_proven_itself_stays(ports, proven, limits):
    agents = ports[0].visit(3, b"x")
    calls = [Call(visitor) for visitor in agents]
    for call in calls:
        proven.enter(call)
    ranks = ports[1].visit(3, bytes(400))
    time.sleep(0)
    limits.look(1.0)
    ports[0].visit(2 * MOST, b"x")
    ports[1].visit(2 * MOST, bytes(266))
    limits.look(10.0)
    assert not any(ended(agents + ranks))
    calls[0].end()
    limits.look(20.0)
    limits.look(30.0)
    ports[0].visit(MOST, b"x")
    limits.look(40.0)
    assert ended(agents) == [True, False, False]


def test_other_files_and_sockets_are_left_alone(ports, limits, tmp_path):
    with contextlib.ExitStack() as stack:
        other = Port(stack)
        visitors = other.visit(2 * MOST)
        pairs = [stack.enter_context(end) for _ in range(8) for end in socket.socketpair()]
        files = [stack.enter_context((tmp_path / f"{n}").open("w")) for n in range(8)]
        ports[0].visit(2 * MOST)
        limits.look(1.0)
        assert not any(ended(visitors))
        for near, far in zip(pairs[::2], pairs[1::2], strict=True):
            near.sendall(b"x")
            assert far.recv(1) == b"x"
        for file in files:
            file.write("x")
            file.flush()


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:5000", ("10.0.0.1", 5000)),
        ("ipv6:%5B::1%5D:5000", ("::1", 5000)),
        ("ipv6:[::ffff:10.0.0.1]:77", ("10.0.0.1", 77)),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", ("fe80::1", 5000)),
        ("unix:", ("", 0)),
    ],
)
def test_the_other_end_is_read_as_grpc_names_it(peer, address):
    assert read_peer(peer) == address
