"""Whether a process lives, and one that must not outlive the one that started it.

    python -P -m jupyter_dist.launch.processes.process_life PARENT_PID MODULE ARGUMENT…

runs a module as `python -m` does, in a process that ends with its parent. With `--exec PROGRAM` in
place of MODULE it becomes that program, which has time to clean up on other nodes.
"""

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1
_HIGHEST_PID = (1 << 31) - 1


def die_with_parent(parent_pid: int, death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this signal when the parent ends (Linux only; elsewhere: nothing).

    The signal comes when the *thread* that started this process ends, so parents start
    children from their main thread. Ends the process at once when the parent is gone already.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(death_signal)) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        os._exit(1)


def process_lives(pid: int) -> bool:
    """Return whether a process with this number exists (a zombie does not count)."""
    if not 0 < pid <= _HIGHEST_PID:
        return False  # os.kill would mean whole groups by it, or raise OverflowError
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


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
