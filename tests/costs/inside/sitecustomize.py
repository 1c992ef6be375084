"""Counts what this process does, for `tests/costs`: it is on the path of processes to be counted.

Each process keeps its counts in a file named after its pid, so that reading them costs it nothing.
"""

import mmap
import os
import struct
import sys
import threading

NAMES = ("python_calls", "messages", "bytes", "agent_messages", "agent_bytes", "blocks", "modules")
"""Messages and bytes are those sent over ZeroMQ; of agents' streams, those that have come."""
_CALLS, _MESSAGES, _BYTES, _AGENT_MESSAGES, _AGENT_BYTES, _BLOCKS, _MODULES = range(len(NAMES))
_LOOK_EACH = 64
"""Calls between two looks at what is kept: those are not free."""
_RARELY = {
    "cells/cell_run.py": ("FLUSH_INTERVAL_S", 1.0),
    "state/clock.py": ("TICK_S", 1.0),
    "channel/link.py": ("TAKEOVER_S", 1.0),
}
"""Constants by module: on a slow machine a cell would be told in more pieces than on a fast one, and
the clock and the main thread be looked at more often in it."""
_SENDERS = {"send_frames": "frames", "send_multipart": "msg_parts"}
"""Functions that send a message, and what they call its frames."""

_counts = memoryview(b"")


def _open():
    global _counts  # noqa: PLW0603  (another one after each fork)
    path = os.path.join(os.environ["COSTS_FOLDER"], str(os.getpid()))
    with open(path, "w+b") as file:
        file.truncate(struct.calcsize("q") * len(NAMES))
        _counts = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")


def _count(frame, event, _argument):
    if event == "return" and frame.f_code.co_name == "<module>":
        for path, (name, value) in _RARELY.items():
            if frame.f_code.co_filename.endswith(path):
                assert name in frame.f_globals
                frame.f_globals[name] = value
    if event != "call":
        return
    _counts[_CALLS] += 1
    if _counts[_CALLS] % _LOOK_EACH == 0:
        _counts[_BLOCKS] = sys.getallocatedblocks()
        _counts[_MODULES] = len(sys.modules)
    name = frame.f_code.co_name
    if name in _SENDERS:
        parts = frame.f_locals[_SENDERS[name]]
        _counts[_MESSAGES] += 1
        _counts[_BYTES] += sum(memoryview(part).nbytes for part in parts)
    elif name == "take" and frame.f_code.co_filename.endswith("protocol/conversation.py"):
        _counts[_AGENT_MESSAGES] += 1
        _counts[_AGENT_BYTES] += frame.f_locals["message"].ByteSize()


if "COSTS_FOLDER" in os.environ:
    _open()
    os.register_at_fork(after_in_child=_open)
    threading.setprofile(_count)
    sys.setprofile(_count)
