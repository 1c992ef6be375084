"""The frames of one message, to a socket and from it.

Without pyzmq's loops over several frames, which make enums of flags and ask for an option after
each: that takes half the time of a small message.
"""

from collections.abc import Sequence
from typing import Any

import zmq

from jupyter_dist.protocol.codec import Frame

_MORE, _NOW = int(zmq.SNDMORE), int(zmq.NOBLOCK)


def send_frames(socket: "zmq.Socket[Any]", frames: Sequence[Frame], *, copy: bool = True) -> None:
    """Send a message; large frames are sent from where they lie unless `copy`."""
    send, last = socket.send, len(frames) - 1
    for number, frame in enumerate(frames):
        send(frame, _MORE if number < last else 0, copy)


def receive_frames(socket: "zmq.Socket[Any]", small: int) -> tuple[list[bytes], list[Frame]] | None:
    """Return a message that has arrived, or None: some small frames, and buffers not copied.

    Fewer than `small` come where the message has fewer.
    """
    try:
        frame = socket.recv(_NOW, False)
    except zmq.Again:
        return None
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
