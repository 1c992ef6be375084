"""What jax.profiler and torch.profiler see of this rank, on the clock of its recorder.

Each has a clock of its own: a mark, of which both times are known, tells how they are apart.
"""

import gzip
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic_ns
from typing import Any

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.profiles import RankProfile

MOST_EVENTS = 60_000
"""Of one rank; the longest are kept."""
MARK, MARKS = "jupyter-dist clock", 5
_NAMES = "M"


def begin_trace(kind: str) -> "JaxTrace | TorchTrace":
    """Have a framework note what it does; raise UsageError where that cannot be."""
    if kind not in sys.modules:
        if importlib.util.find_spec(kind) is None:
            raise UsageError(f"{kind} is not installed here; --with sampling needs nothing")
        raise UsageError(f"no cell has imported {kind} here; import it in a cell first")
    return JaxTrace() if kind == "jax" else TorchTrace()


class JaxTrace:
    """A trace of jax.profiler, without calls of Python, which would slow the rank."""

    def __init__(self) -> None:
        profiler = sys.modules["jax"].profiler
        self._profiler = profiler
        self._folder = tempfile.TemporaryDirectory(prefix="jupyter-dist-trace-")
        self._began_ns = monotonic_ns()
        try:
            options = profiler.ProfileOptions()
            options.python_tracer_level = 0
            profiler.start_trace(self._folder.name, profiler_options=options)
        except (RuntimeError, AttributeError, TypeError) as problem:
            self._folder.cleanup()
            raise UsageError(f"jax.profiler does not begin: {problem}") from None
        self._marks_ns = _set_marks(profiler.TraceAnnotation)

    def end(self) -> RankProfile:
        """Stop, and return the events."""
        ended_ns = monotonic_ns()
        with self._folder:
            self._profiler.stop_trace()
            found = sorted(Path(self._folder.name).rglob("*.trace.json.gz"))
            text = gzip.decompress(found[-1].read_bytes()) if found else b"{}"
        return _read_trace("jax", text, (self._began_ns, ended_ns), self._marks_ns)


class TorchTrace:
    """A trace of torch.profiler of all threads, GPUs included."""

    def __init__(self) -> None:
        torch = sys.modules["torch"]
        self._began_ns = monotonic_ns()
        try:
            # What a cell computes runs on another thread than the one that answers questions.
            config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)  # noqa: SLF001
            self._profile = torch.profiler.profile(experimental_config=config)
            self._profile.start()
        except (RuntimeError, AttributeError, TypeError) as problem:
            raise UsageError(
                f"torch.profiler of torch {torch.__version__} cannot look at other threads, or "
                f"another profile of it runs: {problem}"
            ) from None
        self._marks_ns = _set_marks(torch.profiler.record_function)

    def end(self) -> RankProfile:
        """Stop, and return the events."""
        ended_ns = monotonic_ns()
        self._profile.stop()
        with tempfile.TemporaryDirectory(prefix="jupyter-dist-trace-") as folder:
            file = Path(folder) / "trace.json"
            self._profile.export_chrome_trace(str(file))
            text = file.read_bytes()
        return _read_trace("torch", text, (self._began_ns, ended_ns), self._marks_ns)


def _set_marks(annotate: Callable[[str], AbstractContextManager[Any]]) -> list[tuple[int, int]]:
    """Set some marks; return the times before and after each."""
    times_ns = []
    for _ in range(MARKS):
        before_ns = monotonic_ns()
        with annotate(MARK):
            pass
        times_ns.append((before_ns, monotonic_ns()))
    return times_ns


def _find_shift_us(events: list[dict[str, Any]], marks_ns: list[tuple[int, int]]) -> float | None:
    """Return what to add to times of a trace; None: its marks are not there."""
    seen = sorted(event["ts"] for event in events if event.get("name") == MARK and "ts" in event)
    if len(seen) != len(marks_ns):
        return None
    # A thread that has lost the processor between the two clocks tells nothing.
    _, at_us, mark_us = min(
        (after - before, (before + after) / 2000, mark)
        for (before, after), mark in zip(marks_ns, seen, strict=True)
    )
    return float(at_us - mark_us)


def _read_trace(
    kind: str, text: bytes, span: tuple[int, int], marks_ns: list[tuple[int, int]]
) -> RankProfile:
    """Return a trace whose times are those of CLOCK_MONOTONIC in microseconds, bounded in size."""
    events: list[dict[str, Any]] = msgspec.json.decode(text).get("traceEvents", [])
    note, shift_us = "", _find_shift_us(events, marks_ns)
    timed = [event for event in events if "ts" in event and event.get("name") != MARK]
    if shift_us is None:
        note = f"the trace of {kind} does not tell its clock; it begins with the profile"
        shift_us = span[0] / 1000 - min((event["ts"] for event in timed), default=0.0)
    if len(timed) > MOST_EVENTS:
        note = f"{len(timed) - MOST_EVENTS} of the shortest events of {kind} are left out"
        timed = sorted(timed, key=lambda event: -float(event.get("dur", 0)))[:MOST_EVENTS]
    named = [event for event in events if event.get("ph") == _NAMES]
    for event in timed:
        event["ts"] = round(event["ts"] + shift_us, 3)
    packed = gzip.compress(msgspec.json.encode(named + timed), compresslevel=4)
    return RankProfile(kind, *span, trace=packed, note=note)
