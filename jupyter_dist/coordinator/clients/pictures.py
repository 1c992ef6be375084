"""The pictures of the cluster that clients see: one when they ask, or one after the other."""

from collections.abc import Callable
from dataclasses import dataclass

from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.coordinator.state.sender import Handlers, Sender
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import ShowPresence, TopologyChanged, WatchTopology

MIN_WATCH_INTERVAL_S = 0.2
FRESH_WITHIN_S = 0.3
"""A picture waits so long for what agents see now, where they have looked rarely so far."""
WATCH_LEASE_S = 15.0
"""A watcher that has not asked again for so long is forgotten."""
Describe = Callable[..., Topology]


@dataclass(frozen=True)
class _Look:
    client: bytes
    request_id: str
    until_s: float
    """It is answered then at the latest."""


@dataclass
class _Watcher:
    request_id: str
    interval_s: float
    due_s: float
    lease_s: float


class Pictures:
    """Draws the cluster while someone looks, and only then."""

    def __init__(
        self,
        rendezvous: Rendezvous,
        sender: Sender,
        describe: Describe,
        is_fresh: Callable[[], bool] = lambda: True,
    ) -> None:
        """Draw with `describe`; `is_fresh` returns whether agents have told what they see now."""
        self._rendezvous, self._sender = rendezvous, sender
        self._describe, self._is_fresh = describe, is_fresh
        self._looks: list[_Look] = []
        self._watchers: dict[bytes, _Watcher] = {}

    def handlers(self) -> Handlers:
        """Return what takes which message."""
        return {WatchTopology: self.watch, ShowPresence: self.show_presence}

    @property
    def are_wanted(self) -> bool:
        """Someone wants to see how the cluster is."""
        return bool(self._watchers or self._looks)

    @property
    def are_awaited(self) -> bool:
        """Someone has asked for one, and waits for what agents see now."""
        return bool(self._looks)

    def hear(self, client: bytes, now_s: float) -> None:
        """Note that a client is there."""
        if client in self._watchers:
            self._watchers[client].lease_s = now_s + WATCH_LEASE_S

    def watch(self, client: bytes, request: WatchTopology, now_s: float) -> None:
        """Send the topology as it is now, and regularly when asked to; interval 0 ends that."""
        known = self._watchers.pop(client, None)
        if known is None or request.interval_s <= 0:
            self._looks.append(_Look(client, request.request_id, now_s + FRESH_WITHIN_S))
            self._answer_looks(now_s)
        if request.interval_s > 0:
            interval_s = max(request.interval_s, MIN_WATCH_INTERVAL_S)
            due_s = now_s + interval_s
            if known is not None:  # asking again must not put off what is due
                due_s = min(due_s, known.due_s)
            self._watchers[client] = _Watcher(
                request.request_id, interval_s, due_s, now_s + WATCH_LEASE_S
            )

    def show_presence(self, client: bytes, request: ShowPresence, _now_s: float) -> None:
        """Send the topology to a client that knows another generation; it watches nothing."""
        self._watchers.pop(client, None)
        known = (request.generation, request.axes)
        if known != (self._rendezvous.generation, self._rendezvous.axes_version):
            self._sender.to_client(client, TopologyChanged(request.request_id, self._describe()))

    def tick(self, now_s: float) -> float:
        """Send what is due; return when something is due next."""
        self._answer_looks(now_s)
        self._watchers = {
            client: watcher for client, watcher in self._watchers.items() if watcher.lease_s > now_s
        }
        due = [watcher for watcher in self._watchers.items() if watcher[1].due_s <= now_s]
        if due:
            topology = self._describe()
            for client, watcher in due:
                watcher.due_s = now_s + watcher.interval_s
                self._sender.to_client(client, TopologyChanged(watcher.request_id, topology))
        watches_s = [watcher.due_s for watcher in self._watchers.values()]
        return min([*watches_s, *(look.until_s for look in self._looks)], default=NEVER)

    def _answer_looks(self, now_s: float) -> None:
        """Send the pictures that need not wait any longer."""
        is_fresh = bool(self._looks) and self._is_fresh()
        due = [look for look in self._looks if is_fresh or look.until_s <= now_s]
        if due:
            self._looks = [look for look in self._looks if look not in due]
            topology = self._describe()
            for look in due:
                self._sender.to_client(look.client, TopologyChanged(look.request_id, topology))

    def say_farewell(self) -> None:
        """Send watchers the last picture."""
        topology = self._describe("stopped")
        for client, watcher in self._watchers.items():
            self._sender.to_client(client, TopologyChanged(watcher.request_id, topology))
