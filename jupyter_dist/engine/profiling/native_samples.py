"""Samples of py-spy, which sees calls of C and C++ too: a child that looks at this rank."""

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from time import monotonic_ns

import msgspec
import psutil

from jupyter_dist.engine.profiling.chrome_trace import Samples, read_changes, read_samples
from jupyter_dist.engine.profiling.samples import SeenStacks
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.profiles import RankProfile
from jupyter_dist.probe.py_spy import NOT_INSTALLED, find_py_spy, say_why_not

RATE = 10
"""Looks for each second: the rank stands still for some 2 ms in each."""
START_S = 15.0
"""py-spy reads the symbols of every library first."""
END_S = 10.0
MOST_S = 600.0
"""py-spy keeps every change of a stack until its end: some 10 MB in this time."""
_LOOKS = b"Sampling process"
"""What it says when it begins."""
_PR_SET_PTRACER = 0x59616D61


class NativeSamples:
    """What py-spy sees of the main thread from now on."""

    def __init__(self, shell: RankShell, most_s: float) -> None:
        """Have it look; raise UsageError with the reason where it is missing, or may not."""
        path = find_py_spy()
        if path is None:
            raise UsageError(NOT_INSTALLED)
        self._shell = shell
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (it has no name)
        self._said: deque[bytes] = deque(maxlen=20)
        self._looks = threading.Event()
        number = self._file.fileno()
        _permit(os.getpid())
        try:
            self._process = subprocess.Popen(
                _command(path, number, math.ceil(min(most_s, MOST_S))),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(number,),
                start_new_session=True,  # what interrupts this rank is not for it
            )
        except OSError as problem:
            _permit(0)
            self._file.close()
            raise UsageError(f"py-spy does not start: {problem}") from None
        self._started_ns = monotonic_ns()
        self._reader = threading.Thread(target=self._read, name="profiler", daemon=True)
        self._reader.start()
        self._wait_until_it_looks()
        self._began_ns = monotonic_ns()

    def end(self) -> RankProfile:
        """Stop it, and return what it saw."""
        ended_ns = min(monotonic_ns(), self._began_ns + round(MOST_S * 1e9))
        cost_ns = self._stop(signal.SIGINT)
        with self._file:
            trace = Path(f"/dev/fd/{self._file.fileno()}").read_bytes()
        # It counts from its start, which is a few milliseconds after ours.
        since_us = (self._began_ns - self._started_ns) // 1000
        until_us = (ended_ns - self._started_ns) // 1000
        seen, note = _read_trace(trace, (since_us, until_us))
        shell = self._shell
        stacks = SeenStacks(seen.stacks, shell.name_cell, lambda: shell.current_cell)
        return RankProfile(
            "sampling",
            self._began_ns,
            ended_ns,
            frames=stacks.frames,
            stacks=stacks.stacks,
            times_us=tuple(at_us - since_us for at_us in seen.times_us),
            samples=tuple(seen.samples),
            cost_ns=cost_ns,
            note=note,
        )

    def _read(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        with self._process.stdout as said:
            for line in said:
                self._said.append(line)
                if _LOOKS in line:
                    self._looks.set()
        self._looks.set()

    def _wait_until_it_looks(self) -> None:
        is_told = self._looks.wait(START_S)
        said = b"".join(self._said)
        if _LOOKS in said:
            return
        self._stop(signal.SIGKILL)
        self._file.close()
        if not is_told:
            raise UsageError(f"py-spy has not begun for {START_S:g} s")
        raise UsageError(say_why_not(said.decode(errors="replace"), self._process.returncode))

    def _stop(self, number: signal.Signals) -> int:
        """End the process, and return the CPU time that it has used, in nanoseconds."""
        self._process.send_signal(number)
        self._reader.join(END_S)
        if self._reader.is_alive():
            self._process.kill()
            self._reader.join()
        _permit(0)
        cost_s = 0.0
        with contextlib.suppress(psutil.Error):  # code of users may wait for children, too
            cost_s = sum(psutil.Process(self._process.pid).cpu_times()[:2])
        self._process.wait()
        return round(cost_s * 1e9)


def _read_trace(trace: bytes, span_us: tuple[int, int]) -> tuple[Samples, str]:
    """Return what the main thread did within a span of time, and who saw it."""
    changes = read_changes(trace, threading.main_thread().ident or 0)
    try:
        seen = read_samples(changes, span_us, 1_000_000 // RATE)
    except msgspec.DecodeError:
        return Samples(), "py-spy was ended before it had written what it saw"
    took = "py-spy took the samples, with calls of C and C++"
    return seen, took if seen.samples else "py-spy has seen nothing"


def _command(path: str, number: int, seconds: int) -> list[str]:
    """Return how py-spy writes what it sees of this process to an open file."""
    options = ["--native", "--idle", "--full-filenames", "--format", "chrometrace"]
    limits = ["--rate", str(RATE), "--duration", str(seconds)]
    whom = ["--output", f"/dev/fd/{number}", "--pid", str(os.getpid())]
    return [path, "record", *options, *limits, *whom]


def _permit(pid: int) -> None:
    """Let descendants of a process look at this one, which Yama else forbids; 0: none any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
