"""Connections between two ranks of one process, over real sockets."""

import contextlib
import socket
import threading
import time
from unittest.mock import MagicMock

import pytest

from jupyter_dist.collective.ring.connections import Connections
from jupyter_dist.collective.ring.handshake import HELLO_BYTES, Membership
from jupyter_dist.collective.ring.stopped import Stopped
from jupyter_dist.errors import CollectiveTimeout, PeerFailed
from jupyter_dist.model.ranks.held_time import Deadline, HeldTime


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def peers(listener):
    return "{}:{}".format(*listener.getsockname()), "127.0.0.1:1"


@pytest.fixture
def connections(peers):
    """Make the connections of a rank; closed in the end."""
    with contextlib.ExitStack() as stack:

        def make(rank, listener=None):
            made = Connections(listener, Membership(rank, 2, 1, b"secret"), peers, (0, 1))
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def turn_away(listener):
    """End as many connections before they are answered, as an acceptor does that is crowded."""
    threads = []

    def run(times, how, then):
        with contextlib.suppress(OSError):  # the test is over
            for _ in range(times):
                connection, _address = listener.accept()
                # A connection that is closed with unread data in it is reset.
                flags = socket.MSG_PEEK if how == "unheard" else 0
                connection.recv(HELLO_BYTES, flags)
                connection.close()
            then()

    def start(times, how, then=lambda: None):
        threads.append(threading.Thread(target=run, args=(times, how, then)))
        threads[0].start()

    yield start
    listener.shutdown(socket.SHUT_RDWR)
    threads[0].join()


@pytest.mark.parametrize(
    ("problem", "kind", "rank"),
    [(CollectiveTimeout("no word"), "timeout", 1), (PeerFailed(7, "raised"), "failed", 7)],
)
def test_a_call_for_which_no_address_comes_is_stopped(connections, problem, kind, rank):
    made = connections(1)
    made._peers = MagicMock()
    made._peers.__getitem__.side_effect = problem
    with pytest.raises(Stopped) as stopped:
        made.outgoing(0, Deadline(HeldTime(), time.monotonic(), 10))
    assert (stopped.value.breakage.kind, stopped.value.breakage.rank) == (kind, rank)


@pytest.mark.parametrize("how", ["unheard", "heard"])
def test_a_rank_that_was_crowded_out_is_let_in_later(listener, connections, turn_away, how):
    turn_away(5, how, lambda: connections(0, listener))
    connection = connections(1).outgoing(0, Deadline(HeldTime(), time.monotonic(), 10))
    assert connection.getpeername() == listener.getsockname()


def test_a_rank_that_ends_every_connection_is_given_up(connections, turn_away, monkeypatch):
    monkeypatch.setattr("jupyter_dist.collective.ring.connections.CROWDED_OUT_S", 0.1)
    turn_away(100, "heard")
    with pytest.raises(Stopped) as stopped:
        connections(1).outgoing(0, Deadline(HeldTime(), time.monotonic(), 10))
    assert (stopped.value.breakage.kind, stopped.value.breakage.rank) == ("failed", 0)
