"""Engines that answer no heartbeats because they have no core: they live, and are not lost."""

import time
from collections.abc import Iterable, Mapping

from jupyter_dist.launch.processes.core_wait import ready_threads, thread_core_time
from jupyter_dist.model.ranks.beat_threads import ECHO_THREAD, IO_THREADS

LEAST_TIME_S = 0.02
"""Between two looks at a thread: on a machine that has cores it waits for milliseconds."""
_SHARE = 0.1
"""Of that time: a thread that could run, and had less of a core, lacks one."""


class ReadyThreads:
    """Those that answer heartbeats of silent engines and could run, to be looked at again."""

    def __init__(self, pids: Mapping[str, int], silent: Iterable[str]) -> None:
        """Look for the first time at the engines that are silent; `pids` has those that live."""
        self._ready = {
            (engine, thread): core_time.had_s
            for engine in silent
            if engine in pids
            for thread, core_time in ready_threads(pids[engine], ECHO_THREAD, IO_THREADS).items()
        }
        self._pids, self._seen_s = pids, time.monotonic()

    def find_starved(self) -> set[str]:
        """Return the engines with a thread that has had hardly any time on a core since then."""
        if not self._ready:
            return set()
        time.sleep(max(0.0, self._seen_s + LEAST_TIME_S - time.monotonic()))
        enough_s = _SHARE * (time.monotonic() - self._seen_s)
        return {
            engine
            for (engine, thread), had_s in self._ready.items()
            if thread_core_time(self._pids[engine], thread).had_s - had_s < enough_s
        }
