"""Who waits for whom, as sentences. Pure: the caller samples the ranks and passes the time."""

from collections.abc import Iterable, Sequence

import msgspec

from jupyter_dist.model.rank import name_ranks
from jupyter_dist.model.records import group_ranks, name_group
from jupyter_dist.model.topology import CollectiveView

PATIENCE_S = 3.0
"""How long ranks may disagree before it is worth a sentence."""


class RankProgress(msgspec.Struct, frozen=True):
    """Where one rank of a running cell stands."""

    rank: int
    status: str
    """`running`, or the final status of the rank in this cell."""
    collective: CollectiveView | None = None

    @property
    def waiting_in(self) -> tuple[str, int, str] | None:
        """Group, sequence number and name of the collective it sits in, if it does."""
        inside = self.collective
        if self.status != "running" or inside is None or not inside.is_running:
            return None
        return inside.group, inside.sequence, inside.operation


def explain(ranks: Sequence[RankProgress], patience_s: float = PATIENCE_S) -> str:
    """Say who waits for whom, or return an empty string while nothing is odd.

    Odd is: some ranks sit in a collective for longer than `patience_s` while others of its
    communicator have finished the cell, still compute, or sit in another collective.
    """
    groups: dict[str, list[RankProgress]] = {}
    for rank in ranks:
        if rank.waiting_in is not None:
            groups.setdefault(rank.waiting_in[0], []).append(rank)
    odd = {group: waiting for group, waiting in groups.items() if _is_odd(group, waiting, ranks)}
    listed = {rank.rank for waiting in odd.values() for rank in waiting}
    seconds = (
        rank.collective.seconds for waiting in odd.values() for rank in waiting if rank.collective
    )
    if max(seconds, default=0.0) < patience_s:
        return ""
    sentences: list[str] = []
    for group in sorted(odd):
        sentences += _who_waits(odd[group])
        missing = set(_members(group, ranks)) - listed
        sentences += _who_does_not([rank for rank in ranks if rank.rank in missing])
        sentences += _who_is_elsewhere(missing - {rank.rank for rank in ranks})
    return "; ".join(sentences)


def _members(group: str, ranks: Sequence[RankProgress]) -> Iterable[int]:
    """Give the ranks that a communicator waits for; nobody if its name does not tell."""
    return group_ranks(group) if group else (rank.rank for rank in ranks)


def _is_odd(group: str, waiting: Sequence[RankProgress], ranks: Sequence[RankProgress]) -> bool:
    present = {rank.rank for rank in waiting}
    return len({rank.waiting_in for rank in waiting}) > 1 or not present.issuperset(
        _members(group, ranks)
    )


def _who_waits(waiting: Sequence[RankProgress]) -> list[str]:
    calls: dict[tuple[str, int, str], list[RankProgress]] = {}
    for rank in waiting:
        calls.setdefault(rank.waiting_in or ("", 0, ""), []).append(rank)
    sentences = []
    for (group, sequence, operation), members in calls.items():
        views = [member.collective for member in members if member.collective]
        whose = f" of group {name_group(group)}" if group else ""
        site = f" ({views[0].site})" if views[0].site else ""
        longest_s = max(view.seconds for view in views)
        verb = "waits" if len(members) == 1 else "wait"
        sentences.append(
            f"{name_ranks(member.rank for member in members)} {verb} in "
            f"{operation} #{sequence}{whose}{site} for {longest_s:.0f} s"
        )
    return sentences


def _who_does_not(ranks: Sequence[RankProgress]) -> list[str]:
    """Tell about ranks that are missing in a collective, and are not told of as waiting."""
    elsewhere = [rank.rank for rank in ranks if rank.status == "running"]
    ended: dict[str, list[int]] = {}
    for rank in ranks:
        if rank.status != "running":
            ended.setdefault(rank.status, []).append(rank.rank)
    sentences = []
    if elsewhere:
        verb = "has" if len(elsewhere) == 1 else "have"
        sentences.append(f"{name_ranks(elsewhere)} {verb} not called it yet")
    for status, members in ended.items():
        ending = "finished the cell and never called it" if status == "ok" else f"ended ({status})"
        sentences.append(f"{name_ranks(members)} {ending}")
    return sentences


def _who_is_elsewhere(ranks: Iterable[int]) -> list[str]:
    absent = sorted(ranks)
    if not absent:
        return []
    return [f"{name_ranks(absent)} {'does' if len(absent) == 1 else 'do'} not run this cell"]
