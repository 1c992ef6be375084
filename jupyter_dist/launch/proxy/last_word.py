"""Why a cluster elsewhere has ended, for clients who learn that by the end of its proxy."""

import contextlib
import os
import weakref
from pathlib import Path

_MOST_BYTES = 16_384


def last_word_path(log_path: str | Path) -> Path:
    """Return where the process with this log tells it, in its own directory; empty: usual."""
    return Path(log_path).with_name("last-word")


class LastWord:
    """The file with it, which is there from the beginning, and can be read after its removal."""

    def __init__(self, log_path: str) -> None:
        self._descriptor = -1
        with contextlib.suppress(OSError):
            self._descriptor = os.open(last_word_path(log_path), os.O_RDONLY | os.O_CLOEXEC)
        # Not all who hold one close it; the file goes with the last of them.
        self._closing = weakref.finalize(self, _close, self._descriptor)

    def read(self) -> str:
        """Return it; empty where nothing was said."""
        if not self._closing.alive or self._descriptor < 0:
            return ""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.read(self._descriptor, _MOST_BYTES).decode(errors="replace")

    def close(self) -> None:
        """Let go of the file."""
        self._closing()


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
