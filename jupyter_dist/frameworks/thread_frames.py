"""Where all threads are, read so that Python 3.11 cannot stand still for it."""

import gc
import sys
from types import FrameType


def read_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by the thread's ident.

    Before 3.12 Python makes objects for them while it keeps a lock that each thread needs to begin
    and to end. A collection of garbage may begin in the midst of that, and let a thread run that
    waits for this lock: then none of them ever goes on (CPython issue 106883).
    """
    collects = sys.version_info < (3, 12) and gc.isenabled()
    if collects:
        gc.disable()
    try:
        return sys._current_frames()  # noqa: SLF001, TID251  (documented, and the only way)
    finally:
        if collects:
            gc.enable()
