"""What the main thread does: it waits for other ranks inside of torch, or has work of its own."""

import dis
import sys
import threading
import time
from enum import Enum
from types import FrameType

from jupyter_dist.frameworks.thread_frames import read_calls

_WAITING = ("torch.distributed", "torch.nn.parallel.distributed", "torch.autograd")
"""Modules that call collectives; a backward pass of DDP waits for them inside of autograd."""
_READING = ("torch.serialization", "torch.utils", "torch.hub", "torch.distributed.checkpoint")
"""Modules that may stand still because of a disk or a network of their own."""
_WAITS = frozenset({"wait", "synchronize"})
"""Methods in C by which users wait for what they have begun: `work.wait()`."""
_LOADS = frozenset({"LOAD_METHOD", "LOAD_ATTR"})
_MOVES = 0.1
"""A thread that has used more than this share of a core is not waiting."""


class ThreadActivity(Enum):
    """What the main thread does, by its innermost Python frame; functions in C have none."""

    WAITING = "inside code that calls collectives"
    UNSURE = "inside torch, or in a method that waits"
    WORKING = "something of its own"


def see_main_thread() -> ThreadActivity:
    """Return what the main thread does; from any thread."""
    calls = read_calls().get(threading.main_thread().ident or 0)
    if not calls:
        return ThreadActivity.WORKING
    frame, _ = calls[-1]
    name = frame.f_globals.get("__name__", "")
    module = name if isinstance(name, str) else ""
    if _is_of(module, _READING):
        return ThreadActivity.WORKING
    if _is_of(module, _WAITING):
        return ThreadActivity.WAITING
    is_unsure = _is_of(module, ("torch",)) or _is_in_wait(frame)
    return ThreadActivity.UNSURE if is_unsure else ThreadActivity.WORKING


def _is_of(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def _is_in_wait(frame: FrameType) -> bool:
    """Return whether this frame calls a method that waits and is not written in Python."""
    before = [each for each in dis.get_instructions(frame.f_code) if each.offset <= frame.f_lasti]
    if not before or "CALL" not in before[-1].opname:
        return False
    begin = _begin(before[-1])
    # What is called begins where the call begins; its arguments begin further on.
    called = [each.argval for each in before if each.opname in _LOADS and _begin(each) == begin]
    return bool(called) and called[-1] in _WAITS


def _begin(instruction: dis.Instruction) -> tuple[int | None, int | None]:
    positions = instruction.positions
    return (None, None) if positions is None else (positions.lineno, positions.col_offset)


class Stillness:
    """Knows for how long the main thread has used no CPU time, by looks at it now and then."""

    def __init__(self) -> None:
        self._used_s = 0.0
        self._looked_at_s = 0.0
        self._since_s: float | None = None

    def forget(self) -> None:
        """Begin again."""
        self._since_s = None

    def look(self, now_s: float, used_s: float | None = None) -> float:
        """Return for how many seconds it has stood still at least."""
        used_s = _used_by_main_thread() if used_s is None else used_s
        moved = used_s - self._used_s > _MOVES * (now_s - self._looked_at_s)
        self._used_s, self._looked_at_s = used_s, now_s
        if self._since_s is None or moved:
            self._since_s = now_s
        return now_s - self._since_s


def _used_by_main_thread() -> float:
    """Return the CPU time of the main thread in seconds."""
    if sys.platform == "linux":
        clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
        used_s = time.clock_gettime(clock)
    else:  # a thread has no clock of its own: other threads of this process count too
        used_s = time.process_time()
    return used_s
