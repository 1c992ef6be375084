"""Engines that are gone: told by an agent, or found out by their silence. One way out for all."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.cells.scheduler import CellScheduler, RecoveryPolicy
from jupyter_dist.coordinator.observation.rank_snapshot import SILENCE_S
from jupyter_dist.coordinator.recovery.exit_reports import last_words, report_exit, report_loss
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.clock import NEVER, TICK_S
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import EngineRecord, Roster
from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.model.hosts.rank import name_rank
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.spec.liveness import HealthPolicy, Liveness, assess, lost_at_s
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import RankOutput

EXIT_GRACE_S = 0.05
"""An exit is told by the agent; what the engine sent just before may still be on its way."""

CONFIRM_S = 0.5
"""What ends agents may be known a moment later to who started them."""


class _Exit(NamedTuple):
    """The end of a process that is not believed yet."""

    due_s: float
    exited: pb.EngineExited
    question: int | None
    """To the witness, which is heard first; None: nobody is."""


class Losses:
    """Takes note of every loss once: roster, rendezvous, and the work it interrupts."""

    def __init__(
        self,
        roster: Roster,
        rendezvous: Rendezvous,
        scheduler: CellScheduler,
        on_loss: Callable[[str], None],
        attends: Callable[[str], bool],
    ) -> None:
        """Serve these parts; `attends` tells of a host whether its agent is connected."""
        self._roster = roster
        self._rendezvous = rendezvous
        self._scheduler = scheduler
        self._on_loss = on_loss
        self._attends = attends
        self.recovery: RecoveryPolicy | None = None
        self.witness: JobWatch | None = None
        """Who started the agents, if it may say why they or their ranks end."""
        self._exits: list[_Exit] = []
        self._gone_hosts: dict[str, int] = {}
        """Hosts without an agent of which the witness has not spoken, with the question to it."""
        self._how_gone: dict[str, str] = {}
        self._silent: dict[str, int] = {}
        """The same for engines that are given up for their silence."""
        self.silent: dict[str, list[str]] = {}
        """Names of the suspected engines of each host that has some."""
        self._are_all_well = True
        """No engine was silent when each was looked at last."""
        self._look_s = self._due_s = 0.0
        """When heartbeats are looked at again, and when that must be."""
        self.crashes: dict[int, CrashReport] = {}
        """How ranks ended that are lost, until they are replaced."""

    def on_exit(self, exited: pb.EngineExited, now_s: float) -> None:
        """Take in that a process has ended; believed after a moment, see EXIT_GRACE_S."""
        # Who exits with a code has done so itself; of a signal others may know.
        question = self._ask() if exited.signal else None
        self._exits.append(_Exit(now_s + EXIT_GRACE_S, exited, question))

    def on_host_gone(self, host: str, how: str = "") -> None:
        """Lose all engines of a host, which end with their agent, once a witness was heard.

        `how` says how its end is known, where the witness knows nothing.
        """
        self._how_gone[host] = how
        question = self._ask(CONFIRM_S)
        if question is None:
            self._lose_host(host)
        else:
            self._gone_hosts[host] = question

    def tick(self, now_s: float) -> float:
        """Act on the exits that are due, and on hosts and ranks of which all has been heard.

        Returns when to look again.
        """
        self._act_on_exits(lambda exit_, _: exit_.due_s <= now_s and self._is_heard(exit_.question))
        for host, question in tuple(self._gone_hosts.items()):
            if self._is_heard(question):
                del self._gone_hosts[host]
                self._lose_host(host)
        cell = self._scheduler.cell
        if cell is not None and self.witness is not None and (news := self.witness.take_news()):
            cell.tell(news)
        return now_s + TICK_S if self._exits or self._gone_hosts else NEVER

    def _ask(self, confirm_s: float = 0.0) -> int | None:
        return self.witness.ask(confirm_s) if self.witness is not None else None

    def _is_heard(self, question: int | None) -> bool:
        return question is None or self.witness is None or self.witness.has_answered(question)

    def _why_lost(self, host: str) -> str:
        return self.witness.why_lost(host) if self.witness is not None else ""

    def _lose_host(self, host: str) -> None:
        self._act_on_exits(lambda _, engine: engine.info.host == host)
        how = self._how_gone.pop(host, "")
        why = self._why_lost(host) or how
        reason = f"the agent of host {host} is gone{f': {why}' if why else ''}"
        for engine in self._roster.on_host(host):
            self._lose(report_loss(engine, reason))
        if not self._roster.engines:  # no rank is seated yet whose loss would be told
            self._on_loss(reason)

    def judge(self, beats: HeartbeatMonitor, policy: HealthPolicy, now_s: float) -> float:
        """Look at the heartbeats of every engine that has a process; return when to look again.

        While all are well that need not be before new ones are asked for, however often it could.
        """
        if now_s < self._look_s:
            return self._due_s
        oldest_s = beats.oldest_s()
        if not self._are_all_well or now_s - oldest_s >= min(policy.suspect_after_s, SILENCE_S):
            return self._judge_each(beats, policy, now_s)
        self._due_s = oldest_s + policy.suspect_after_s
        self._look_s = min(self._due_s, now_s + policy.interval_s)
        return self._due_s

    def _judge_each(self, beats: HeartbeatMonitor, policy: HealthPolicy, now_s: float) -> float:
        due_s = oldest_s = NEVER
        is_well = True
        self.silent = {}
        for engine in self._roster.present():
            if engine.state is EngineState.STARTING and not engine.pid:
                continue
            last_beat_s = beats.last_beat_s(engine.identity)
            engine.beat_age_s = max(0.0, now_s - last_beat_s)
            if engine.beat_age_s < policy.suspect_after_s and not engine.is_suspect:
                oldest_s = min(oldest_s, last_beat_s)
                continue
            is_well = False
            due_s = min(due_s, self._judge_silence(engine, last_beat_s, policy, now_s))
        self._due_s = min(due_s, oldest_s + policy.suspect_after_s)
        self._look_s = min(self._due_s, now_s + policy.interval_s) if is_well else now_s
        self._are_all_well = is_well and now_s - oldest_s < SILENCE_S
        return self._due_s

    def _judge_silence(
        self, engine: EngineRecord, last_beat_s: float, policy: HealthPolicy, now_s: float
    ) -> float:
        """Suspect an engine, lose it, or find that it has answered; return when to look again."""
        looked_s = self._roster.hosts[engine.info.host].looked_s
        if engine.is_suspect and engine.sample is not None and engine.sample.is_starved:
            engine.starved_s += looked_s - engine.looked_s
        engine.looked_s = looked_s
        engine.starved_s = min(engine.starved_s, engine.beat_age_s)  # a late beat may have come
        verdict, reason = assess(now_s, last_beat_s, policy, engine.starved_s)
        if verdict is Liveness.LOST and self._is_in_doubt(engine.info.host):
            verdict = Liveness.SUSPECT  # its agent is judged first: it may be the whole host
        engine.is_suspect = verdict is Liveness.SUSPECT
        engine.reason = reason if engine.is_suspect else ""
        if verdict is Liveness.LOST:
            self._give_up(engine, reason)
            return now_s + TICK_S
        if verdict is Liveness.ALIVE:
            engine.starved_s = 0.0
            return last_beat_s + policy.suspect_after_s
        self.silent.setdefault(engine.info.host, []).append(engine.name)
        return max(lost_at_s(last_beat_s, policy, engine.starved_s), now_s + TICK_S)

    def describe_suspects(self) -> str:
        """Return which ranks have been silent for long; empty: none."""
        return "; ".join(
            f"{name_rank(engine.info.rank)}: {engine.reason}"
            for engine in self._roster.present()
            if engine.is_suspect
        )

    def _give_up(self, engine: EngineRecord, reason: str) -> None:
        """Lose an engine for its silence, once a witness was heard."""
        if engine.name not in self._silent and (question := self._ask()) is not None:
            self._silent[engine.name] = question
        if self._is_heard(self._silent.get(engine.name)):
            self._silent.pop(engine.name, None)
            why = self._why_lost(engine.info.host)
            self._lose(report_loss(engine, f"{reason}: {why}" if why else reason))

    def _is_in_doubt(self, host: str) -> bool:
        """Return whether it is open yet if the agent of a host is gone; never for ever."""
        is_judged = self._attends(host) or self._roster.hosts[host].is_lost
        return host in self._gone_hosts or not is_judged

    def _act_on_exits(self, is_due: Callable[[_Exit, EngineRecord], bool]) -> None:
        exits, self._exits = self._exits, []
        for each in exits:
            exited = each.exited
            engine = self._roster.find(exited.engine)
            if engine is None:
                continue  # it was replaced meanwhile
            if not is_due(each, engine):
                self._exits.append(each)
                continue
            host = self._roster.hosts[engine.info.host]
            memory_bytes = host.joined.memory_total_bytes if host.joined is not None else 0
            report = report_exit(exited, engine, memory_bytes)
            if each.question is not None and (why := self._why_lost(host="")):
                report = replace(report, reason=why)
            self._lose(report, last_words(exited, engine))

    def _lose(self, report: CrashReport, words: RankOutput | None = None) -> None:
        rank, reason = report.rank, report.reason
        work = self._scheduler.current
        if isinstance(work, CellRun) and words is not None:
            work.on_last_words(rank, words)
        if not self._roster.lose(rank, reason):
            return
        announcement = self.recovery.announce(rank) if self.recovery is not None else ""
        report = self.crashes[rank] = replace(report, outlook=announcement)
        self._rendezvous.on_lost(rank)
        self._on_loss(f"rank {rank} ended while starting: {reason}{_last_line(words)}")
        if isinstance(work, CellRun):
            work.on_lost(rank, reason, report)
        elif work is not None:
            work.on_lost(rank, reason)
        if announcement:
            self._scheduler.tell_cell(announcement)

    def drop_outlooks(self) -> None:
        """Promise nothing any more: what was done about the losses has failed."""
        self.crashes = {rank: replace(crash, outlook="") for rank, crash in self.crashes.items()}

    def forget(self, ranks: Iterable[int]) -> None:
        """Forget how these ranks ended: others have their place now."""
        for rank in ranks:
            self.crashes.pop(rank, None)


def _last_line(words: RankOutput | None) -> str:
    """Return the last thing a process said, to follow the way it ended."""
    text = "".join(output.text for output in words.outputs) if words is not None else ""
    lines = text.strip().splitlines()
    return f"; it said: {lines[-1].strip()}" if lines else ""
