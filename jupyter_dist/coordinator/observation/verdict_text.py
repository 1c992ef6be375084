"""The clauses of a verdict: who waits in what, who does not come, and what they do instead."""

from collections.abc import Iterable, Mapping, Sequence

from jupyter_dist.coordinator.observation.activity import (
    Activity,
    describe_asking,
    describe_task,
    find_doing,
    find_sitting,
)
from jupyter_dist.coordinator.observation.rank_snapshot import SILENCE_S, RankSnapshot
from jupyter_dist.coordinator.observation.wait_graph import Wait
from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.model.hosts.topology import CollectiveView
from jupyter_dist.model.ranks.records import MESSAGES, find_framework, is_symmetric, tell_group
from jupyter_dist.text.lists import cut, group_pairs, name_some
from jupyter_dist.text.plurals import agree, count_of, escape, fit

_MOST_ERROR = 120
_ENDINGS = {
    "ok": "finished the cell",
    "lost": "{be} lost",
    "interrupted": "{was} interrupted",
    "peer_failed": "left it because another rank failed",
    "timed_out": "ran out of time",
    "unresponsive": "{has} not answered the interrupt",
}
_NOT_YET = {"send": "{has} not received it yet", "recv": "{has} not sent it yet"}
_NEVER = {
    "send": "never received it",
    "recv": "never sent it",
    "send_recv": "never came to it",
}


def tell_waiting(wait: Wait, waits: Sequence[Wait]) -> str:
    """Return who waits in a call, where, and for how long."""
    return f"{_tell_inside(wait, waits)} for {wait.seconds:.0f} s"


def tell_held(waits: Sequence[Wait], ranks: Sequence[RankSnapshot]) -> list[str]:
    """Return which ranks are in a debugger, and who waits for them."""
    stopped = {rank.rank: rank for rank in ranks if rank.is_running and rank.stopped_at}
    by_rank = {rank.rank: rank for rank in ranks}
    listed = {number for wait in waits for number in wait.numbers}
    told: list[str] = []
    named: set[int] = set()
    for wait in (wait for wait in waits if wait.missing):
        late = {number: stopped[number] for number in sorted(wait.missing & stopped.keys())}
        text = _tell_inside(wait, waits)
        if late:
            whom = name_ranks(late)
            where = "" if named & late.keys() else _tell_stops(late.values())
            named |= late.keys()
            told.append(f"{text} for {whom}, which {fit(late, 'is', 'are')} in the debugger{where}")
        else:
            told += [tell_waiting(wait, waits), *tell_missing([wait], listed, by_rank)]
    if others := [rank for number, rank in stopped.items() if number not in named]:
        told.append(_agree(f"{{be}} in the debugger{escape(_tell_stops(others))}", others))
    return told + tell_silent(ranks)


def _tell_stops(ranks: Iterable[RankSnapshot]) -> str:
    """Return where ranks are stopped, if that is one place."""
    places = {rank.stopped_at for rank in ranks}
    return f" at {places.pop()}" if len(places) == 1 else ""


def _tell_inside(wait: Wait, waits: Sequence[Wait]) -> str:
    """Return who waits in a call, and where."""
    call, views = wait.call, wait.views
    sites = [view.site for view in views if view.site]
    where = f" ({sites[0]})" if sites else ""
    number = f" #{call.sequence}" if call.sequence else ""
    if wait.computing:
        verb = "compute{s}" if len(wait.computing) == len(wait.ranks) else "{be}"
    else:
        verb = "wait{s}"
    doing = agree(f"{verb} in", len(wait.ranks))
    what = f"{_name(wait, waits)}{number}{tell_group(call.group)}{where}"
    return f"{name_ranks(wait.numbers)} {doing} {what}"


def tell_computing(wait: Wait) -> str:
    """Return who waits in a call that others are in too, and compute there."""
    idle = [rank for rank in wait.ranks if rank.rank not in wait.computing]
    waiting = tell_waiting(Wait(wait.call, idle), ())
    verb = fit(wait.computing, "computes", "compute")
    return f"{waiting}; {name_ranks(wait.computing)} still {verb} in it"


def tell_others(waits: Sequence[Wait]) -> list[str]:
    """Return how many wait in calls that are not told of one by one."""
    ranks = [rank for wait in waits for rank in wait.ranks]
    waiting = f"{count_of(len(ranks), 'more rank')} {fit(ranks, 'waits', 'wait')}"
    return [f"{waiting} in other calls"] * bool(waits)


def _name(wait: Wait, waits: Sequence[Wait]) -> str:
    """Name a call by its operation; with what was given to it where only that differs."""
    call = wait.call
    rivals = (other.call for other in waits if other is not wait)
    is_shared = any(other[:3] == call[:3] for other in rivals)
    if call.arguments and (is_shared or call.operation in MESSAGES):
        return f"{call.operation}({call.arguments})"
    return call.operation


