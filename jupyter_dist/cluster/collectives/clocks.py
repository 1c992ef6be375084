"""The clocks of several hosts brought together by what their ranks ended together. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from jupyter_dist.cluster.collectives.shared_calls import SeenRank, SharedCall
from jupyter_dist.model.ranks.records import SYMMETRIC

TOGETHER = (*SYMMETRIC, "all_gather_object", "barrier_object", "assert_equal_object")
"""Nobody has the result of these before all have come, so all end at about the same moment."""


class HostClock(msgspec.Struct, frozen=True):
    """How to read the clock of one host's records."""

    host: str
    offset_ns: int
    """What to add to its monotonic clock for the time of day of the first host."""
    correction_ns: int = 0
    """What of that is due to collectives; the rest is its own time of day."""
    samples: int = 0
    """Collectives that it shares with the first host."""


def bring_together(seen: dict[int, SeenRank], shared: Iterable[SharedCall]) -> dict[str, HostClock]:
    """Return the clock of each host; the first one's is right by definition.

    The correction is the median over all collectives that both have ended well.
    """
    offsets = {each.host: each.offset_ns for each in seen.values()}
    if not offsets:
        return {}
    first, *others = offsets
    apart: dict[str, list[float]] = {host: [] for host in others}
    for call in shared:
        ends = _ends(call, seen)
        for host in ends.keys() & apart.keys() if first in ends else ():
            apart[host].append(median(ends[host]) - median(ends[first]))
    clocks = {first: HostClock(first, offsets[first])}
    for host, differences in apart.items():
        correction_ns = -round(median(differences)) if differences else 0
        offset_ns = offsets[host] + correction_ns
        clocks[host] = HostClock(host, offset_ns, correction_ns, len(differences))
    return clocks


def _ends(call: SharedCall, seen: dict[int, SeenRank]) -> dict[str, Sequence[int]]:
    """Return when the ranks of each host ended a collective, if all have ended it together."""
    if call.missing or call.unknown:
        return {}
    ends: dict[str, list[int]] = {}
    for rank, own in call.calls.items():
        # Of a framework's calls it is not known what their ends mean: many do not wait.
        if own.framework or own.operation not in TOGETHER or not own.end_ns or own.has_failed:
            return {}
        ends.setdefault(seen[rank].host, []).append(own.end_ns + seen[rank].offset_ns)
    return dict(ends)
