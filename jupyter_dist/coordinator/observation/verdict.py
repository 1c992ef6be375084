"""Who waits for whom, and why: one sentence from what was seen of the ranks. Pure."""

from collections.abc import Sequence

import msgspec

from jupyter_dist.coordinator.observation.activity import (
    Activity,
    Kind,
    find_doing,
    find_place,
    find_sitting,
    find_trouble,
)
from jupyter_dist.coordinator.observation.rank_snapshot import RankSnapshot
from jupyter_dist.coordinator.observation.verdict_text import (
    tell_asking,
    tell_computing,
    tell_doing,
    tell_held,
    tell_missing,
    tell_others,
    tell_silent,
    tell_sitting,
    tell_tasks,
    tell_under_way,
    tell_waiting,
)
from jupyter_dist.coordinator.observation.wait_graph import Wait, find_hopeless, find_waits
from jupyter_dist.model.hosts.looks import LOOK_INTERVAL_S
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.records import find_framework
from jupyter_dist.text.lists import group_pairs

PATIENCE_S = 3.0
"""How long ranks may disagree before it is worth a sentence."""
SLOW_S = 10.0
"""How long something that may well be in order may take before it is worth one."""
SETTLED_LOOKS = 2
"""Hosts are looked at one after the other, so ranks in different calls may still meet."""
_MOST_ASKED = 64
_MOST_TOLD = 6
"""A sentence about more calls than this helps nobody."""
_RELEASES = "■ releases them"
_NO_HANG = "no hang as far as can be seen"


class HangVerdict(msgspec.Struct, frozen=True):
    """What is the matter with a running cell; an empty text: nothing that is worth a word."""

    kind: str = ""
    """hang (it will not end on its own), straggler (someone still computes), stuck (a rank does
    not move on, for a reason outside its code), held (one is in a debugger), unsure, or empty."""
    text: str = ""
    """One sentence."""
    wants_stacks: tuple[int, ...] = ()
    """Ranks whose stack would tell more."""


def judge(ranks: Sequence[RankSnapshot], look_interval_s: float = LOOK_INTERVAL_S) -> HangVerdict:
    """Return who waits for whom, and whether that can end on its own.

    What is known of two ranks can be `look_interval_s` apart.
    """
    settled_s = SETTLED_LOOKS * look_interval_s
    if not any(rank.is_running for rank in ranks):
        return HangVerdict()
    waits = find_waits(ranks)
    if any(rank.is_running and rank.stopped_at for rank in ranks):
        return HangVerdict("held", "; ".join(tell_held(waits, ranks)))
    odd = [wait for wait in waits if wait.missing]
    if _is_worth_a_word(odd, settled_s):
        return _judge_waits(odd, ranks)
    looks = (_judge_outside, _judge_input, _judge_tasks, _judge_whole, _judge_sitting, _judge_alone)
    for look in looks:
        verdict = look(waits, ranks)
        if verdict.text:
            break
    early = {n for wait in odd if wait.seconds >= settled_s for n in wait.missing}
    busy = {rank.rank for rank in ranks if rank.busy_s >= PATIENCE_S}
    return msgspec.structs.replace(verdict, wants_stacks=_curious(ranks, early | busy))


def _is_worth_a_word(odd: Sequence[Wait], settled_s: float) -> bool:
    """Return whether these calls, to which some have not come, have lasted for long enough."""
    elsewhere = {number for wait in odd for number in wait.missing}
    # Two ranks in different calls may just have been looked at one after the other.
    crossing = [wait for wait in odd if elsewhere.intersection(wait.numbers)]
    if any(view.seconds < settled_s for wait in crossing for view in wait.views):
        return False
    # Who has left a call early may do so: what it sent is on its way.
    return any(wait.seconds >= (PATIENCE_S if wait.needed else SLOW_S) for wait in odd)


