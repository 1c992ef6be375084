"""How other threads wake the one that speaks for an engine."""

import contextlib
import os
import threading


class Bell:
    """A pipe that any thread rings, also after it was closed: then nothing is written anywhere."""

    def __init__(self) -> None:
        self.descriptor, self._ringer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        """Can be read from when it has rung."""
        # Whatever is opened next gets the numbers of what is closed here.
        self._door = threading.Lock()

    def ring(self) -> None:
        """Wake who waits."""
        with self._door:
            if self._ringer >= 0:
                with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
                    os.write(self._ringer, b"!")

    def clear(self) -> None:
        """Forget that it has rung; only the thread that closes it may."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.descriptor, 4096)

    def close(self) -> None:
        """Ring no more."""
        with self._door:
            os.close(self._ringer)
            self._ringer = -1
        os.close(self.descriptor)
