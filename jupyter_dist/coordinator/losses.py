"""Engines that are gone: told by an agent, or found out by their silence. One way out for all."""

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec.structs import replace

from jupyter_dist.coordinator.cells import CellRun
from jupyter_dist.coordinator.exits import last_words, report_exit, report_loss
from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import EngineRecord, Roster
from jupyter_dist.model.crash import CrashReport
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.model.health import HealthPolicy, Verdict, assess
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import RankOutput

EXIT_GRACE_S = 0.05
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
        self.announce: Callable[[int], str] = lambda _rank: ""
        """Says what will be done about the loss of a rank."""
        self._exits: list[tuple[float, pb.EngineExited]] = []
        self.crashes: dict[int, CrashReport] = {}
        """How ranks ended that are lost, until they are replaced."""

    def on_exit(self, exited: pb.EngineExited, now_s: float) -> None:
        """Take in that a process has ended; believed after a moment, see EXIT_GRACE_S."""
        self._exits.append((now_s + EXIT_GRACE_S, exited))

    def on_host_gone(self, host: str) -> None:
        """Lose all engines of a host: they end with their agent."""
        self._act_on_exits(lambda _due_s, engine: engine.info.host == host)
        for engine in self._roster.on_host(host):
            self._lose(report_loss(engine, f"the agent of host {host} is gone"))

    def tick(self, now_s: float) -> None:
        """Act on the exits that are due."""
        self._act_on_exits(lambda due_s, _engine: due_s <= now_s)

    def judge(self, beats: Beats, policy: HealthPolicy, now_s: float) -> None:
        """Look at the heartbeats of every engine that has a process."""
        for rank in self._roster.present_ranks():
            engine = self._roster[rank]
            if engine.state is EngineState.STARTING and not engine.pid:
                continue
            last_beat_s = beats.last_beat_s(engine.identity)
            engine.beat_age_s = max(0.0, now_s - last_beat_s)
            verdict, reason = assess(now_s, last_beat_s, policy)
            engine.is_suspect = verdict is Verdict.SUSPECT
            engine.reason = reason if engine.is_suspect else ""
            if verdict is Verdict.LOST:
                self._lose(report_loss(engine, reason))

    def _act_on_exits(self, is_due: Callable[[float, EngineRecord], bool]) -> None:
        exits, self._exits = self._exits, []
        for due_s, exited in exits:
            engine = self._roster.find(exited.engine)
            if engine is None:
                continue  # it was replaced meanwhile
            if not is_due(due_s, engine):
                self._exits.append((due_s, exited))
                continue
            host = self._roster.hosts[engine.info.host]
            memory_bytes = host.joined.memory_total_bytes if host.joined is not None else 0
            report = report_exit(exited, engine, memory_bytes)
            self._lose(report, last_words(exited, engine))

    def _lose(self, report: CrashReport, words: RankOutput | None = None) -> None:
        rank, reason = report.rank, report.reason
        work = self._fence.current
        if isinstance(work, CellRun) and words is not None:
            work.on_last_words(rank, words)
        if not self._roster.lose(rank, reason):
            return
        announcement = self.announce(rank)
        report = self.crashes[rank] = replace(report, outlook=announcement)
        self._rendezvous.on_lost(rank)
        self._on_loss(f"rank {rank} ended while starting: {reason}{_last_line(words)}")
        if isinstance(work, CellRun):
            work.on_lost(rank, reason, report)
        elif work is not None:
            work.on_lost(rank, reason)
        cell = self._fence.cell
        if cell is not None and announcement:
            cell.tell(announcement)

    def drop_outlooks(self) -> None:
        """Promise nothing any more: what was done about the losses has failed."""
        self.crashes = {rank: replace(crash, outlook="") for rank, crash in self.crashes.items()}

    def forget(self, ranks: Iterable[int]) -> None:
        """Forget how these ranks ended: others have their place now."""
        for rank in ranks:
            self.crashes.pop(rank, None)


def _last_line(words: RankOutput | None) -> str:
    """Give the last thing a process said, to follow the way it ended."""
    text = "".join(output.text for output in words.outputs) if words is not None else ""
    lines = text.strip().splitlines()
    return f"; it said: {lines[-1].strip()}" if lines else ""
