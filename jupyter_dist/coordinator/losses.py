"""Engines that are gone: told by an agent, or found out by their silence. One way out for all."""

from collections.abc import Callable
from typing import Protocol

from jupyter_dist.coordinator.cells import CellRun
from jupyter_dist.coordinator.exits import describe_exit, last_words
from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.model.health import HealthPolicy, Verdict, assess
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import RankOutput

EXIT_GRACE_S = 0.1
"""An exit is told by the agent; what the engine sent just before may still be on its way."""


class Beats(Protocol):
    """When each rank's heart was last heard."""

    def last_beat_s(self, identity: bytes) -> float:
        """Give the monotonic time of the last beat."""


class Losses:
    """Takes note of every loss once: roster, rendezvous, and the work it interrupts."""

    def __init__(
        self, roster: Roster, rendezvous: Rendezvous, fence: Fence, on_loss: Callable[[str], None]
    ) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._fence = fence
        self._on_loss = on_loss
        self._exits: list[tuple[float, pb.EngineExited]] = []

    def on_exit(self, exited: pb.EngineExited, now_s: float) -> None:
        """Take in that a process has ended; believed after a moment, see EXIT_GRACE_S."""
        self._exits.append((now_s + EXIT_GRACE_S, exited))

    def on_host_gone(self, host: str) -> None:
        """Lose all engines of a host: they end with their agent."""
        for engine in self._roster.on_host(host):
            self._lose(engine.info.rank, f"the agent of host {host} is gone")

    def tick(self, now_s: float) -> None:
        """Act on the exits that are due."""
        due = [exited for due_s, exited in self._exits if due_s <= now_s]
        self._exits = [entry for entry in self._exits if entry[0] > now_s]
        for exited in due:
            words = last_words(exited, self._roster[exited.rank])
            reason = describe_exit(exited.exit_code, exited.signal)
            self._lose(exited.rank, reason, words)

    def judge(self, beats: Beats, policy: HealthPolicy, now_s: float) -> None:
        """Look at the heartbeats of every engine that has a process."""
        for rank in self._roster.present_ranks():
            engine = self._roster[rank]
            if engine.state is EngineState.STARTING and not engine.pid:
                continue
            last_beat_s = beats.last_beat_s(str(rank).encode())
            verdict, reason = assess(now_s, last_beat_s, policy)
            engine.is_suspect = verdict is Verdict.SUSPECT
            engine.reason = reason if engine.is_suspect else ""
            if verdict is Verdict.LOST:
                self._lose(rank, reason)

    def _lose(self, rank: int, reason: str, words: RankOutput | None = None) -> None:
        work = self._fence.current
        if isinstance(work, CellRun) and words is not None:
            work.on_last_words(rank, words)
        if not self._roster.lose(rank, reason):
            return
        self._rendezvous.on_lost(rank)
        self._on_loss(f"rank {rank} ended while starting: {reason}{_last_line(words)}")
        if work is not None:
            work.on_lost(rank, reason)


def _last_line(words: RankOutput | None) -> str:
    """Give the last thing a process said, to follow the way it ended."""
    text = "".join(output.text for output in words.outputs) if words is not None else ""
    lines = text.strip().splitlines()
    return f"; it said: {lines[-1].strip()}" if lines else ""
