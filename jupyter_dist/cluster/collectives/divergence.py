"""Where ranks went apart: the first collective that not all of its ranks called alike. Pure."""

from collections.abc import Sequence

import msgspec

from jupyter_dist.cluster.collectives.shared_calls import CallKey, SeenRank, SharedCall, state_of
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.records import CallRecord, CellRecord, tell_group
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import agree

_PRESENT = {
    "waiting": "wait{s} in",
    "lost": "{was} lost in",
    "failed": "failed in",
    "done": "called",
}
_ABSENT = {
    "gone": "{be} gone and never called it",
    "finished": "{be} done with the cell and never called it",
    "inside": "wait{s} in",
    "elsewhere": "{has} not begun the cell",
    "late": "{has} not called it yet",
}
"""What is told of ranks that have called a collective, and of those that have not."""


class Divergence(msgspec.Struct, frozen=True):
    """A place where ranks went apart."""

    key: CallKey
    text: str
    """Who called what at which line."""


def find_parting(order: Sequence[SharedCall], seen: dict[int, SeenRank]) -> Divergence | None:
    """Find the first place of the last cell in which ranks went apart, if there is one.

    Communicators are formed again after a failure, so cells before that one are done with.
    """
    last_of_cell: dict[str, int] = {}
    last_of_rank: dict[tuple[str, int], int] = {}
    for index, shared in enumerate(order):
        last_of_cell[shared.key.cell_id] = index
        last_of_rank.update(((shared.key.cell_id, rank), index) for rank in shared.calls)
    found: dict[str, SharedCall] = {}
    for index, shared in enumerate(order):
        cell_id = shared.key.cell_id
        members = (*shared.calls, *shared.missing)
        goes_on = any(last_of_rank.get((cell_id, rank), -1) > index for rank in members)
        if cell_id and (_differs(shared) or _lacks(shared, seen, goes_on=goes_on)):
            found.setdefault(cell_id, shared)
    if not found:
        return None
    shared = found[max(found, key=lambda cell_id: last_of_cell[cell_id])]
    return Divergence(shared.key, _explain(shared, seen))


def _differs(shared: SharedCall) -> bool:
    calls = shared.calls.values()
    if len({call.meaning for call in calls}) > 1:
        return True
    # Equal calls on different lines are most likely two calls in different order.
    is_alike = next(iter(calls)).is_symmetric
    return is_alike and len({call.site for call in calls}) > 1


def _lacks(shared: SharedCall, seen: dict[int, SeenRank], *, goes_on: bool) -> bool:
    """Return whether it matters that ranks are missing.

    It does when someone waits for them, or went on without them, or they will never come.
    """
    if not shared.missing:
        return False
    has_trouble = any(not call.end_ns or call.has_failed for call in shared.calls.values())
    will_not_come = any(_has_left_cell(shared, seen[rank]) for rank in shared.missing)
    return goes_on or has_trouble or will_not_come


def _has_left_cell(shared: SharedCall, seen: SeenRank) -> bool:
    cell = _cell_of(shared, seen)
    return seen.records.has_ended or (cell is not None and cell.end_ns > 0)


def _cell_of(shared: SharedCall, seen: SeenRank) -> CellRecord | None:
    cells = (cell for cell in seen.records.cells if cell.cell_id == shared.key.cell_id)
    return next(cells, None)


def _explain(shared: SharedCall, seen: dict[int, SeenRank]) -> str:
    present: dict[tuple[str, str], dict[int, float]] = {}
    for rank, call in sorted(shared.calls.items()):
        state = state_of(call, seen[rank])
        # Where calls differ, all of them fail for the same reason.
        kind = "done" if state.kind == "failed" and _differs(shared) else state.kind
        present.setdefault((kind, _write(call)), {})[rank] = state.seconds
    told = [_tell(kind, what, ranks) for (kind, what), ranks in present.items()]
    absent = group_pairs((_find_instead(shared, seen[rank]), rank) for rank in shared.missing)
    told += [_tell_missing(how, what, ranks) for (how, what), ranks in absent.items()]
    return "; ".join(told)


def _tell(kind: str, what: str, ranks: dict[int, float]) -> str:
    """Return what those did that have called it; `ranks` with their seconds."""
    told = f"{name_ranks(ranks)} {agree(_PRESENT[kind], len(ranks))} {what}"
    return f"{told} for {max(ranks.values()):.0f} s" if kind == "waiting" else told


def _find_instead(shared: SharedCall, seen: SeenRank) -> tuple[str, str]:
    """Find out what a rank does that has not called it: how that is to be told, and which call."""
    cell = _cell_of(shared, seen)
    if seen.records.has_ended or cell is None or cell.end_ns:
        return "gone" if seen.records.has_ended else "finished" if cell else "elsewhere", ""
    cell_id = shared.key.cell_id
    calls = zip(seen.keys, seen.records.calls, strict=True)
    own = [call for key, call in calls if key.cell_id == cell_id]
    if not own:
        return "late", ""
    return "late" if own[-1].end_ns else "inside", _write(own[-1])


def _tell_missing(how: str, what: str, ranks: Sequence[int]) -> str:
    told = f"{name_ranks(ranks)} {agree(_ABSENT[how], len(ranks))}"
    if how == "inside":
        return f"{told} {what} instead"
    return f"{told}{agree(': {its} last call was ', len(ranks))}{what}" if what else told


def _write(call: CallRecord) -> str:
    where = f" at {call.site}" if call.site else ""
    return f"{call} #{call.sequence}{tell_group(call.group)}{where}"
