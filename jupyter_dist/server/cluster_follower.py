"""One cluster that pages follow, or ask something of: connected as long as someone does."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

import msgspec

from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.errors import ClusterGone, ClusterUnreachable, DistError, NoCluster
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.plain_values import to_text
from jupyter_dist.server.cell_feed import CellFeed, Stage
from jupyter_dist.server.on_thread import disappoint, settle
from jupyter_dist.server.owned_clusters import own_clusters
from jupyter_dist.server.page_messages import CellSeen, Gone, Tail, TopologySeen
from jupyter_dist.views.topology.changes import Teller
from jupyter_dist.views.topology.view_commands import ViewCommands

INTERVAL_S = 0.25
"""Shortest time between two pictures of a cluster."""
_PACE_S = 0.2
"""Pictures come at the interval above, give or take a little: none of those is left out."""
_SHARE = 0.05
"""The part of its time that the thread spends on finding out what has changed, at most."""
_SLICE_S = 0.1
_ENDED = ("stopped", "gone")
logger = logging.getLogger(__name__)


class Picture(msgspec.Struct, frozen=True):
    """A topology, and the state from which what is told with it leads there."""

    topology: Topology
    base: int
    number: int


Heard = Picture | CellSeen | Tail | Gone


class ClusterFollower:
    """Visits a cluster on a thread of its own; a coordinator that is silent is visited again.

    `tell` gets what pages are told, beside it as JSON, on threads of ours; Gone is the last.
    """

    def __init__(self, name: str, tell: Callable[["ClusterFollower", Heard, str], None]) -> None:
        self.name = name
        self.holders = 0
        """Pages and requests that need it; kept by the desk."""
        self.latest: dict[tuple[str, ...], str] = {}
        """What a page that comes is told at once; kept by the desk."""
        self.topology: Topology | None = None
        """As pages were told last, and its number; kept by the desk."""
        self.number = 0
        self._tell = tell
        self._teller = Teller()
        self._stage = Stage(self._say)
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._commands: ViewCommands | None = None
        self._awaiting: list[Future[ViewCommands]] = []
        self._cells: tuple[str, ...] = ()
        self._due_s = 0.0
        self._has_stopped = False
        self._coordinator_pid = 0
        """Of the cluster that was found first: another one may get its name."""
        self._ending: DistError | None = None
        self._thread = threading.Thread(target=self._run, name=f"follow-{name}", daemon=True)
        self._thread.start()

    def commands(self) -> "Future[ViewCommands]":
        """Return what obeys requests, once we are connected; raises DistError when we cannot be."""
        waiting: Future[ViewCommands] = Future()
        with self._lock:
            found, ending = self._commands, self._ending
            if found is None and ending is None:
                self._awaiting.append(waiting)
        if found is not None:
            settle(waiting, found)
        elif ending is not None:
            disappoint(waiting, ending)
        return waiting

    def show_tails(self, ranks: frozenset[int]) -> None:
        """Tell the last lines of these ranks from now on."""
        self._stage.show_tails(ranks)

    def leave(self) -> None:
        """End it without waiting; the cluster goes on."""
        self._left.set()
        self._stage.is_over.set()
        self._stage.has_news.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread after `leave`, at most so long."""
        self._thread.join(timeout_s)

    # --- our thread ---

    def _run(self) -> None:
        ending: DistError | None = None
        try:
            while not self._left.is_set() and ending is None:
                ending = self._visit()
        except Exception:
            logger.exception("cluster %s cannot be followed any longer", self.name)
            ending = DistError("it cannot be followed: see the log of Jupyter Server")
        ending = ending or ClusterGone(self.name, "it is no longer followed")
        self._disappoint(ending, is_for_good=True)
        if not self._left.is_set():
            self._say(Gone(cluster=self.name, text=str(ending)))

    def _visit(self) -> DistError | None:
        """Follow until the connection ends; gives why there is nothing to come back for."""
        pids = {info.name: info.coordinator_pid for info in own_clusters()}
        if self._coordinator_pid and pids.get(self.name) != self._coordinator_pid:
            return ClusterGone(self.name, "its coordinator has ended")
        if self.name not in pids:
            return NoCluster(self.name, list(pids))
        self._coordinator_pid = pids[self.name]
        try:
            cluster = Cluster.visit(self.name, await_ready=False)
        except (ClusterGone, ClusterUnreachable) as problem:
            # Silent for ten seconds, or it has just ended: which, shows when we come again.
            self._disappoint(problem)
            return None
        except DistError as problem:
            return problem
        try:
            self._attend(cluster)
        except (ClusterGone, ClusterUnreachable):
            pass  # whether it has ended shows when we come again
        except DistError as problem:
            return problem
        finally:
            with self._lock:
                self._commands = None
            if self._has_stopped:
                self._await_end(cluster)
            cluster.detach()
        if self._has_stopped:
            return ClusterGone(self.name, "it was stopped")
        return None

    def _attend(self, cluster: Cluster) -> None:
        stage = self._stage
        stage.is_over.clear()
        if self._left.is_set():  # while we came
            return
        commands = ViewCommands(cluster)
        with self._lock:
            self._commands = commands
            awaiting, self._awaiting = self._awaiting, []
        for waiting in awaiting:
            settle(waiting, commands)
        cluster.watch_topology(self._on_topology, INTERVAL_S)
        CellFeed(cluster, stage).run()

    def _await_end(self, cluster: Cluster) -> None:
        """Stay until a cluster that stops has: someone waits for that over our connection."""
        deadline_s = monotonic() + cluster.longest_end_s
        while cluster.is_running and monotonic() < deadline_s and not self._left.wait(_SLICE_S):
            pass

    def _on_topology(self, topology: Topology) -> None:
        """Take in how it is; called on the thread that watches."""
        if topology.state in _ENDED:
            self._has_stopped = topology.state == "stopped"
            self._stage.is_over.set()
        cells = tuple(engine.cell for engine in topology.engines)
        if cells != self._cells or topology.state in _ENDED:
            self._cells = cells
            self._stage.has_news.set()
        now_s = monotonic()
        if topology.state != "gone" and (now_s >= self._due_s or topology.state == "stopped"):
            told = self._teller.tell(topology, now_s)
            text = to_text(TopologySeen(cluster=self.name, told=told))
            self._due_s = now_s + max(_PACE_S, (monotonic() - now_s) / _SHARE)
            self._tell(self, Picture(topology, told.base, told.number), text)

    def _disappoint(self, problem: DistError, *, is_for_good: bool = False) -> None:
        """Tell those who wait why we are not connected, and for good also those who come later."""
        with self._lock:
            self._ending = problem if is_for_good else None
            awaiting, self._awaiting = self._awaiting, []
        for waiting in awaiting:
            disappoint(waiting, problem)

    def _say(self, message: CellSeen | Tail | Gone) -> None:
        self._tell(self, message, to_text(message))
