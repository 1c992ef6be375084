"""The parts that look at the clock; each says when it wants to do that again."""

from dataclasses import dataclass

from jupyter_dist.coordinator.agents.agent_service import AgentService
from jupyter_dist.coordinator.cells.background_collectives import BackgroundCollectives
from jupyter_dist.coordinator.observation.attention import Attention
from jupyter_dist.coordinator.observation.heartbeats import Heartbeats
from jupyter_dist.coordinator.requests import Parts

LONGEST_REST_S = 1.75
"""For leases and files, which nothing else wakes the loop for; by default each round of heartbeats
comes before that, with however many hosts.
"""


@dataclass
class Ticks:
    """Lets each part look at the clock, in this order."""

    parts: Parts
    agents: AgentService
    background: BackgroundCollectives
    attention: Attention
    heartbeats: Heartbeats

    def look(self, now_s: float) -> float:
        """Do what is due; return when the first part wants to look again."""
        parts = self.parts
        losses_s = min(
            self.agents.judge(now_s, self.heartbeats.heard_s),
            parts.losses.tick(now_s),
            parts.losses.judge(self.heartbeats.beats, self.heartbeats.policy, now_s),
            self.background.tick(now_s),
        )
        if parts.scheduler.cell is not None:
            parts.client_registry.excuse_silence(now_s)
        parts.client_registry.tick(now_s)
        parts.widgets.tick()
        self.agents.is_telemetry_awaited = parts.pictures.are_awaited
        silent = parts.losses.silent
        return min(
            now_s + LONGEST_REST_S,
            losses_s,
            parts.pictures.tick(now_s),
            parts.recording.tick(now_s),
            parts.cell.questions.tick(now_s),
            parts.preemption.tick(now_s),
            parts.recovery.tick(now_s),
            parts.parallel.tick(now_s),
            self.attention.tick(self._is_looked_at, parts.scheduler.has_work, silent, now_s),
        )

    @property
    def _is_looked_at(self) -> bool:
        """Someone wants to know how hosts are, now."""
        return self.parts.pictures.are_wanted or self.parts.cell.questions.is_asking
