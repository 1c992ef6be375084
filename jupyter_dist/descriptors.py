"""Open files are closed also when Ctrl-C arrives before the variable of a descriptor is assigned.

Python raises KeyboardInterrupt in the main thread, between any two of its instructions: also
between a system call and the assignment of the descriptor that it gives, or in front of the first
line of `finally`.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self
from weakref import finalize


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Handle SIGINT after the block, which must not wait for other processes."""
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


class Descriptor:
    """An open file that is closed when nothing refers to this object, if not before."""

    def __init__(self, open_it: Callable[[], int]) -> None:
        """Call `open_it`, which gives the number; raises what it raises."""
        with defer_interrupts():
            self.number = open_it()
            self._closing = finalize(self, os.close, self.number)
            self._closing.atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; twice is fine."""
        self._closing()
