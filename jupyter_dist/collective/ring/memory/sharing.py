"""How ranks on one host come to share memory: they agree on it over their connections.

Each rank opens a mailbox, a Unix socket of a name that it draws, and tells it to the last one. That
one sends the descriptors of a new room to each of them, with a proof that only ranks can make. What
they agree on is whether all could enter it; otherwise none stays.
"""

import contextlib
import hashlib
import hmac
import os
import socket
from collections.abc import Callable
from functools import partial

import numpy as np

from jupyter_dist.collective.ring import algorithms
from jupyter_dist.collective.ring.handshake import Membership
from jupyter_dist.collective.ring.memory.room import Room, close_all, open_room
from jupyter_dist.descriptors import defer_interrupts

_LABEL = b"jupyter-dist-room-"
_RANDOM_BYTES = 16
NAME_BYTES = len(_LABEL) + 2 * _RANDOM_BYTES
_PROOF_BYTES = hashlib.sha256().digest_size
_DESCRIPTORS = 4

Move = Callable[..., None]
"""Carries out one of `algorithms` on arrays, together with all ranks."""


def share_room(me: Membership, move: Move, keep: Callable[[Room], None]) -> bool:
    """Let all ranks share memory; return whether they do. Raises what `move` does.

    `keep` is called with this rank's room as soon as it is mapped. The caller closes it, also when
    the ranks do not share it.
    """
    name = _draw_name()
    with _open_mailbox(name) as mailbox:
        # By trees alone, and of one root: so that few pairs are connected, however few ranks.
        inviter = me.size - 1
        names = np.empty((me.size, NAME_BYTES), np.uint8) if me.rank == inviter else None
        move(algorithms.gather, np.frombuffer(name, np.uint8), names, inviter)
        is_inside = np.zeros(1, np.uint8)
        if names is not None:
            is_inside[0] = _enter(me, partial(_invite, me, names, mailbox), keep)
        sent = np.zeros(1, np.uint8)
        move(algorithms.broadcast, sent, inviter)
        if names is None:
            is_inside[0] = _enter(me, partial(_find_invitation, me, name, mailbox), keep)
        move(algorithms.reduce, is_inside, is_inside, inviter, np.minimum)
        move(algorithms.broadcast, is_inside, inviter)
        return bool(is_inside[0])


def _draw_name() -> bytes:
    """Return a name that no one can guess, and that programs which list sockets can read."""
    return _LABEL + os.urandom(_RANDOM_BYTES).hex().encode()


def _open_mailbox(name: bytes) -> socket.socket:
    mailbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    mailbox.setblocking(False)
    with contextlib.suppress(OSError):  # without it this rank shares nothing
        mailbox.bind(b"\0" + name)
    return mailbox


def _invite(me: Membership, names: np.ndarray, mailbox: socket.socket) -> list[int]:
    """Send a new room to all others whose mailboxes can be found here; return it."""
    try:
        fds = open_room(me.size)
    except OSError:
        return []
    for name in (row.tobytes() for row in names[:-1]):
        with contextlib.suppress(OSError):
            mailbox.connect(b"\0" + name)
            socket.send_fds(mailbox, [_prove(me, name)], fds)
    return fds


def _find_invitation(me: Membership, name: bytes, mailbox: socket.socket) -> list[int]:
    """Return the room that came; what strangers have sent is let go."""
    while True:
        try:
            proof, fds, _flags, _sender = socket.recv_fds(mailbox, _PROOF_BYTES, _DESCRIPTORS)
        except OSError:
            return []
        if len(fds) == _DESCRIPTORS and hmac.compare_digest(proof, _prove(me, name)):
            return fds
        close_all(fds)


def _enter(me: Membership, find: Callable[[], list[int]], keep: Callable[[Room], None]) -> bool:
    """Map the memory whose descriptors are found; return whether there was any, and it could be."""
    with defer_interrupts():
        fds = find()
        if not fds:
            return False
        try:
            room = Room(fds, me.rank, me.size)
        except OSError:
            close_all(fds)
            return False
        keep(room)
        return True


def _prove(me: Membership, name: bytes) -> bytes:
    return hmac.new(me.key, b"room" + name, hashlib.sha256).digest()
