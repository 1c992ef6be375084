"""The rhythm in which engines are asked for heartbeats, and peers that are gone are forgotten."""

from collections.abc import Callable

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.relay.engine_router import EngineRouter
from jupyter_dist.control.router import Router
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.model.spec.liveness import HealthPolicy, beat_interval_s
from jupyter_dist.protocol.messages import FromClient

OWN_ABSENCE_S = 1.0
"""A coordinator that was itself held up for so long (a machine asleep) blames nobody."""
_SLACK = 0.1
"""Share of the interval by which engines are asked sooner, or later, than after it."""


class Heartbeats:
    """Asks every engine that has a process; `on_absence` is called when we were held up."""

    def __init__(
        self,
        roster: Roster,
        beats: HeartbeatMonitor,
        engines: EngineRouter,
        clients: Router[FromClient],
        policy: HealthPolicy,
        on_absence: Callable[[float], None],
    ) -> None:
        self._roster = roster
        self.beats, self._engines, self._clients = beats, engines, clients
        self.policy = policy
        self._on_absence = on_absence
        self.due_s = self.latest_s = 0.0
        """When engines are asked next: at the first if the loop is awake, at the second anyway.

        A client shows itself as often, so the loop wakes once for both.
        """

    @property
    def interval_s(self) -> float:
        """Between two questions, in seconds."""
        return beat_interval_s(self.policy, len(self._roster.hosts))

    def tick(self, now_s: float) -> None:
        """Read the beats that have come, and ask for the next ones when that is due."""
        self.beats.receive()
        if now_s < self.due_s:
            return
        if now_s - self.latest_s > OWN_ABSENCE_S:
            self.beats.excuse_silence()
            self._on_absence(now_s)
        interval_s = self.interval_s
        self.due_s = now_s + (1 - _SLACK) * interval_s
        # Twice within the time after which they are suspect, as beat_interval_s has it.
        longest_s = max(interval_s, self.policy.suspect_after_s / 2)
        self.latest_s = now_s + min((1 + _SLACK) * interval_s, longest_s)
        engines = self._roster.present()
        self._clients.keep_less()
        self._engines.keep_only([engine.identity for engine in engines])
        # Silence counts from the first question, so engines are asked once they are born.
        self.beats.ask([engine.identity for engine in engines if engine.pid])

    def heard_s(self) -> dict[str, float]:
        """Return when the last beat was asked for that a rank of each host answered; 0.0: none."""
        heard = dict.fromkeys(self._roster.hosts, 0.0)
        for engine in self._roster.present():
            answered_s = self.beats.answered_s(engine.identity)
            heard[engine.info.host] = max(heard[engine.info.host], answered_s)
        return heard

    def ages_s(self, now_s: float) -> dict[int, float]:
        """Return the time since the last beat of each rank that is present."""
        self.beats.receive()
        return {
            engine.info.rank: now_s - self.beats.last_beat_s(engine.identity)
            for engine in self._roster.present()
        }
