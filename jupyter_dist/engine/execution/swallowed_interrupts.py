"""Interrupts that Python has swallowed: they are sent once more.

Ctrl-C raises wherever the main thread is. If that is a callback whose errors nobody can get (of a
weak reference, a finalizer, C code), Python prints the error and goes on: the loop around it would
never hear of the interrupt.
"""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable

_PAUSE_S = 0.01
"""So that the callback has ended; if the next one swallows it too, it is sent again."""


class SwallowedInterrupts:
    """Sees from its making on what Python has swallowed; it is made in the main thread."""

    def __init__(self, is_wanted: Callable[[], object]) -> None:
        """Ask `is_wanted` before it is sent again: what was interrupted may have ended."""
        self._is_wanted = is_wanted
        self._main = threading.get_ident()
        self._tell = sys.unraisablehook
        sys.unraisablehook = self._take

    def _take(self, found: "sys.UnraisableHookArgs") -> None:
        is_interrupt = issubclass(found.exc_type, KeyboardInterrupt)
        if is_interrupt and threading.get_ident() == self._main and (what := self._is_wanted()):
            # Not by `threading`: its locks may be held by what the callback came into.
            _thread.start_new_thread(self._send_again, (what,))
        else:
            self._tell(found)

    def _send_again(self, what: object) -> None:
        # SIGINT just before a system call is seen at its end, which SIGURG brings about.
        for number in (signal.SIGINT, signal.SIGURG):
            time.sleep(_PAUSE_S)
            if self._is_wanted() == what:
                signal.pthread_kill(self._main, number)