def tell_missing(
    waits: Sequence[Wait], listed: set[int], by_rank: Mapping[int, RankSnapshot]
) -> list[str]:
    """Return what those do that the calls of one communicator wait for, if they wait in none."""
    clauses: dict[str, list[RankSnapshot]] = {}
    running: dict[tuple[str, Activity], list[RankSnapshot]] = {}
    absent: set[int] = set()
    for wait in waits:
        for number in sorted(wait.missing - listed):
            rank = by_rank.get(number)
            if rank is None:
                absent.add(number)
            elif rank.is_silent:
                continue  # that is told of its host
            elif rank.is_running:
                key = (_tell_late(wait, number), find_doing(rank))
                _add(running.setdefault(key, []), rank)
            else:
                _add(clauses.setdefault(_tell_end(wait, rank), []), rank)
    told = []
    for (late, doing), ranks in running.items():
        text = _agree(late, ranks)
        doings = tell_doing([(rank, doing) for rank in ranks], is_named=False)
        told.append(f"{text}: {doings[0]}" if doings else text)
    told += [_agree(clause, ranks) for clause, ranks in clauses.items()]
    if absent:
        verb = fit(absent, "does", "do")
        told.append(f"{name_ranks(absent)} {verb} not run this cell")
    return told


def tell_under_way(
    waits: Sequence[Wait], others: Sequence[Wait], by_rank: Mapping[int, RankSnapshot]
) -> list[str]:
    """Return who has not received what ranks sent before they left a call, and over which network.

    All have come to such a call, so nothing but the way between them can be missing.
    """
    told = []
    for wait in waits:
        senders = [by_rank[number] for number in sorted(wait.passed) if number in by_rank]
        if wait.missing != wait.passed or not _is_under_way(wait, senders):
            continue
        call = f"{wait.call.operation} #{wait.call.sequence}"
        lacks = zip(wait.ranks, wait.views, strict=True)
        known = [
            (by_rank[sender], each)
            for each, view in lacks
            for sender in view.awaits
            if sender in wait.passed and sender in by_rank
        ]
        pairs = known or [(sender, each) for sender in senders for each in wait.ranks]
        sent_by = name_ranks({sender.rank for sender, _ in pairs})
        waiting = name_ranks(wait.numbers)
        waiters = {n for other in others if other.needed & set(wait.numbers) for n in other.numbers}
        if waiters & wait.passed:
            verb = agree("wait{s}", len(waiters & wait.passed))
            told.append(f"{name_ranks(waiters & wait.passed)} {verb} for {waiting}")
        verb = agree("wait{s}", len(wait.ranks))
        told.append(
            f"{waiting} {verb} for data of {call} that {sent_by} sent before leaving it"
            f"{_blame_network(pairs)}"
        )
    return told


def _is_under_way(wait: Wait, senders: Sequence[RankSnapshot]) -> bool:
    """Return whether these ranks have surely done their part of a call, and others wait for it."""
    call = wait.call
    if find_framework(call.group) or not is_symmetric(call.operation, call.group) or not senders:
        return False
    if any(rank.is_silent or rank.is_stopped for rank in (*senders, *wait.ranks)):
        return False  # that is told, and reason enough
    lasts = [rank.collective for rank in senders]
    counted = (call.group, "object" in call.operation)
    have_left = all(last and (last.group, "object" in last.operation) == counted for last in lasts)
    return have_left and all(rank.is_idle for rank in wait.ranks)


def _blame_network(pairs: Sequence[tuple[RankSnapshot, RankSnapshot]]) -> str:
    """Name the network by the hosts of senders and takers, as far as data may be missing there."""
    ways = {(sender.host, taker.host) for sender, taker in pairs}
    across = sorted(way for way in ways if way[0] != way[1])
    if not across:
        return ""
    ends = sorted({host for way in across for host in way})
    where = f"between {' and '.join(ends)}" if len(ends) == 2 else f"of {name_some(ends)}"
    if len(ways) == 1:
        where = f"from {across[0][0]} to {across[0][1]}"
    return f", so the network {where} is slow, or does not deliver"


def _add(ranks: list[RankSnapshot], rank: RankSnapshot) -> None:
    if rank not in ranks:
        ranks.append(rank)


def _tell_late(wait: Wait, number: int) -> str:
    if number in wait.passed:
        return "{has} already left it"
    if number in wait.unclear:
        return "{be} not in it"
    if wait.call.operation in MESSAGES:
        return _NOT_YET.get(wait.call.operation, "{be} not in it")
    return "{has} not called it yet"


def _tell_end(wait: Wait, rank: RankSnapshot) -> str:
    """Return how a rank has ended the cell that others wait for."""
    if rank.status != "ok" or rank.rank in wait.passed:
        return _tell_own_end(rank)
    how = f"ended by {escape(rank.error)}" if rank.error else "finished the cell"
    ended = f"{how} and {_NEVER.get(wait.call.operation, 'never called it')}"
    last = rank.collective
    if last is None or not last.site or last.is_earlier or wait.call.operation in MESSAGES:
        return ended
    return f"{ended} ({{its}} last call was {escape(_name_call(last))})"


