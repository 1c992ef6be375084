"""How a start goes, host by host, from what the coordinator has seen itself."""

from collections.abc import Sequence

from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.roster import EngineRecord, HostRecord, Roster
from jupyter_dist.model.hosts.start_stage import HostProgress, Observed, StageClock

LOOK_INTERVAL_S = 0.02
"""Ranks that come by the hundred are not looked at one by one."""


class StartWatch:
    """Takes the time of every stage of every host, and of the cluster as a whole."""

    def __init__(self, roster: Roster, rendezvous: Rendezvous, coming: Arrivals) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._coming = coming
        # By record and not by name: a host that joins on its own brings its own name.
        self._clocks = {id(host): StageClock(coming.began_s) for host in roster.hosts.values()}
        self._since_s = coming.began_s
        self._next_look_s = float("-inf")
        self._was_welcomed = False
        self.passed_s: dict[str, float] = {}
        """How long what is over took: `hosts`, `engines`, `communicator`."""

    def look(self, now_s: float, *, is_due: bool = False) -> None:
        """Take note of what has changed, unless it was looked at just before."""
        is_due |= self._rendezvous.is_welcomed != self._was_welcomed
        if not is_due and now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_INTERVAL_S
        self._was_welcomed = self._rendezvous.is_welcomed
        engines = self._roster.by_host()
        present, ready = self._rendezvous.present_ranks, self._rendezvous.ready_ranks
        for host in self._roster.hosts.values():
            seen = self._observe(host, engines[host.name], present, ready)
            self._clocks[id(host)].take(seen, now_s)
        self._take_time(now_s)

    def describe_waiting(self) -> str:
        """Say in one sentence what is waited for."""
        missing = [host.name for host in self._roster.missing_hosts]
        return self._coming.describe_waiting(missing) if missing else "starting ranks"

    def hosts(self, now_s: float) -> tuple[HostProgress, ...]:
        """Return how far each host is."""
        hosts = self._roster.hosts.items()
        return tuple(self._clocks[id(host)].tell(name, now_s) for name, host in hosts)

    def _observe(
        self, host: HostRecord, engines: Sequence[EngineRecord], present: set[int], ready: set[int]
    ) -> Observed:
        progress = self._coming.progress(host.name) if host.joined is None else None
        ended = next((engine for engine in engines if not engine.is_present), None)
        problem = progress.problem if progress is not None else ""
        if host.is_lost:
            problem = "its agent is gone"
        elif ended is not None:
            problem = f"rank {ended.info.rank}: {ended.reason}"
        ranks = {engine.info.rank for engine in engines}
        return Observed(
            problem=problem,
            is_awaited=progress is None,
            is_queued=progress is not None and progress.is_queued,
            is_connecting=progress is not None and progress.is_connecting,
            is_up=host.joined is not None,
            is_ordered=host.interface is not None,
            is_welcomed=self._rendezvous.is_welcomed,
            ranks=len(engines) or host.spec.slots,
            present_ranks=len(ranks & present),
            ready_ranks=len(ranks & ready),
            note=progress.stage if progress is not None else "",
        )

    def _take_time(self, now_s: float) -> None:
        """Note what the cluster as a whole has behind it."""
        are_ordered = all(host.interface is not None for host in self._roster.hosts.values())
        for name, is_over in (
            ("hosts", are_ordered),
            ("engines", self._rendezvous.is_welcomed),
            ("communicator", self._rendezvous.is_complete),
        ):
            if not is_over:
                return
            if name not in self.passed_s:
                self.passed_s[name] = round(now_s - self._since_s, 3)
                self._since_s = now_s
