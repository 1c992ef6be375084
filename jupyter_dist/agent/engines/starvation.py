"""Engines that do not answer because they have no core: they live, and nothing holds them."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from jupyter_dist.agent.engines.process_state import ThreadState, list_threads, read_thread
from jupyter_dist.launch.processes.core_wait import look_at_threads

LEAST_TIME_S = 0.02
"""Between two looks: on a machine that has cores threads wait for milliseconds."""
_SHARE = 0.1
"""Of that time: threads that could run, and had less of a core together, lack one."""
_SHORT_WAIT_S = 0.02
"""The longest wait before a time slice that does not count: 50 slices a second are enough."""
_WINDOW_S = 0.2
"""How long `lacks_core` observes a process."""
_LACKING_SHARE = 0.25
"""A process lacks a core when it has none for more than this share of the window."""


class ReadyEngines:
    """Engines with a thread that could run, to be looked at again."""

    def __init__(self, pids: Mapping[str, int], *prefixes: str) -> None:
        """Look for the first time at threads whose names begin like this; without any, at all."""
        self._pids, self._prefixes = pids, prefixes
        seen = {engine: look_at_threads(pid, *prefixes) for engine, pid in pids.items()}
        self._had_s = {engine: threads.had_s for engine, threads in seen.items() if threads.can_run}
        self._seen_s = time.monotonic()

    def find_starved(self) -> set[str]:
        """Return those that still could run, and have had hardly any time on a core since then."""
        if not self._had_s:
            return set()
        time.sleep(max(0.0, self._seen_s + LEAST_TIME_S - time.monotonic()))
        enough_s = _SHARE * (time.monotonic() - self._seen_s)
        seen = {e: look_at_threads(self._pids[e], *self._prefixes) for e in self._had_s}
        return {
            engine
            for engine, now in seen.items()
            if now.can_run and now.had_s - self._had_s[engine] < enough_s
        }


class _Seen(NamedTuple):
    """What was seen of a thread."""

    state: ThreadState
    since_s: float
    """When it was seen like this first."""

    def waited_s(self, now_s: float) -> float:
        """Return for how long it has waited for a core; Linux counts a wait when it is over."""
        core, waits = self.state.core, self.state.letter == "R" and self.state.core.had_s > 0
        return core.waited_s + (now_s - self.since_s if waits else 0.0)


class CoreWatch:
    """Counts how long a process lacks a core: one of its threads waits long for a time slice.

    Threads that wait for the interpreter look for it every 5 ms. On a busy machine each of these
    looks waits for a core too, but not for long, and the process gets what it needs.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looked_s = 0.0
        self._threads: dict[int, _Seen] = {}
        self.lacked_s = 0.0
        """Between looks; not before the first one, and not while it rests."""

    def look(self) -> float:
        """Look at all threads; return for how long it has lacked a core by now, in seconds."""
        now_s = time.monotonic()
        before, before_s = self._threads, self._looked_s
        states = {thread: read_thread(self._pid, thread) for thread in list_threads(self._pid)}
        self._looked_s = now_s
        self._threads = {t: _see(before.get(t), state, now_s) for t, state in states.items()}
        waits_s = [
            _long_wait_s(before[thread], before_s, seen, now_s)
            for thread, seen in self._threads.items()
            if thread in before
        ]
        self.lacked_s += min(max(waits_s, default=0.0), now_s - before_s)
        return self.lacked_s

    def rest(self) -> None:
        """Do not count until it is looked at again."""
        self._threads = {}


def _see(before: _Seen | None, state: ThreadState, now_s: float) -> _Seen:
    """Keep the time of the earlier look if the thread has neither run nor changed its state."""
    return before if before is not None and before.state == state else _Seen(state, now_s)


def _long_wait_s(before: _Seen, before_s: float, now: _Seen, now_s: float) -> float:
    slices = now.state.core.slices - before.state.core.slices
    return max(0.0, now.waited_s(now_s) - before.waited_s(before_s) - slices * _SHORT_WAIT_S)


def lacks_core(pid: int) -> bool:
    """Observe a process for a fifth of a second; return whether it lacks a core."""
    watch, began_s = CoreWatch(pid), time.monotonic()
    watch.look()
    time.sleep(_WINDOW_S)
    return watch.look() > _LACKING_SHARE * (time.monotonic() - began_s)
