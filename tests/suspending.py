"""Processes that a test holds still.

The kernel takes SIGSTOP in when it next looks at each thread: on a busy machine one that has just
been sent it still answers. A test that counts on silence has to see every thread stopped.
"""

import os
import signal
from pathlib import Path

from tests.patience import wait_until

WITHIN_S = 5.0


def suspend(pid):
    """Stop a process, and return when none of its threads runs any more; fail where one does."""
    os.kill(pid, signal.SIGSTOP)
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
