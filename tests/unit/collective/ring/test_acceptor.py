import queue
import socket

import pytest

from jupyter_dist.collective.ring import acceptor as acceptor_module
from jupyter_dist.collective.ring import handshake
from jupyter_dist.collective.ring.acceptor import Acceptor
from jupyter_dist.collective.ring.addresses import bind_listener
from jupyter_dist.collective.ring.handshake import Membership

PATIENCE_S = 20.0
HERE, THERE = (Membership(rank, 2, 1, b"key") for rank in (0, 1))


@pytest.fixture
def door(monkeypatch):
    """The address of an acceptor that soon sends away who is silent; and whom it has let in."""
    monkeypatch.setattr(acceptor_module, "STRANGER_PATIENCE_S", 0.05)
    listener, admitted = bind_listener("127.0.0.1"), queue.Queue()
    acceptor = Acceptor(listener, HERE, lambda *who: admitted.put(who))
    yield listener.getsockname(), admitted
    acceptor.stop()


def test_a_rank_that_gets_no_core_meanwhile_may_prove_itself_later_than_strangers(door):
    address, admitted = door
    hello = handshake.write_hello(THERE, HERE.rank)
    with (
        socket.create_connection(address, PATIENCE_S) as rank,
        socket.create_connection(address, PATIENCE_S) as stranger,
    ):
        rank.send(hello)
        challenge = rank.recv(handshake.CHALLENGE_BYTES, socket.MSG_WAITALL)
        assert stranger.recv(1) == b"", "its time is over"
        rank.send(handshake.answer_challenge(THERE, hello, challenge))
        number, connection = admitted.get(timeout=PATIENCE_S)
        connection.close()
        assert number == THERE.rank


def test_a_rank_that_never_proves_itself_is_sent_away(door, monkeypatch):
    monkeypatch.setattr(acceptor_module, "GUEST_PATIENCE_S", 0.05)
    address, admitted = door
    with socket.create_connection(address, PATIENCE_S) as rank:
        rank.send(handshake.write_hello(THERE, HERE.rank))
        assert len(rank.recv(handshake.CHALLENGE_BYTES, socket.MSG_WAITALL)) > 0
        assert rank.recv(1) == b""
    assert admitted.empty()
