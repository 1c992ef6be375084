import contextlib
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


@contextlib.contextmanager
def watched(*descriptors):
    """Have a poller of these made while sockets are watched; gives both."""
    sockets = GlooSockets()
    with sockets.watch():
        poller = select.epoll()
    with poller:
        for each in descriptors:
            poller.register(each, select.EPOLLIN)
        yield sockets, poller


def is_open(end):
    end.setblocking(False)
    try:
        return end.recv(1) != b""
    except BlockingIOError:
        return True


def test_connections_of_a_poller_made_meanwhile_are_shut_down(pair):
    near, far = pair
    with watched(near) as (sockets, _):
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
    with watched(pair[0]) as (sockets, poller):
        poller.close()
        assert sockets.shut_down() == 0


def test_listeners_and_pipes_are_left_alone():
    out, into = os.pipe()
    with (
        open(out, "rb"),
        open(into, "wb"),
        socket.create_server(("127.0.0.1", 0)) as listener,
        watched(listener, out) as (sockets, _),
    ):
        before = os.listdir("/proc/self/fd")
        assert sockets.shut_down() == 0
        assert os.listdir("/proc/self/fd") == before
        with socket.create_connection(listener.getsockname()):
            listener.accept()[0].close()


def test_what_is_forgotten_is_left_alone(pair):
    near, far = pair
    with watched(near) as (sockets, _):
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
