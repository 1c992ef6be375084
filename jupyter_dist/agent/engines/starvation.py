"""Engines that do not answer because they have no core: they live, and nothing holds them."""

import time
from collections.abc import Mapping

from jupyter_dist.agent.engines.process_state import ThreadState, list_threads, read_thread
from jupyter_dist.launch.processes.core_wait import look_at_threads

LEAST_TIME_S = 0.02
"""Between two looks: on a machine that has cores threads wait for milliseconds."""
_SHARE = 0.1
"""Of that time: threads that could run, and had less of a core together, lack one."""
_LONG_S = 0.2
"""For which a thread lacks a core when it gets less than the share of it."""


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


def lacks_core(pid: int) -> bool:
    """Return whether some thread of a process wants a core all the while, and hardly gets it.

    A thread that waits for the interpreter looks for it every 5 ms. On a busy machine it mostly
    waits for a core when it is seen, but it gets all that it needs: it goes to sleep again.
    """
    began_s = time.monotonic()
    looks = {thread: read_thread(pid, thread) for thread in list_threads(pid)}
    waiting = {thread: seen for thread, seen in looks.items() if seen.letter == "R" and seen.had_s}
    while waiting and time.monotonic() - began_s < _LONG_S:
        time.sleep(LEAST_TIME_S)
        waiting = {t: own for t, own in waiting.items() if _still_lacks(own, read_thread(pid, t))}
    return bool(waiting)


def _still_lacks(before: ThreadState, now: ThreadState) -> bool:
    had_s = now.had_s - before.had_s
    return now.letter == "R" and now.sleeps == before.sleeps and had_s < _SHARE * _LONG_S
