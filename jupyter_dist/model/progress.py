"""Who waits for whom, as sentences. Pure: the caller samples the ranks and passes the time."""

from collections.abc import Sequence

import msgspec

from jupyter_dist.model.rank import name_ranks
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
    def waiting_in(self) -> tuple[int, str] | None:
        """Sequence number and name of the collective it sits in, if it does."""
        inside = self.collective
        if self.status != "running" or inside is None or not inside.is_running:
            return None
        return inside.sequence, inside.operation


def explain(ranks: Sequence[RankProgress], patience_s: float = PATIENCE_S) -> str:
    """Say who waits for whom, or return an empty string while nothing is odd.

    Odd is: some ranks sit in a collective for longer than `patience_s` while others have
    finished the cell, still compute, or sit in another collective.
    """
    waiting = [rank for rank in ranks if rank.waiting_in is not None]
    if not waiting or len({rank.waiting_in for rank in ranks}) == 1:
        return ""
    longest_s = max(rank.collective.seconds for rank in waiting if rank.collective)
    if longest_s < patience_s:
        return ""
    return "; ".join([*_who_waits(waiting), *_who_does_not(ranks)])


def _who_waits(waiting: Sequence[RankProgress]) -> list[str]:
    groups: dict[tuple[int, str], list[RankProgress]] = {}
    for rank in waiting:
        groups.setdefault(rank.waiting_in or (0, ""), []).append(rank)
    sentences = []
    for (sequence, operation), members in groups.items():
        views = [member.collective for member in members if member.collective]
        site = f" ({views[0].site})" if views[0].site else ""
        longest_s = max(view.seconds for view in views)
        verb = "waits" if len(members) == 1 else "wait"
        sentences.append(
            f"{name_ranks(member.rank for member in members)} {verb} in "
            f"{operation} #{sequence}{site} for {longest_s:.0f} s"
        )
    return sentences


def _who_does_not(ranks: Sequence[RankProgress]) -> list[str]:
    computing = [rank.rank for rank in ranks if rank.status == "running" and not rank.waiting_in]
    ended: dict[str, list[int]] = {}
    for rank in ranks:
        if rank.status != "running":
            ended.setdefault(rank.status, []).append(rank.rank)
    sentences = []
    if computing:
        verb = "has" if len(computing) == 1 else "have"
        sentences.append(f"{name_ranks(computing)} {verb} not called it yet")
    for status, members in ended.items():
        ending = "finished the cell and never called it" if status == "ok" else f"ended ({status})"
        sentences.append(f"{name_ranks(members)} {ending}")
    return sentences
