"""Looks at the ranks of a running cell, again and again, and says who waits for whom."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from jupyter_dist.coordinator.observation.nccl_diagnostics import NcclDiagnostics
from jupyter_dist.coordinator.observation.rank_queries import Answers, RankQueries
from jupyter_dist.coordinator.observation.rank_snapshot import RankSnapshot
from jupyter_dist.coordinator.observation.slowest_rank import SLOWEST_FROM_S, SlowestWatch
from jupyter_dist.coordinator.observation.verdict import HangVerdict, judge
from jupyter_dist.coordinator.observation.wait_graph import Call, find_waits
from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.model.ranks.stacks import Frame, RankStacks
from jupyter_dist.protocol.messages import ReadStacks

ASK_INTERVAL_S = 2.0
"""How often ranks are asked for their stacks, while something is odd;"""
MOST_ASK_INTERVAL_S = 5.0
"""else ever more rarely, but at least so often."""
ASK_TIMEOUT_S = 1.0
SETTLED_LOOKS = 1.2
"""Hosts are looked at one after the other: who seems to be missing in a call is seen so for as long
as this many looks take before a word is said about it."""


@dataclass
class _Look:
    """What is remembered of one rank from look to look."""

    stack: tuple[Frame, ...] = ()
    stack_since_s: float = 0.0
    stack_until_s: float = 0.0
    """From the first to the last time that this stack was seen."""
    is_unresponsive: bool = False
    process_state: str = ""
    state_since_s: float = 0.0

    def take_stack(self, stack: tuple[Frame, ...], is_unresponsive: bool, now_s: float) -> None:
        """Take in where the rank was seen."""
        if _places(stack) != _places(self.stack) or is_unresponsive != self.is_unresponsive:
            self.stack_since_s = now_s
        self.stack, self.is_unresponsive, self.stack_until_s = stack, is_unresponsive, now_s

    def take_state(self, state: str, now_s: float) -> None:
        """Take in how its process is."""
        if state != self.process_state:
            self.process_state, self.state_since_s = state, now_s

    def forget_stack(self) -> None:
        """Drop what was seen: the rank has moved on."""
        self.stack, self.is_unresponsive = (), False


def _places(stack: tuple[Frame, ...]) -> list[tuple[str, str]]:
    return [(frame.site, frame.function) for frame in stack]


class HangWatch:
    """What has been seen of one cell's ranks so far."""

    def __init__(
        self,
        ranks: Sequence[int],
        roster: Roster,
        questions: RankQueries,
        witness: NcclDiagnostics | None = None,
        tells_slowest: bool = False,
    ) -> None:
        self._ranks = ranks
        self._roster = roster
        self._queries = questions
        self._witness = witness
        self._tells_slowest = tells_slowest
        self._slowest: SlowestWatch | None = None
        """Tells which rank is slow while nothing else is to be said; made for long cells only."""
        self._slowest_from_s = NEVER
        self._looks: defaultdict[int, _Look] = defaultdict(_Look)
        self._missing_since_s: dict[tuple[Call, int], float] = {}
        """Since when a rank has been seen to be missing in a call."""
        self._has_spoken = False
        self._is_asking = False
        self._next_ask_s = 0.0
        self._now_s = 0.0

    def look(
        self, statuses: Mapping[int, str], errors: Mapping[int, str], now_s: float
    ) -> HangVerdict:
        """Return the verdict of this moment; `statuses` has how ranks have ended that have."""
        if self._tells_slowest and self._slowest_from_s == NEVER:
            self._slowest_from_s = now_s + SLOWEST_FROM_S
        self._now_s = now_s
        seen = [
            self._see(rank, statuses.get(rank, "running"), errors.get(rank, ""), now_s)
            for rank in self._ranks
        ]
        verdict = judge(seen, self._roster.look_interval_s)
        is_settled = self._watch_missing(seen, now_s)
        if verdict.wants_stacks:
            busy_s = max(rank.busy_s for rank in seen)
            self._ask(verdict.wants_stacks, bool(verdict.text), busy_s, now_s)
        if verdict.text and not is_settled and not self._has_spoken:
            return HangVerdict()
        self._has_spoken = bool(verdict.text)
        if now_s >= self._slowest_from_s:
            slowest = self._find_slowest(seen, now_s)
            if slowest and not verdict.text:
                return replace(verdict, kind="straggler", text=slowest)
        return self._with_testimony(verdict, now_s)

    def _find_slowest(self, seen: Sequence[RankSnapshot], now_s: float) -> str:
        if self._slowest is None:
            self._slowest = SlowestWatch()
        self._slowest.take(seen, now_s)
        return self._slowest.text

    def _with_testimony(self, verdict: HangVerdict, now_s: float) -> HangVerdict:
        """Add what NCCL says to a verdict; it is not asked while nothing is odd."""
        said = self._witness.testify(now_s) if self._witness is not None and verdict.text else ""
        return replace(verdict, text=f"{verdict.text}; {said}") if said else verdict

    def _see(self, rank: int, status: str, error: str, now_s: float) -> RankSnapshot:
        engine, look = self._roster[rank], self._looks[rank]
        sample, collective = engine.sample, engine.collective
        is_running = status == "running"
        look.take_state(sample.state if sample is not None and is_running else "", now_s)
        is_old = now_s - look.stack_until_s > MOST_ASK_INTERVAL_S + ASK_TIMEOUT_S
        if not is_running or is_old or (collective is not None and collective.is_running):
            look.forget_stack()
        return RankSnapshot(
            rank=rank,
            host=engine.info.host,
            pid=engine.pid,
            status=status,
            error=error,
            collective=collective,
            busy_s=now_s - engine.busy_since_s if engine.state is EngineState.BUSY else 0.0,
            asks=engine.asks if is_running else "",
            stopped_at=engine.stopped_at if is_running else "",
            task=engine.task if is_running else "",
            task_s=now_s - engine.task_since_s if engine.task else 0.0,
            stack=look.stack,
            stack_s=look.stack_until_s - look.stack_since_s if look.stack else 0.0,
            is_unresponsive=look.is_unresponsive,
            process_state=look.process_state,
            process_state_s=now_s - look.state_since_s if look.process_state else 0.0,
            cpu_percent=sample.cpu_percent if sample is not None else 0.0,
            major_faults_per_s=sample.major_faults_per_s if sample is not None else 0.0,
            silence_s=engine.beat_age_s if engine.is_present else 0.0,
        )

    def _watch_missing(self, seen: Sequence[RankSnapshot], now_s: float) -> bool:
        """Return whether it is certain by now that someone is missing in a call, if anybody is."""
        missing = {(wait.call, rank) for wait in find_waits(seen) for rank in wait.missing}
        self._missing_since_s = {key: self._missing_since_s.get(key, now_s) for key in missing}
        since_s = self._missing_since_s.values()
        settled_s = SETTLED_LOOKS * self._roster.look_interval_s
        return not missing or now_s - min(since_s) >= settled_s

    # --- stacks ---

    def _ask(self, ranks: tuple[int, ...], is_odd: bool, busy_s: float, now_s: float) -> None:
        """Ask ranks for their stacks, one question at a time."""
        if self._is_asking or now_s < self._next_ask_s:
            return
        rarely_s = min(max(ASK_INTERVAL_S, busy_s / 10), MOST_ASK_INTERVAL_S)
        self._next_ask_s = now_s + (ASK_INTERVAL_S if is_odd else rarely_s)
        self._is_asking = True
        take = partial(self._take_stacks, ranks)
        self._queries.ask(ranks, ReadStacks(), ASK_TIMEOUT_S, now_s, take)

    def _take_stacks(self, ranks: Sequence[int], found: Answers) -> None:
        self._is_asking = False
        for rank in ranks:
            look, answer = self._looks[rank], found.answers.get(rank)
            if isinstance(answer, RankStacks):
                main = answer.main
                # Who was looked at from outside has not answered itself.
                runs = answer.process_state in ("", "R", "S")
                frames = main.frames if main is not None else ()
                look.take_stack(frames, answer.source != "python" and runs, self._now_s)
            elif rank in found.problems:
                look.take_stack((), look.process_state in ("R", "S"), self._now_s)
