"""The thread that finishes a checkpoint while cells go on; one at a time."""

import contextlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from jupyter_dist.errors import CheckpointError, CheckpointFailed
from jupyter_dist.model.ranks.user_errors import error_text, type_name

if TYPE_CHECKING:
    from jupyter_dist.checkpoint.save.save_handle import Saving
    from jupyter_dist.checkpoint.save.saving import Saved

_NICENESS, _MOST_NICENESS = 10, 19
"""More than the rank's: what it computes goes before what it saves. Where Linux groups threads by
session, this counts within one rank only."""


class Errand:
    """A thread that is there before it is known what it shall do.

    So that who agrees with others on something can do it: afterwards there may be no thread to be
    had. Raises RuntimeError.
    """

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        # A daemon: a rank that is told to leave does not wait for a slow disk.
        threading.Thread(target=self._run, name="checkpoint", daemon=True).start()

    def do(self, task: Callable[[], object]) -> None:
        """Let it do this, unless it has something to do already."""
        self._tasks.put(task)

    def _run(self) -> None:
        self._tasks.get()()


class Background:
    """Finishes what `checkpoint.save(…, wait=False)` has begun."""

    def __init__(self) -> None:
        self._last: Saving | None = None

    @property
    def is_saving(self) -> bool:
        """A checkpoint is on its way."""
        last = self._last
        return last is not None and not last.is_done

    def start(self, saving: "Saving", finish: "Callable[[], Saved]", errand: Errand) -> None:
        """Let `finish` run on the thread of an errand."""
        errand.do(partial(_finish, saving, finish))
        self._last = saving

    def join(self, timeout_s: float) -> None:
        """Wait for the last one, whatever its end, of which `take_news` tells.

        Raises CheckpointError when it takes longer.
        """
        if self._last is not None:
            self._last.await_end(timeout_s)

    def take_failure(self) -> str:
        """Say, once, that the last one was not saved."""
        return "" if self._last is None or self._last.is_saved else self._last.take_news()

    def take_news(self) -> str:
        """Say, once, what went wrong with the last one."""
        return "" if self._last is None else self._last.take_news()


def _finish(saving: "Saving", finish: "Callable[[], Saved]") -> None:
    _give_way()
    try:
        saving.succeed(finish())
    except CheckpointError as error:
        _let_go(error)
        saving.fail(error)
    except BaseException as error:  # noqa: BLE001  (whatever it is, who waits must hear of it)
        # Not the error itself: that a peer has failed would be said of the cell that waits.
        told = error_text(error) or type_name(error)
        failed = CheckpointFailed(f"step {saving.step}: {told}")
        failed.__cause__ = error
        _let_go(error)
        saving.fail(failed)


def _let_go(error: BaseException | None) -> None:
    """Let what the error has passed through hold no arrays: it is kept until the next save."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _give_way() -> None:
    """Let other threads have the processor first; on Linux each thread has its own priority."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            thread = os.PRIO_PROCESS, threading.get_native_id()
            os.setpriority(*thread, min(os.getpriority(*thread) + _NICENESS, _MOST_NICENESS))
