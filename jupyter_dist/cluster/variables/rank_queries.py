"""Questions that ranks answer while they run cells: what they have, and what they are doing."""

from collections.abc import Iterable, Sequence
from time import monotonic

from msgspec.structs import replace

from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.cluster.spec.checks import WantedRanks
from jupyter_dist.cluster.variables.names_table import NamesTable, tabulate_names
from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.model.ranks.crashes.crash import CrashReport, list_outlooks
from jupyter_dist.model.ranks.stack_reading import group_stacks
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.model.ranks.variable_facts import RankNames
from jupyter_dist.protocol.messages import (
    About,
    Answer,
    AskRanks,
    CompleteCode,
    Completions,
    Explain,
    Explained,
    Inspection,
    InspectName,
    ListNames,
    NoAnswer,
    RanksAnswered,
    ReadStacks,
)
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import fit

NAMES_TIMEOUT_S = 2.0
STACKS_TIMEOUT_S = 2.0
NATIVE_STACKS_TIMEOUT_S = 12.0
"""py-spy reads the symbols of every library first."""
TYPING_TIMEOUT_S = 0.5
"""Nobody who types waits longer for a completion."""
COORDINATOR_TIMEOUT_S = 10.0
"""On top of the time that ranks have; the coordinator answers when that is over."""


class Stacks(dict[int, RankStacks]):
    """What each rank was doing; `str()` groups ranks with identical stacks."""

    def __str__(self) -> str:
        lines: list[str] = []
        for group in group_stacks(self):
            lines.append(f"{name_ranks(group.ranks)}{group.words and f' ({group.words})'}")
            lines += [f"  {frame}" for frame in group.frames]
        return "\n".join(lines)


def ask_each(line: Connection, about: About, ranks: WantedRanks, timeout_s: float) -> RanksAnswered:
    """Ask ranks, busy or not; what ranks refuse to say is among the answers."""
    request = AskRanks(line.new_request_id(), about, ranks, timeout_s)
    patience_s = timeout_s + COORDINATOR_TIMEOUT_S
    answered, _ = line.ask(request, RanksAnswered, timeout_s=patience_s)
    return answered


def ask_ranks(
    line: Connection, about: About, ranks: WantedRanks, timeout_s: float
) -> tuple[dict[int, Answer], dict[int, str]]:
    """Ask ranks, busy or not; give answers, and of the ranks without one the reasons."""
    answered = ask_each(line, about, ranks, timeout_s)
    answers: dict[int, Answer] = {}
    problems = dict(answered.problems)
    for rank, answer in sorted(answered.answers.items()):
        if isinstance(answer, NoAnswer):
            problems[rank] = answer.reason
        else:
            answers[rank] = answer
    return answers, problems


def ask_who(
    line: Connection, patterns: str | Iterable[str], ranks: WantedRanks, largest: int | None = None
) -> NamesTable:
    """List variables (of each rank the `largest`); who does not answer is named in the notes."""
    wanted = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    if not all(isinstance(pattern, str) and pattern for pattern in wanted):
        raise UsageError(f"patterns {patterns!r} are not accepted: give names, as loss or w*.")
    answers, problems = ask_ranks(line, ListNames(wanted), ranks, NAMES_TIMEOUT_S)
    found = {rank: names for rank, names in answers.items() if isinstance(names, RankNames)}
    if largest is not None:
        found = {rank: _keep_largest(names, largest) for rank, names in found.items()}
    return tabulate_names(found, problems)


def _keep_largest(own: RankNames, count: int) -> RankNames:
    ordered = sorted(own.names, key=lambda info: -info.nbytes)
    left_out = max(0, len(ordered) - count)
    return replace(own, names=tuple(ordered[:count]), omitted=own.omitted + left_out)


def ask_stacks(line: Connection, ranks: WantedRanks, *, is_native: bool) -> Stacks:
    """Read stacks; of a rank whose stack could not be read, the reason is its note."""
    timeout_s = NATIVE_STACKS_TIMEOUT_S if is_native else STACKS_TIMEOUT_S
    answers, problems = ask_ranks(line, ReadStacks(is_native), ranks, timeout_s)
    found = {rank: seen for rank, seen in answers.items() if isinstance(seen, RankStacks)}
    found |= {rank: RankStacks("none", note=reason) for rank, reason in problems.items()}
    return Stacks(sorted(found.items()))


def ask_completions(line: Connection, code: str, cursor: int, rank: int) -> Completions:
    """Ask what can follow; nothing, when the rank has not answered in time."""
    found = _ask_in_time(line, CompleteCode(code, cursor), rank)
    return found if isinstance(found, Completions) else Completions((), cursor, cursor)


def ask_inspection(line: Connection, name: str, rank: int, detail: int) -> dict[str, str]:
    """Ask what an object is; empty when there is none, or no answer in time."""
    found = _ask_in_time(line, InspectName(name, detail), rank)
    return dict(found.data) if isinstance(found, Inspection) else {}


def _ask_in_time(line: Connection, about: About, rank: int) -> Answer | None:
    deadline_s = monotonic() + TYPING_TIMEOUT_S
    if not line.lock.acquire(timeout=TYPING_TIMEOUT_S):
        return None  # another thread waits for an answer
    try:
        left_s = max(0.0, deadline_s - monotonic())
        request = AskRanks(line.new_request_id(), about, (rank,), left_s)
        answered, _ = line.ask(request, RanksAnswered, timeout_s=left_s)
    except DistError:  # nobody has answered in time, or the coordinator has too many questions
        return None
    finally:
        line.lock.release()
    return answered.answers.get(rank)


def ask_explanation(line: Connection, world_size: int) -> str:
    """Return what is the matter with the running cell and lost ranks, as lines of text."""
    request = Explain(line.new_request_id())
    explained, _ = line.ask(request, Explained, timeout_s=COORDINATOR_TIMEOUT_S)
    crashes = explained.crashes
    if explained.verdict:
        cell = f"{explained.cell}: {explained.verdict}" if explained.cell else explained.verdict
    elif explained.cell:
        cell = f"{explained.cell} runs; nothing is odd about it"
    else:
        cell = "no cell runs" if crashes else "no cell runs, and nothing is odd"
    # Without a cell a verdict says why what was to be done on its own has not been done.
    is_refuted = bool(explained.verdict) and not explained.cell
    ways = _ways_out(crashes, world_size, () if is_refuted else list_outlooks(crashes))
    return "\n".join([cell, *_how_lost(crashes), *ways])


def _how_lost(crashes: Sequence[CrashReport]) -> list[str]:
    ends = group_pairs((crash.reason, crash.rank) for crash in crashes)
    return [
        f"{name_ranks(ranks)} {fit(ranks, 'is', 'are')} lost: {reason}"
        for reason, ranks in ends.items()
    ]


def _ways_out(
    crashes: Sequence[CrashReport], world_size: int, outlooks: Sequence[str]
) -> list[str]:
    lost = {crash.rank for crash in crashes}
    if not lost:
        return []
    if outlooks:
        return ["; ".join(outlooks)]
    them = fit(lost, "it", "them")
    ways = [f"%dist_heal replaces {them}"]
    living = [rank for rank in range(world_size) if rank not in lost]
    if living:
        ways.append(f"%dist_shrink goes on without {them}")
        ways.append(f"%%spmd --ranks {format_ranks(living)} runs a cell on the others")
    return ["; ".join(ways)]
