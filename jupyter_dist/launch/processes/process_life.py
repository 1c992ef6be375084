"""Whether a process lives, and one that must not outlive the one that started it.

    python -P -m jupyter_dist.launch.processes.process_life PARENT_PID MODULE ARGUMENT…

runs a module as `python -m` does, in a process that ends with its parent. With `--exec PROGRAM` in
place of MODULE it becomes that program, which has time to clean up on other nodes.
"""

import contextlib
import ctypes
import math
import os
import runpy
import select
import signal
import sys
import threading
from functools import cache
from typing import Any

_SIGKILL = 9
"""By its number: Windows, where a client needs this module, has no such name."""
_PR_SET_PDEATHSIG = 1
_HIGHEST_PID = (1 << 31) - 1


def die_with_parent(parent_pid: int, death_signal: int = _SIGKILL) -> None:
    """Ask the kernel to send this signal when the parent ends (Linux only; elsewhere: nothing).

    The signal comes when the *thread* that started this process ends, so parents start
    children from their main thread. Ends the process at once when the parent is gone already.
    """
    if sys.platform == "linux":
        if _libc().prctl(_PR_SET_PDEATHSIG, int(death_signal)) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        if os.getppid() != parent_pid:
            os._exit(1)


def own_session() -> dict[str, Any]:
    """Return what has `Popen` start a process that Ctrl-C in our terminal does not reach."""
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        import subprocess

        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        options = {"creationflags": flags}
    return options


def end_at_eof(descriptor: int) -> None:
    """Kill this process and its group once no process holds the other end of this pipe any more.

    For systems whose kernel sends no signal then; a thread waits for it.
    """

    def wait() -> None:
        while os.read(descriptor, 4096):
            continue
        os.kill(0, _SIGKILL)

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def process_lives(pid: int) -> bool:
    """Return whether a process with this number exists (a zombie does not count)."""
    if not 0 < pid <= _HIGHEST_PID:
        return False  # os.kill would mean whole groups by it, or raise OverflowError
    if sys.platform == "win32":  # where os.kill ends the process, whatever the signal
        import psutil

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _state_of(pid) != "Z"


def process_is_stopped(pid: int) -> bool:
    """Return whether a process stands still by a signal or for a debugger; only Linux can tell."""
    return _state_of(pid) in ("T", "t")


def _state_of(pid: int) -> str:
    """Return the letter that Linux has for what a process does, or nothing if it is unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            return stat.read(512).rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def await_end(pid: int, timeout_s: float) -> bool:
    """Wait for the end of a process of this machine, also of one that is no child of this one.

    Return whether it has ended (a zombie has). `timeout_s` may be `math.inf`.
    """
    if not process_lives(pid):
        return True
    if sys.platform == "linux":
        # It may have just ended, no descriptor be left, or Python be built for an older kernel.
        with contextlib.suppress(OSError, AttributeError):
            return _await_descriptor(os.pidfd_open(pid), timeout_s)
    import psutil

    with contextlib.suppress(psutil.Error, OSError):  # it has just ended, or lives on
        psutil.Process(pid).wait(_patience_s(timeout_s))
    return not process_lives(pid)


def _await_descriptor(process: int, timeout_s: float) -> bool:
    try:
        return bool(select.select([process], [], [], _patience_s(timeout_s))[0])
    finally:
        os.close(process)


def _patience_s(timeout_s: float) -> float | None:
    """Return it as the waits of others take it: None for ever."""
    return None if timeout_s == math.inf else max(0.0, timeout_s)


if __name__ == "__main__":
    if sys.argv[2] == "--exec":
        die_with_parent(int(sys.argv[1]), signal.SIGTERM)  # this survives the change of program
        try:
            os.execvp(sys.argv[3], sys.argv[3:])
        except OSError as error:
            sys.exit(f"{sys.argv[3]} cannot be run: {error.strerror}")
    die_with_parent(int(sys.argv[1]))
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