def _judge_waits(odd: Sequence[Wait], ranks: Sequence[RankSnapshot]) -> HangVerdict:
    """Return who waits in which call, and what those do that they wait for."""
    by_rank = {rank.rank: rank for rank in ranks}
    listed = {number for wait in odd for number in wait.numbers}
    needed = {number for wait in odd for number in wait.missing}
    clauses: list[str] = []
    last_group: list[Wait] = []
    shown, others = odd[:_MOST_TOLD], odd[_MOST_TOLD:]
    for wait, following in zip(shown, [*shown[1:], None], strict=True):
        last_group.append(wait)
        clauses.append(tell_waiting(wait, shown))
        if following is None or following.call.group != wait.call.group:
            clauses += tell_missing(last_group, listed, by_rank)
            last_group = []
    clauses += tell_others(others)
    clauses += tell_under_way([wait for wait in odd if wait.seconds >= PATIENCE_S], odd, by_rank)
    hopeless, circle = find_hopeless(odd, ranks)
    if len(circle) > 1:
        clauses.append(f"{name_ranks(circle)} wait for each other")
    clauses += tell_silent(ranks)
    inside = [by_rank[number] for number in sorted(listed) if by_rank[number].is_running]
    troubled = _trouble_of(inside)
    clauses += tell_doing(troubled)
    passed = {number for wait in odd for number in wait.passed}
    late = (n for n in needed - listed - passed if _is_seen_running(n, by_rank))
    doings = [*(find_doing(by_rank[n]) for n in late), *(doing for _rank, doing in troubled)]
    doings += [Activity("straggler") for wait in odd if wait.computing and not wait.needed]
    kind = _worst(doings, bool(hopeless), any(rank.is_silent for rank in ranks))
    text = "; ".join(clauses)
    if kind == "hang":
        text = f"{text}; {_RELEASES}"
    elif kind == "straggler":
        text = f"{text}; {_NO_HANG}"
    return HangVerdict(kind, text, _curious(ranks, needed))


def _is_seen_running(number: int, by_rank: dict[int, RankSnapshot]) -> bool:
    rank = by_rank.get(number)
    return rank is not None and rank.is_running and not rank.is_silent


def _trouble_of(ranks: Sequence[RankSnapshot]) -> list[tuple[RankSnapshot, Activity]]:
    found = ((rank, find_trouble(rank)) for rank in ranks if not rank.is_silent)
    return [(rank, doing) for rank, doing in found if doing is not None]


def _worst(doings: Sequence[Activity], is_hopeless: bool, is_cut: bool) -> Kind:
    kinds = {doing.kind for doing in doings}
    if is_hopeless or "hang" in kinds:
        return "hang"
    if is_cut or "stuck" in kinds:
        return "stuck"
    return "straggler" if kinds == {"straggler"} else "unsure"


# --- where no collective tells that something is odd ---


def _conclude(kind: Kind, clauses: Sequence[str]) -> HangVerdict:
    """Return a verdict of these clauses; a straggler is said to be no hang."""
    hope = [_NO_HANG] if kind == "straggler" else []
    return HangVerdict(kind, "; ".join([*clauses, *hope]))


def _judge_outside(waits: Sequence[Wait], ranks: Sequence[RankSnapshot]) -> HangVerdict:
    """Tell of hosts that are cut off, and of processes that cannot go on."""
    troubled = [
        (rank, doing)
        for rank, doing in _trouble_of([rank for rank in ranks if rank.is_running])
        if rank.is_stopped or (rank.process_state == "D" and rank.process_state_s >= SLOW_S)
    ]
    numbers = {rank.rank for rank, _doing in troubled}
    held = [wait for wait in waits if numbers.intersection(wait.numbers)]
    clauses = [tell_waiting(wait, held) for wait in held if wait.seconds >= PATIENCE_S]
    clauses += [*tell_silent(ranks), *tell_doing(troubled)]
    return _conclude("stuck", clauses) if clauses else HangVerdict()


def _judge_input(waits: Sequence[Wait], ranks: Sequence[RankSnapshot]) -> HangVerdict:
    """Tell of ranks that wait for a person, at once: it is not seen that they are busy."""
    del waits
    asking = [rank for rank in ranks if rank.is_running and rank.asks]
    return _conclude("unsure", tell_asking(asking)) if asking else HangVerdict()


def _judge_tasks(waits: Sequence[Wait], ranks: Sequence[RankSnapshot]) -> HangVerdict:
    """Tell of ranks that have not begun the cell, because they run a task of ipyparallel."""
    del waits
    late = [rank for rank in ranks if rank.is_running and rank.task and rank.busy_s >= PATIENCE_S]
    return _conclude("straggler", tell_tasks(late)) if late else HangVerdict()


