"""Interrupts that wait: what has been opened gets an owner who closes it, before one is raised."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Let SIGINT wait until the block has ended; nothing in there may wait for anybody.

    Python raises KeyboardInterrupt between any two of its instructions, also between a system call
    and the assignment of the descriptor that it gives. Only the main thread gets it.
    """
    before = signal.getsignal(signal.SIGINT)
    # None: a handler that was not set by Python, which nothing here could set again.
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    has_come = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal has_come
        has_come = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if has_come:
            signal.raise_signal(signal.SIGINT)
