"""Which collectives ranks sit in, whom each of them waits for, and who can never go on. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jupyter_dist.coordinator.observation.rank_snapshot import RankSnapshot
from jupyter_dist.model.hosts.topology import CollectiveView
from jupyter_dist.model.ranks.records import (
    MESSAGES,
    CallRecord,
    find_framework,
    group_ranks,
    is_symmetric,
)

_BOTH_WAYS = ("send_recv", "group")


class Call(NamedTuple):
    """What ranks must agree on to be in the same call."""

    group: str
    sequence: int
    """0 for messages: their numbers mean nothing to other ranks."""
    operation: str
    arguments: str


@dataclass
class Wait:
    """Ranks that sit in one call, and those of its communicator that do not."""

    call: Call
    ranks: list[RankSnapshot]
    missing: set[int] = field(default_factory=set)
    """Those that it waits for, as far as that can be told."""
    passed: set[int] = field(default_factory=set)
    """Of the missing, those that have left it, or have ended and may have been in it."""
    unclear: set[int] = field(default_factory=set)
    """Of the missing, those that run and may have been in it."""
    computing: set[int] = field(default_factory=set)
    """Of those in it, the ones that compute: a framework's call may do both in one."""

    @property
    def numbers(self) -> list[int]:
        """The ranks that sit in it."""
        return [rank.rank for rank in self.ranks]

    @property
    def needed(self) -> set[int]:
        """Those that have to come before it can end."""
        return self.missing - self.passed

    @property
    def seconds(self) -> float:
        """For how long the first of them has been waiting."""
        return max(view.seconds for view in self.views)

    @property
    def views(self) -> list[CollectiveView]:
        """The call as each of them made it."""
        return [rank.collective for rank in self.ranks if rank.collective is not None]


def find_waits(ranks: Sequence[RankSnapshot]) -> list[Wait]:
    """Find every call that ranks sit in, by communicator."""
    waits: dict[Call, Wait] = {}
    for rank in ranks:
        if rank.inside is not None:
            call = _call_of(rank.inside)
            wait = waits.setdefault(call, Wait(call, []))
            wait.ranks.append(rank)
            if find_framework(call.group) and not rank.is_idle:
                wait.computing.add(rank.rank)
    by_rank = {rank.rank: rank for rank in ranks}
    groups = {call.group for call in waits}
    # Nobody is a member of a communicator whose name does not tell.
    members = {group: sorted(group_ranks(group) if group else by_rank) for group in groups}
    for wait in waits.values():
        _find_missing(wait, members[wait.call.group], by_rank)
    return sorted(waits.values(), key=lambda wait: (wait.call.group, wait.ranks[0].rank))


def _call_of(view: CollectiveView) -> Call:
    sequence = 0 if view.operation in MESSAGES else view.sequence
    return Call(view.group, sequence, view.operation, view.arguments)


def _find_missing(wait: Wait, members: Sequence[int], by_rank: Mapping[int, RankSnapshot]) -> None:
    if wait.call.operation in MESSAGES:
        for waiting in wait.ranks:
            peer = _peer(waiting, members)
            if peer is not None and not _meets(by_rank.get(peer), waiting, members):
                wait.missing.add(peer)
        return
    wait.missing = set(members) - set(wait.numbers)
    for member in wait.missing:
        has_passed = _has_passed(by_rank.get(member), wait.call)
        if has_passed is None:
            wait.unclear.add(member)
        elif has_passed:
            wait.passed.add(member)


def _peer(rank: RankSnapshot, members: Sequence[int]) -> int | None:
    """Return the rank with which a message is exchanged; None where that is not known."""
    root = rank.collective.root if rank.collective is not None else -1
    return members[root] if 0 <= root < len(members) else None


def _meets(peer: RankSnapshot | None, rank: RankSnapshot, members: Sequence[int]) -> bool:
    """Return whether the peer is in a call that may be the other half of this rank's message."""
    if peer is None or peer.inside is None or rank.inside is None:
        return False
    theirs, ours = peer.inside.operation, rank.inside.operation
    if theirs in _BOTH_WAYS:
        return True
    is_half = {theirs, ours} == {"send", "recv"} or ours in _BOTH_WAYS
    return is_half and theirs in MESSAGES and _peer(peer, members) == rank.rank


def _has_passed(rank: RankSnapshot | None, call: Call) -> bool | None:
    """Return whether a rank that is not in a call has been in it; None: nobody knows."""
    last = rank.collective if rank is not None else None
    if last is None or rank is None or last.is_earlier:
        return False
    if rank.is_silent:
        return None
    if (last.group, _counter(last)) == (call.group, _counter(call)):
        return last.sequence > call.sequence - (rank.inside is None)
    if is_symmetric(call.operation, call.group):
        # Nobody leaves these before all have come: one that waits for long was never left.
        return False
    # Of one that has ended it will never be known, and to wait for it is no proof of a hang.
    return None if rank.is_running else True


def _counter(call: Call | CollectiveView) -> str:
    return CallRecord(0, call.operation, 0, group=call.group).counter


# --- who can go on ---


def find_hopeless(
    waits: Sequence[Wait], ranks: Sequence[RankSnapshot]
) -> tuple[set[int], set[int]]:
    """Find waiting ranks that nothing will let go on, and those in circles among them.

    A rank can go on if all it waits for have left its call, may still come, or can go on; or if it
    computes there.
    """
    needs = {number: wait.needed for wait in waits for number in wait.numbers}
    needs |= {number: set() for wait in waits for number in wait.computing}
    running = {rank.rank for rank in ranks if rank.is_running}
    can_come = _grow(running - set(needs), needs, is_all_needed=True)
    hopeless = set(needs) - can_come
    # Those that wait for one that has ended are no riddle; what is left goes round in circles.
    gone = set().union(*needs.values()) - running if needs else set()
    circle = hopeless - _grow(gone, needs, is_all_needed=False)
    while circle != (core := circle & set().union(*(needs[rank] for rank in circle))):
        circle = core
    return hopeless, circle


def _grow(first: set[int], needs: Mapping[int, set[int]], is_all_needed: bool) -> set[int]:
    """Add waiting ranks to a set if all or one of those that they need are in it, to the end."""
    needed_by: dict[int, list[int]] = {}
    for rank, needed in needs.items():
        for each in needed:
            needed_by.setdefault(each, []).append(rank)
    still = {rank: len(needed) if is_all_needed else 1 for rank, needed in needs.items()}
    grown = first | {rank for rank, needed in needs.items() if is_all_needed and not needed}
    news = list(grown)
    while news:
        for rank in needed_by.get(news.pop(), ()):
            still[rank] -= 1
            if still[rank] == 0 and rank not in grown:
                grown.add(rank)
                news.append(rank)
    return grown
