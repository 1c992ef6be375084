"""Where all threads are, read so that Python 3.11 neither stands still nor crashes for it.

Before 3.12 a look at another thread's frame makes an object for it. A collection of garbage may
begin in the midst of that and let other threads run: one of them then waits for a lock that the
look keeps (CPython issue 106883), or the frame is gone when the look goes on. So no garbage is
collected meanwhile.
"""

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType

Call = tuple[FrameType, int]
"""A frame, and the line that it was at when it was looked at."""

_LOCK = threading.Lock()
"""Who looks at the same time must not have garbage collected before the other one is through."""


def read_calls() -> dict[int, list[Call]]:
    """Return the calls that each other thread is in, the outermost first, by the thread's ident.

    Frames keep their locals: let go of them soon.
    """
    with no_garbage_collected():
        frames = sys._current_frames()  # noqa: SLF001, TID251  (documented, and the only way)
        # A frame that refers to itself would keep all the others until garbage is collected.
        del frames[threading.get_ident()]
        return {ident: _calls_to(innermost) for ident, innermost in frames.items()}


def read_places(ident: int, until: CodeType | None = None) -> tuple[tuple[CodeType, int], ...]:
    """Return the code and line of each call that one other thread is in, the innermost first.

    Callers of `until` are left out. Cheaper than `read_calls`, and keeps no frame; empty: there is
    no such thread.
    """
    with no_garbage_collected():
        frame = sys._current_frames().get(ident)  # noqa: SLF001, TID251  (as above)
        places = []
        while frame is not None and frame.f_code is not until:
            places.append((frame.f_code, frame.f_lineno or 0))
            frame = frame.f_back
        return tuple(places)


def _calls_to(frame: FrameType | None) -> list[Call]:
    calls = []
    while frame is not None:
        calls.append((frame, frame.f_lineno or 0))
        frame = frame.f_back
    return calls[::-1]


@contextlib.contextmanager
def no_garbage_collected() -> Iterator[None]:
    """Have others look at the frames of threads meanwhile, as debuggers do."""
    with _LOCK:
        collects = sys.version_info < (3, 12) and gc.isenabled()
        if collects:
            gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
