"""SIGTERM at a rank: batch systems send it to every process of a job before they end it."""

import os
import signal
import threading
from types import FrameType

from jupyter_dist.frameworks.jax.private.runtime import is_listening


class SigtermHandler:
    """Passes SIGTERM over while the cluster heeds notices; else it ends the process, as always."""

    def __init__(self) -> None:
        self.is_passed_over = False
        """Written by the link thread."""
        self._pid = 0
        self._before_fork = threading.local()

    def install(self) -> None:
        """Heed the signal from now on, unless someone else does; on the main thread."""
        if self._pid == os.getpid():
            return
        if threading.current_thread() is threading.main_thread() and not is_caught():
            if not self._pid:
                os.register_at_fork(
                    before=self._hold, after_in_parent=self._release, after_in_child=self._forget
                )
            self._pid = os.getpid()
            signal.signal(signal.SIGTERM, self._on_signal)

    def tell_jax(self) -> None:
        """Send this process the signal by which JAX hears of a preemption, if it listens."""
        if is_listening() and is_caught():
            os.kill(os.getpid(), signal.SIGTERM)

    def _hold(self) -> None:
        """Have SIGTERM wait while a child is made: Python forgets those that come too early."""
        self._before_fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _release(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before_fork.mask)

    def _forget(self) -> None:
        """Let SIGTERM end a forked child at once, also one that waits for a lock in C code."""
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._release()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.is_passed_over and self._pid == os.getpid():
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def is_caught(number: int = signal.SIGTERM) -> bool:
    """Return whether this process catches or ignores a signal.

    Python does not know of handlers that libraries install, as JAX does.
    """
    try:
        with open("/proc/self/status", "rb") as file:
            masks = dict(line.split(b":", 1) for line in file if line.startswith(b"Sig"))
    except OSError:
        return signal.getsignal(number) is not signal.SIG_DFL
    bit = 1 << (number - 1)
    return any(int(masks.get(name, b"0"), 16) & bit for name in (b"SigCgt", b"SigIgn"))