def _judge_whole(waits: Sequence[Wait], ranks: Sequence[RankSnapshot]) -> HangVerdict:
    """Tell of calls that everybody has come to and that do not end."""
    whole = [wait for wait in waits if not wait.missing]
    slow = [wait for wait in whole if min(view.seconds for view in wait.views) >= SLOW_S]
    computing = [wait for wait in slow if wait.computing]
    if not slow or computing:
        some = [wait for wait in computing if len(wait.computing) < len(wait.ranks)]
        clauses = [tell_computing(wait) for wait in some]
        return _conclude("straggler", clauses) if clauses else HangVerdict()
    by_rank = {rank.rank: rank for rank in ranks}
    clauses = [tell_waiting(wait, slow) for wait in slow]
    may_compute = any(find_framework(wait.call.group) for wait in slow)
    why = "computes, is slow" if may_compute else "is slow"
    clauses.append(f"all have come, so it {why}, or their network is cut")
    troubled = _trouble_of([by_rank[number] for wait in slow for number in wait.numbers])
    clauses += tell_doing(troubled)
    return _conclude("stuck" if troubled else "unsure", clauses)


def _judge_sitting(waits: Sequence[Wait], ranks: Sequence[RankSnapshot]) -> HangVerdict:
    """Tell of ranks in a framework's call that others are not in: it may be a collective."""
    del waits
    still = [rank for rank in ranks if rank.stack_s >= PATIENCE_S and rank.inside is None]
    by_name = group_pairs(
        (sitting.name, rank) for rank in still if (sitting := find_sitting(rank)) is not None
    )
    if not by_name:
        return HangVerdict()
    most = max(by_name.values(), key=len)
    others = [rank for rank in ranks if rank not in most]
    is_known = all(not rank.is_running or rank.stack or rank.is_unresponsive for rank in others)
    sitting = find_sitting(most[0])
    assert sitting is not None
    is_left_alone = (
        sitting.needs_others
        and all(rank.is_idle for rank in most)
        and not any(rank.is_running for rank in others)
    )
    are_most = 2 * len(most) >= len(ranks)
    if not others or not is_known or not (are_most or is_left_alone):
        return HangVerdict()
    has_ended = any(not rank.is_running for rank in others)
    doings = [(rank, find_doing(rank)) for rank in others if rank.is_running]
    kind = _worst(
        [*(doing for _rank, doing in doings), *[Activity("unsure")] * has_ended], False, False
    )
    is_usual = kind == "straggler" and not sitting.is_init
    if is_usual and min(rank.stack_s for rank in most) < SLOW_S:
        return HangVerdict()
    return _conclude(kind, tell_sitting(most, others))


def _judge_alone(waits: Sequence[Wait], ranks: Sequence[RankSnapshot]) -> HangVerdict:
    """Tell of ranks that wait for something although nobody waits for them."""
    del waits
    found: list[tuple[RankSnapshot, Activity]] = []
    for rank in ranks:
        if not rank.is_running or rank.inside is not None or not rank.stack:
            continue
        doing = find_doing(rank)
        is_sure = doing.kind in ("hang", "stuck") and rank.stack_s >= PATIENCE_S
        place = find_place(rank)
        waits_long = place is not None and place.is_suspicious and rank.stack_s >= SLOW_S
        if (is_sure or waits_long) and find_trouble(rank) is None:
            found.append((rank, doing))
    if not found:
        return HangVerdict()
    kind = _worst([doing for _rank, doing in found], False, False)
    seconds = min(rank.stack_s for rank, _doing in found)
    clauses = [f"{clause}, for {seconds:.0f} s" for clause in tell_doing(found)]
    return HangVerdict(kind, "; ".join([*clauses, "■ ends that"] if kind == "hang" else clauses))


def _curious(ranks: Sequence[RankSnapshot], about: set[int]) -> tuple[int, ...]:
    """Choose those of these ranks whose stack would tell more; of very many some will do."""
    wanted = [
        rank.rank
        for rank in ranks
        if rank.rank in about
        and rank.is_running
        and rank.inside is None
        and not rank.task
        and not rank.is_silent
        and not rank.is_stopped
    ]
    return tuple(sorted(wanted)[:_MOST_ASKED])
