"""The clients: who waits for the start, and whether anybody is left."""

from collections.abc import Callable

from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.clients.start_watch import StartWatch
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.spec.cluster_spec import KEEP_S
from jupyter_dist.protocol.identity import is_passing
from jupyter_dist.protocol.messages import (
    ClusterReady,
    StartProgress,
)

PRESENCE_LEASE_S = 3.0
"""Clients show themselves every second; one that has not for so long is not there any more."""
FAILED_START_KEEP_S = 5.0
"""A cluster that could not start waits so long for someone to tell it to."""
PROGRESS_INTERVAL_S = 0.2
"""Shortest time between two words on how a start goes."""
PROGRESS_REPEAT_S = 1.0
"""Where nothing changes, its seconds do."""


class ClientRegistry:
    """Keeps clients informed, and knows when nobody has been there for too long."""

    def __init__(
        self,
        roster: Roster,
        rendezvous: Rendezvous,
        sender: Sender,
        keep_s: float | None,
        coming: Arrivals,
        list_notes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._sender = sender
        self._keep_s = KEEP_S if keep_s is None else keep_s
        self._start = StartWatch(roster, rendezvous, coming)
        self._list_notes = list_notes
        """Returns what users should know about the hosts once the cluster is ready."""
        self._last_heard_s: float | None = None
        self._awaiting: dict[bytes, str] = {}
        self._told: object = None
        """What those who wait for the start were told last, without its seconds."""
        self._told_s = float("-inf")
        self._seen_s = 0.0
        self.has_been_ready = False
        self.heard_refusal = False
        """Someone was told that the start failed."""
        self._start_problem = ""

    def hear(self, client: bytes, now_s: float) -> None:
        """Note that a client is there; one that only looks in keeps no cluster alive."""
        if not is_passing(client):
            self._last_heard_s = now_s

    def keep(self) -> None:
        """Keep the cluster for a while without clients, though it was to end with one."""
        self._keep_s = max(self._keep_s, KEEP_S)

    def excuse_silence(self, now_s: float) -> None:
        """Count again how long nobody has been heard."""
        if self._last_heard_s is not None:
            self._last_heard_s = now_s

    def await_ready(self, client: bytes, request_id: str) -> None:
        """Tell this client how the start goes."""
        if self._start_problem:
            self._refuse_start(client, request_id)
        elif self.has_been_ready:
            self._tell_ready_to(client, request_id)
        else:
            self._awaiting[client] = request_id
            self._told = None

    def on_progress(self, now_s: float) -> None:
        """Tell those who wait for the start how far it is: what is new, and how time goes by."""
        if self.has_been_ready or self._start_problem:
            return
        self._seen_s = now_s
        self._start.look(now_s)
        if not self._awaiting or (self._told and now_s - self._told_s < PROGRESS_INTERVAL_S):
            return
        hosts = self._start.hosts(now_s)
        news = (
            self._start.describe_waiting(),
            [(host.host, host.stage, host.present_ranks, host.ready_ranks) for host in hosts],
        )
        if news == self._told and now_s - self._told_s < PROGRESS_REPEAT_S:
            return
        self._told, self._told_s = news, now_s
        for client, request_id in self._awaiting.items():
            self._tell_progress(client, request_id, now_s)

    def tell_ready(self, now_s: float) -> None:
        """Tell everyone who waits that the cluster is ready, and how long that took."""
        if not self.has_been_ready:
            self._start.look(now_s, is_due=True)
        self.has_been_ready = True
        for client, request_id in self._awaiting.items():
            self._tell_progress(client, request_id, now_s)
            self._tell_ready_to(client, request_id)
        self._awaiting.clear()

    def tell_start_failed(self, problem: str) -> None:
        """Tell everyone who waits, or will come, why the start failed."""
        self._start_problem = problem
        self._start.look(self._seen_s, is_due=True)
        for client, request_id in self._awaiting.items():
            self._refuse_start(client, request_id)
        self._awaiting.clear()

    def _refuse_start(self, client: bytes, request_id: str) -> None:
        self._tell_progress(client, request_id, self._seen_s)
        self._sender.refuse(client, request_id, ErrorCode.START_FAILED, self._start_problem)
        self.heard_refusal = True

    def tick(self, now_s: float) -> None:
        """Tell those who wait how far the start is; who does so is there."""
        self.on_progress(now_s)
        if self._last_heard_s is None or self._awaiting:
            self._last_heard_s = now_s

    def is_gone(self, now_s: float) -> bool:
        """Return whether nobody has been there for the time the cluster is to be kept."""
        keep_s = FAILED_START_KEEP_S if self._start_problem else self._keep_s
        last_heard_s = self._last_heard_s
        return last_heard_s is not None and now_s - last_heard_s > PRESENCE_LEASE_S + keep_s

    def _tell_progress(self, client: bytes, request_id: str, now_s: float) -> None:
        progress = StartProgress(
            request_id,
            self._start.describe_waiting(),
            self._roster.world_size - len(self._rendezvous.missing_ranks),
            self._roster.world_size,
            self._start.hosts(now_s),
            self._start.passed_s,
        )
        self._sender.to_client(client, progress)

    def _tell_ready_to(self, client: bytes, request_id: str) -> None:
        log_dirs = {
            host.name: host.joined.log_dir for host in self._roster.hosts.values() if host.joined
        }
        generation, world_size = self._rendezvous.generation, self._roster.world_size
        notes, axes = self._list_notes(), self._roster.axes
        ready = ClusterReady(request_id, generation, world_size, log_dirs, notes, axes)
        self._sender.to_client(client, ready)
