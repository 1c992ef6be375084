"""The list of this user's clusters: looked at each second while someone wants to know."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

from jupyter_dist.cluster.connection.status_probe import StatusProbe
from jupyter_dist.control.sockets import end_unused_context
from jupyter_dist.server.on_thread import disappoint, settle
from jupyter_dist.server.owned_clusters import own_clusters
from jupyter_dist.server.summaries import ClusterRow, row_of

INTERVAL_S = 1.0
PATIENCE_S = 0.5
"""So long a look waits for answers; one that comes later is seen by the next look."""
SILENT_AFTER_S = 2.0
_SLICE_S = 0.1
_CLOSE_S = 1.0
logger = logging.getLogger(__name__)
Rows = tuple[ClusterRow, ...]


class Listing:
    """Looks on a thread of its own, which sleeps while nobody wants to know.

    `tell` gets each list that differs from the last one, on that thread.
    """

    def __init__(self, tell: Callable[[Rows], None]) -> None:
        self._tell = tell
        self._condition = threading.Condition()
        self._listeners = 0
        self._askers: list[Future[Rows]] = []
        self._is_over = False
        self._thread: threading.Thread | None = None
        self._looks = Looks()

    def attend(self) -> None:
        """Let one more hear of changes, until it leaves."""
        with self._condition:
            self._listeners += 1
            self._wake()

    def leave(self) -> None:
        """Let one fewer hear of them."""
        with self._condition:
            self._listeners -= 1

    def ask(self) -> "Future[Rows]":
        """Return the list as it is now."""
        asker: Future[Rows] = Future()
        with self._condition:
            self._askers.append(asker)
            self._wake()
        return asker

    def close(self) -> None:
        """End the thread and leave the clusters."""
        with self._condition:
            self._is_over = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cluster-list", daemon=True)
            self._thread.start()
        self._condition.notify_all()

    def _run(self) -> None:
        told: Rows | None = None
        next_s = 0.0
        logged = ""
        while (askers := self._wait(next_s)) is not None:
            next_s = monotonic() + INTERVAL_S
            try:
                rows = self._looks.look()
            except Exception as problem:
                if logged != repr(problem):  # it may be the same each second, for days
                    logged = repr(problem)
                    logger.exception("the list of clusters could not be made")
                for asker in askers:
                    disappoint(asker, problem)
                continue
            logged = ""
            for asker in askers:
                settle(asker, rows)
            if rows != told:
                told = rows
                self._tell(rows)
        self._looks.close()
        for asker in self._askers:
            asker.cancel()

    def _wait(self, next_s: float) -> "list[Future[Rows]] | None":
        """Wait until a look is due; gives who has asked for it, None at the end."""
        with self._condition:
            while not self._is_over:
                left_s = next_s - monotonic()
                if self._askers or (self._listeners and left_s <= 0):
                    askers, self._askers = self._askers, []
                    return askers
                if not self._listeners:
                    self._looks.rest()
                self._condition.wait(left_s if self._listeners else None)
            return None


class Looks:
    """A glance at each cluster; held by one thread."""

    def __init__(self) -> None:
        self._glances: dict[tuple[str, int], StatusProbe] = {}

    def look(self) -> Rows:
        """Look at all of them; silent ones hold nobody up."""
        self._find()
        glances = list(self._glances.values())
        for glance in glances:
            glance.listen(0.0)
            glance.ask()
        for glance in glances:
            # Who owes an older answer is not waited for.
            while glance.is_waiting and glance.silence_s < PATIENCE_S and not glance.is_gone:
                glance.listen(_SLICE_S)
        for glance in glances:
            glance.listen(0.0)  # while another was waited for
        return tuple(_row(glance) for glance in glances if not glance.is_gone)

    def rest(self) -> None:
        """Close all lines until the next look."""
        for glance in self._glances.values():
            glance.close()
        self._glances.clear()

    def close(self) -> None:
        """Close everything."""
        self.rest()
        end_unused_context()

    def _find(self) -> None:
        """Begin to look at new clusters, and forget those that are gone."""
        running = {(info.name, info.coordinator_pid): info for info in own_clusters()}
        for key in self._glances.keys() - running.keys():
            self._glances.pop(key).close()
        for key in running.keys() - self._glances.keys():
            self._glances[key] = StatusProbe(running[key])
        self._glances = dict(sorted(self._glances.items()))


def _row(glance: StatusProbe) -> ClusterRow:
    silence = glance.problem
    if not silence and glance.is_waiting:
        if not glance.has_answered:
            silence = "has not answered yet"
        if glance.silence_s > SILENT_AFTER_S:
            silence = f"does not answer for {glance.silence_s:.0f} s"
    return row_of(
        glance.topology,
        info=glance.info,
        owner=glance.owner,
        kernels=glance.kernels,
        silence=silence,
    )
