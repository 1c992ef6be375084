import os
import select
import socket

import pytest

from jupyter_dist.frameworks.gloo_sockets import GlooSockets


@pytest.fixture
def pair():
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        yield near, far


def is_open(end):
    end.setblocking(False)
    try:
        return end.recv(1) != b""
    except BlockingIOError:
        return True


def test_connections_of_a_poller_made_meanwhile_are_shut_down(pair):
    near, far = pair
    sockets = GlooSockets()
    with sockets.watch():
        poller = select.epoll()
    with poller:
        poller.register(near, select.EPOLLIN)
        assert sockets
        assert sockets.shut_down() == 1
        assert not is_open(far)
        assert near.fileno() >= 0


def test_those_of_other_pollers_are_left_alone(pair):
    near, far = pair
    with select.epoll() as before:
        before.register(near, select.EPOLLIN)
        sockets = GlooSockets()
        with sockets.watch():
            pass
        assert not sockets
        assert sockets.shut_down() == 0
        assert is_open(far)


def test_a_poller_that_is_gone_is_no_error(pair):
    near, _far = pair
    sockets = GlooSockets()
    with sockets.watch():
        poller = select.epoll()
    poller.register(near, select.EPOLLIN)
    poller.close()
    assert sockets.shut_down() == 0


def test_listeners_and_pipes_are_left_alone():
    sockets = GlooSockets()
    out, into = os.pipe()
    with open(out, "rb"), open(into, "wb"), socket.create_server(("127.0.0.1", 0)) as listener:
        with sockets.watch():
            poller = select.epoll()
        with poller:
            poller.register(listener, select.EPOLLIN)
            poller.register(out, select.EPOLLIN)
            before = os.listdir("/proc/self/fd")
            assert sockets.shut_down() == 0
            assert os.listdir("/proc/self/fd") == before
            with socket.create_connection(listener.getsockname()):
                listener.accept()[0].close()


def test_what_is_forgotten_is_left_alone(pair):
    near, far = pair
    sockets = GlooSockets()
    with sockets.watch():
        poller = select.epoll()
    with poller:
        poller.register(near, select.EPOLLIN)
        sockets.forget()
        assert sockets.shut_down() == 0
        assert is_open(far)


def test_connections_that_are_made_at_this_moment_are_shut_down_too(pair):
    near, far = pair
    sockets = GlooSockets()
    with sockets.watch(), select.epoll() as poller:
        poller.register(near, select.EPOLLIN)
        assert sockets.shut_down() == 1
    assert not is_open(far)
