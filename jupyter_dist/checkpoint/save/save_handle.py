"""What a user holds while a checkpoint is being saved in the background."""

import math
import threading
from time import monotonic
from typing import Self

from jupyter_dist.checkpoint.save.saving import Saved
from jupyter_dist.errors import CheckpointError
from jupyter_dist.text.sizes import tell_part

_SLICE_S = 0.2


class Saving:
    """A checkpoint that is being saved while cells go on; `wait()` gives what came of it."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.total_bytes = 0
        """What this rank will write, as soon as that is known."""
        self._written_bytes = 0
        self._done = threading.Event()
        self._saved: Saved | None = None
        self._error: Exception | None = None
        self._is_heard = False

    @property
    def is_done(self) -> bool:
        """It is saved, or has failed."""
        return self._done.is_set()

    @property
    def is_saved(self) -> bool:
        """It has not failed, and is over."""
        return self._saved is not None

    def wait(self, timeout_s: float | None = None) -> Saved:
        """Wait until it is saved; raises why it could not be.

        After `timeout_s` it raises CheckpointError, and goes on.
        """
        self.await_end(math.inf if timeout_s is None else timeout_s)
        self._is_heard = True
        if self._error is not None:
            raise self._error
        assert self._saved is not None
        return self._saved

    def __repr__(self) -> str:
        if not self.is_done:
            return f"<saving step {self.step}: {self._progress()}>"
        if self._saved is None:
            return f"<step {self.step} was not saved: {self._error}>"
        return f"<step {self.step} is saved in {self._saved.path}>"

    # --- for who saves -----------------------------------------------------------------------

    def await_end(self, timeout_s: float) -> None:
        """Wait until it is saved or has failed; raises CheckpointError when that takes longer."""
        deadline_s = monotonic() + timeout_s
        while not self._done.wait(min(_SLICE_S, max(0.0, deadline_s - monotonic()))):
            if monotonic() >= deadline_s:
                raise CheckpointError(
                    f"step {self.step} is not saved after {timeout_s:g} s ({self._progress()}). It "
                    "goes on; wait again."
                )

    def begin(self, total_bytes: int) -> Self:
        """Note how many bytes this rank will write."""
        self.total_bytes = total_bytes
        return self

    def add(self, nbytes: int) -> None:
        """Count bytes that this rank has written."""
        self._written_bytes += nbytes

    def close(self) -> None:
        """Write nothing more; the other ranks may."""

    def succeed(self, saved: Saved) -> None:
        """Note that it is saved."""
        self._saved = saved
        self._done.set()

    def fail(self, error: Exception) -> None:
        """Note why it is not."""
        self._error = error
        self._done.set()

    def take_news(self) -> str:
        """Say, once, that it has failed or what went wrong beside it, unless someone has heard."""
        if not self.is_done or self._is_heard:
            return ""
        self._is_heard = True
        if self._error is not None:
            return f"step {self.step} was not saved in the background: {self._error}"
        assert self._saved is not None
        return "; ".join(self._saved.notes)

    def _progress(self) -> str:
        return f"{tell_part(self._written_bytes, self.total_bytes)} written"
