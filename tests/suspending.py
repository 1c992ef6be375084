"""Processes that a test holds still.

The kernel takes SIGSTOP in when it next looks at each thread: on a busy machine one that has just
been sent it still answers. A test that counts on silence has to see every thread stopped.
"""

import os
import signal
from pathlib import Path

from tests.patience import wait_until

WITHIN_S = 5.0
_IN_ZYGOTES = "import os, signal, sys\nif 'jupyter_dist.engine.zygote' in sys.orig_argv:\n    "
_STOP = "os.kill(os.getpid(), signal.SIGSTOP)"
STOP_ZYGOTES = _IN_ZYGOTES + _STOP
"""For `first_of_all`: no rank is born before its zygote is resumed."""
STOP_RANKS = _IN_ZYGOTES + f"os.register_at_fork(after_in_child=lambda: {_STOP})"
"""The same: no rank is ready before it is resumed."""


def suspend(pid):
    """Stop a process, and return when none of its threads runs any more; fail where one does."""
    os.kill(pid, signal.SIGSTOP)
    await_stop(pid)


def await_stop(pid):
    """Return when none of the threads of a process runs any more."""
    wait_until(lambda: _is_stopped(pid), WITHIN_S, f"process {pid} is stopped")


def resume(pid):
    """Let a process run again that was suspended."""
    os.kill(pid, signal.SIGCONT)


def _is_stopped(pid):
    return all(_state(thread) in "TtZX" for thread in Path(f"/proc/{pid}/task").iterdir())


def _state(thread):
    """Return the letter of a thread as in /proc; `X` when it has ended."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"
