"""Engines that do not answer because they have no core: they live, and nothing holds them."""

import time
from collections.abc import Mapping

from jupyter_dist.launch.processes.core_wait import look_at_threads

LEAST_TIME_S = 0.02
"""Between two looks: on a machine that has cores threads wait for milliseconds."""
_SHARE = 0.1
"""Of that time: threads that could run, and had less of a core together, lack one."""


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