def _name_call(view: CollectiveView) -> str:
    return f"{view.operation} #{view.sequence}{tell_group(view.group)}, {view.site}"


def _tell_own_end(rank: RankSnapshot) -> str:
    if rank.status == "raised":
        error = cut(" ".join(rank.error.split()), _MOST_ERROR) or "an error"
        return f"raised {escape(error)}"
    return _ENDINGS.get(rank.status, f"ended ({escape(rank.status)})")


def _agree(clause: str, ranks: Sequence[RankSnapshot]) -> str:
    """Put the ranks before a clause."""
    return f"{name_ranks(rank.rank for rank in ranks)} {agree(clause, len(ranks))}"


def tell_doing(doings: Iterable[tuple[RankSnapshot, Activity]], is_named: bool = True) -> list[str]:
    """Return what ranks do, those together that do the same; nothing where that is not known."""
    groups = group_pairs((doing, rank) for rank, doing in doings if doing.clause)
    told = []
    for doing, ranks in groups.items():
        text = doing.say(len(ranks)) + _remedy(doing, ranks)
        who = name_ranks(rank.rank for rank in ranks)
        verb = fit(ranks, "does", "do")
        told.append(f"{who} {verb} not go on: {text}" if is_named else text)
    return told


def tell_asking(ranks: Sequence[RankSnapshot]) -> list[str]:
    """Return which rank waits for a person, and then which ones come after it."""
    groups = group_pairs((describe_asking(rank), rank) for rank in ranks)
    return [_agree(asking, groups[asking]) for asking in sorted(groups)]


def tell_tasks(ranks: Sequence[RankSnapshot]) -> list[str]:
    """Return which ranks run tasks before the cell, those together that run the same."""
    groups = group_pairs((describe_task(rank), rank) for rank in ranks)
    return [_agree(task, members) for task, members in groups.items()]


def _remedy(doing: Activity, ranks: Sequence[RankSnapshot]) -> str:
    """Return how stopped processes are let go on."""
    pids = " ".join(str(rank.pid) for rank in ranks if rank.pid)
    if not doing.is_stopped or not pids:
        return ""
    hosts = sorted({rank.host for rank in ranks if rank.host})
    where = f" on {hosts[0]}" if len(hosts) == 1 else ""
    return f" (`kill -CONT {pids}`{where} lets {fit(ranks, 'it', 'them')} go on)"


def tell_silent(ranks: Sequence[RankSnapshot]) -> list[str]:
    """Return which hosts or ranks have not been heard for long."""
    told = []
    hosts: dict[str, list[RankSnapshot]] = {}
    for rank in ranks:
        hosts.setdefault(rank.host, []).append(rank)
    for host, members in hosts.items():
        silent = [rank for rank in members if rank.is_silent]
        if not silent:
            continue
        seconds = min(rank.silence_s for rank in silent)
        who = name_ranks(rank.rank for rank in silent)
        heard = [r for r in members if r.status != "lost" and r.silence_s < SILENCE_S]
        if host and not heard:
            told.append(f"host {host} has not been heard for {seconds:.0f} s ({who})")
        else:
            verb = fit(silent, "has", "have")
            told.append(f"{who} {verb} not been heard for {seconds:.0f} s")
    return told


def tell_sitting(most: Sequence[RankSnapshot], others: Sequence[RankSnapshot]) -> list[str]:
    """Return who sits in a framework's call, and what the others do."""
    sitting = find_sitting(most[0])
    assert sitting is not None
    seconds = min(rank.stack_s for rank in most)
    who, is_one = name_ranks(rank.rank for rank in most), len(most) == 1
    what = f"in {sitting.name} at {sitting.where}"
    if sitting.is_init:
        what = f"forming a communicator at {sitting.where} ({sitting.name})"
    told = [f"{who} {'is' if is_one else 'are'} {what} for {seconds:.0f} s"]
    running = group_pairs((find_doing(rank), rank) for rank in others if rank.is_running)
    ended = group_pairs((_tell_own_end(rank), rank) for rank in others if not rank.is_running)
    for doing, ranks in running.items():
        text = _agree("{be} elsewhere", ranks)
        told.append(f"{text}: {doing.say(len(ranks))}{_remedy(doing, ranks)}")
    told += [_agree(clause, ranks) for clause, ranks in ended.items()]
    if ended:
        told.append(_tell_way_out(most))
    return told


def _tell_way_out(sitting: Sequence[RankSnapshot]) -> str:
    """Return how ranks come out of a framework's call, which waits outside Python."""
    ranks = format_ranks(rank.rank for rank in sitting)
    if len(sitting) == 1:
        return (
            f"■ may not reach it; %dist_heal --ranks {ranks} replaces it if it stays unresponsive"
        )
    return f"■ may not reach them; %dist_heal --ranks {ranks} replaces those that stay unresponsive"
