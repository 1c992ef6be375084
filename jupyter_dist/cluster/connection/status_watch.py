"""A quiet thread that tells the coordinator someone is there, and hears how the cluster is."""

import contextlib
import threading
import traceback
from collections.abc import Callable
from time import monotonic

from jupyter_dist.cluster.connection.connection import SLICE_S, Connection
from jupyter_dist.cluster.connection.roles import leave_place
from jupyter_dist.control.poller import Poller, Waker
from jupyter_dist.control.sockets import end_unused_context
from jupyter_dist.errors import ClusterGone, WireError
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import ShowPresence, TopologyChanged, WatchTopology

PRESENCE_INTERVAL_S = 1.0
Subscriber = Callable[[Topology], None]


class Leaving:
    """Has a watch end, and leave the owner's place: without waiting, and without a lock.

    It does not know the watch, whose subscribers would else be kept alive by a finalizer.
    """

    is_wanted = False

    def want(self) -> None:
        """Let the thread end in a moment."""
        self.is_wanted = True


class StatusWatch(threading.Thread):
    """Owns its own line; subscribers are called on this thread."""

    def __init__(self, line: Connection, name: str) -> None:
        super().__init__(name="cluster-watch", daemon=True)
        self._connection = line
        self._cluster = name
        self._lock = threading.Lock()
        self._subscribers: dict[Subscriber, float] = {}
        self._over = threading.Event()
        self._waker: Waker | None = None
        """Ends a slice of the thread, which makes it and closes it."""
        self.leaving = Leaving()
        self._next_presence_s = 0.0
        self.last = Topology(cluster=name, state="starting", generation=-1)

    def subscribe(self, subscriber: Subscriber, interval_s: float) -> Callable[[], None]:
        """Call this with each topology from now on; gives a function that ends it."""
        with self._lock:
            self._subscribers[subscriber] = interval_s
            self._next_presence_s = 0.0
        self._wake()
        if self._over.is_set():
            subscriber(self.last)
        return lambda: self._unsubscribe(subscriber)

    def _unsubscribe(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscribers.pop(subscriber, None)

    def run(self) -> None:
        """Watch until closed, or until the cluster is stopped or gone."""
        try:
            self._watch()
        except ClusterGone:
            self._tell(Topology(cluster=self._cluster, state="gone", hosts=self.last.hosts))
        finally:
            self._over.set()
            self._connection.close()
            if self._waker is not None:
                self._waker.close()
            if self.leaving.is_wanted:
                end_unused_context()

    def _watch(self) -> None:
        line, waker, poller = self._connection, Waker(), Poller()
        self._waker = waker
        poller.add(line)
        poller.add(waker)
        while not (self._over.is_set() or self.leaving.is_wanted):
            self._show_presence()
            poller.wait(SLICE_S)
            waker.clear()
            with contextlib.suppress(WireError):  # it is logged, and the next picture comes
                for message, _ in line.receive(0.0, waits_out_breaks=True):
                    if isinstance(message, TopologyChanged):
                        self._tell(message.topology)
        if self.leaving.is_wanted:
            leave_place(self._connection)

    def close(self) -> None:
        """End the thread; subscribers hear no more."""
        self._over.set()
        self._wake()
        if self.ident is None:  # it never ran, so nobody else closes its line
            self._connection.close()
        elif threading.current_thread() is not self:
            self.join(2.0)

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker.wake()

    def _show_presence(self) -> None:
        now_s = monotonic()
        line = self._connection
        if now_s < self._next_presence_s or (line.is_far and line.describe_break()):
            return  # what is said during a break would all arrive at its end
        with self._lock:
            self._next_presence_s = now_s + PRESENCE_INTERVAL_S
            interval_s = min(self._subscribers.values(), default=None)
        request_id = self._connection.new_request_id()
        if interval_s is None:
            seen = self.last
            self._connection.send(ShowPresence(request_id, seen.generation, seen.axes.version))
        else:
            self._connection.send(WatchTopology(request_id, interval_s))

    def _tell(self, topology: Topology) -> None:
        self.last = topology
        with self._lock:
            subscribers = list(self._subscribers)
        for subscriber in subscribers:
            try:
                subscriber(topology)
            except Exception:  # noqa: BLE001  (this thread keeps the cluster alive)
                traceback.print_exc()
                self._unsubscribe(subscriber)
        if topology.state in ("stopped", "gone"):
            self._over.set()
