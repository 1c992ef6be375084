"""How ranks come to share memory, between threads of one process."""

import os
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest

from jupyter_dist.collective.ring.handshake import Membership
from jupyter_dist.collective.ring.memory import sharing
from jupyter_dist.collective.ring.memory.room import close_all, open_room

SIZE = 3


class Told:
    """Carries out for threads what ranks do over connections."""

    def __init__(self):
        self._here = threading.Barrier(SIZE, timeout=10)
        self._brought = [None] * SIZE
        self.steps = []

    def of(self, rank):
        """Return what moves arrays for this rank."""

        def move(algorithm, source, *more):
            if rank == 0:
                self.steps.append(algorithm.__name__)
            self._brought[rank] = source.copy()
            self._here.wait()
            if algorithm.__name__ == "gather" and rank == SIZE - 1:
                more[0][...] = np.stack(self._brought)
            if algorithm.__name__ == "reduce" and rank == SIZE - 1:
                source[...] = np.min(self._brought, axis=0)
            if algorithm.__name__ == "broadcast":
                source[...] = self._brought[SIZE - 1]
            self._here.wait()

        return move


@pytest.fixture
def share():
    """Let ranks with these keys try to share memory; all that they have is closed in the end."""
    before = os.listdir("/proc/self/fd")

    def run(keys=(b"key",) * SIZE):
        told = Told()
        members = [Membership(rank, SIZE, 1, key) for rank, key in enumerate(keys)]
        rooms = []
        with ThreadPoolExecutor(SIZE) as threads:
            do_share = list(
                threads.map(
                    lambda me: sharing.share_room(me, told.of(me.rank), rooms.append), members
                )
            )
        seen = []
        if all(do_share):
            for room in rooms:
                room.slots(np.dtype(np.uint8), 1)[room.rank, 0] = 1 + room.rank
            seen = [room.slots(np.dtype(np.uint8), 1)[:, 0].tolist() for room in rooms]
        for room in rooms:
            room.close()
        assert any(do_share) == all(do_share)
        assert told.steps == ["gather", "broadcast", "reduce", "broadcast"]
        return seen

    yield run
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_all_ranks_get_the_same_memory(share):
    assert share() == [[1, 2, 3]] * SIZE


def test_a_rank_that_gets_nothing_keeps_all_from_sharing(share):
    assert share([b"key", b"key", b"another key"]) == []


def test_who_invites_keeps_its_room_where_the_others_do_not_come():
    before = os.listdir("/proc/self/fd")
    kept = []

    def move(algorithm, *_arrays):
        if algorithm.__name__ == "broadcast":
            raise ConnectionError

    with pytest.raises(ConnectionError):
        sharing.share_room(Membership(SIZE - 1, SIZE, 1, b"key"), move, kept.append)
    for room in kept:
        room.close()
    assert len(kept) == 1
    assert os.listdir("/proc/self/fd") == before


def test_while_ranks_agree_sockets_can_be_listed_and_ours_be_known(share, monkeypatch):
    open_mailbox, listed = sharing._open_mailbox, []

    def open_and_list(name):
        mailbox = open_mailbox(name)
        listed.append([each.laddr for each in psutil.Process().net_connections("unix")])
        return mailbox

    monkeypatch.setattr(sharing, "_open_mailbox", open_and_list)
    assert share() == [[1, 2, 3]] * SIZE
    assert all(
        any(re.fullmatch("@jupyter-dist-room-[0-9a-f]{32}", name) for name in names)
        for names in listed
    )


def test_without_memory_nothing_is_shared(share, monkeypatch):
    def fail(_size):
        raise OSError("no memory")

    monkeypatch.setattr(sharing, "open_room", fail)
    assert share() == []


def test_what_strangers_put_into_a_mailbox_is_let_go(share, monkeypatch):
    open_mailbox = sharing._open_mailbox

    def open_disturbed(name):
        mailbox = open_mailbox(name)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            stranger.connect(mailbox.getsockname())
            stranger.send(b"hello")
            fds = open_room(SIZE)
            socket.send_fds(stranger, [bytes(32)], fds)
            close_all(fds)
        return mailbox

    monkeypatch.setattr(sharing, "_open_mailbox", open_disturbed)
    assert share() == [[1, 2, 3]] * SIZE
