"""The frames of one message, to a socket and from it.

Without pyzmq's loops over several frames, which make enums of flags and ask for an option after
each: that takes half the time of a small message.
"""

from collections.abc import Callable, Sequence
from typing import Any

import zmq
from zmq.backend import Socket, zmq_poll

from jupyter_dist.protocol.codec import Frame

_MORE, _NOW = int(zmq.SNDMORE), int(zmq.NOBLOCK)
_READABLE = int(zmq.POLLIN)
send_frame: Callable[..., Any] = Socket.send
"""Without pyzmq's own method around it, which looks for what sockets of other kinds need."""


def send_frames(socket: "zmq.Socket[Any]", frames: Sequence[Frame], *, copy: bool = True) -> None:
    """Send a message; large frames are sent from where they lie unless `copy`."""
    last = len(frames) - 1
    for number, frame in enumerate(frames):
        send_frame(socket, frame, _MORE if number < last else 0, copy)


def has_arrived(socket: "zmq.Socket[Any]", within_ms: int) -> bool:
    """Return whether there is a message, at most after so long."""
    return bool(zmq_poll([(socket, _READABLE)], within_ms))


def receive_frames(socket: "zmq.Socket[Any]", small: int) -> tuple[list[bytes], list[Frame]] | None:
    """Return a message that has arrived, or None: some small frames, and buffers not copied.

    Fewer than `small` come where the message has fewer.
    """
    # Not by an attempt: what pyzmq raises when there is nothing costs more than a message.
    if not zmq_poll([(socket, _READABLE)], 0):
        return None
    frame = socket.recv(_NOW, False)
    head = [frame.bytes]
    buffers: list[Frame] = []
    while frame.more:
        frame = socket.recv(0, False)
        if len(head) < small:
            head.append(frame.bytes)
        else:
            buffers.append(frame.buffer)
    return head, buffers


def size_of(head: Sequence[bytes], buffers: Sequence[Frame]) -> int:
    """Return the size of a message in bytes; of its head the part that may be long."""
    size_bytes = len(head[-1])
    for buffer in buffers:
        size_bytes += memoryview(buffer).nbytes
    return size_bytes
