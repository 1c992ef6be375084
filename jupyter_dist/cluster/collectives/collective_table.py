"""The last calls of all ranks side by side, and where ranks went apart. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from jupyter_dist.cluster.collectives.call_order import merge_orders
from jupyter_dist.cluster.collectives.divergence import find_parting
from jupyter_dist.cluster.collectives.shared_calls import (
    CallKey,
    CallState,
    SeenRank,
    SharedCall,
    see_ranks,
    share_calls,
    state_of,
    write_call,
)
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.records import CallRecord, HostRecords, find_framework
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import count_of

_ROWS_BEFORE_MARK = 2


class CallRow(msgspec.Struct, frozen=True):
    """One call of some ranks."""

    number: int
    what: str
    """As a person writes it."""
    sites: tuple[str, ...]
    states: dict[int, CallState]
    is_marked: bool = False
    """Here ranks went apart."""
    framework: str = ""
    """Who has counted it, as `JAX`; empty: we have."""


class CollectiveTable(msgspec.Struct, frozen=True):
    """The last calls, oldest first."""

    ranks: tuple[int, ...]
    rows: tuple[CallRow, ...]
    verdict: str = ""
    """Who called what where ranks went apart; empty if they did not."""
    notes: tuple[str, ...] = ()
    """What is not shown, and why."""


def tabulate(
    hosts: Sequence[HostRecords], problems: Mapping[str, str], world_size: int, last: int
) -> CollectiveTable:
    """Align the calls of all ranks and show the last so many, with where ranks went apart first."""
    seen = see_ranks(hosts)
    shared = share_calls(seen, world_size)
    order, messages = _put_in_order(seen)
    parting = find_parting([shared[key] for key in order if isinstance(key, CallKey)], seen)
    marked = parting.key if parting else None
    rows: list[CallRow] = []
    for key in order:
        if isinstance(key, CallKey):
            rows += _shared_rows(shared[key], seen, world_size, key == marked)
        else:
            rows.append(_message_row(messages[key], seen, world_size))
    shown, hidden = _choose(rows, last)
    return CollectiveTable(
        tuple(range(world_size)),
        tuple(shown),
        parting.text if parting else "",
        tuple(_notes(hosts, problems, world_size, hidden)),
    )


class _MessageKey(msgspec.Struct, frozen=True):
    """Messages that ranks sent at the same place between collectives stand in one row."""

    cell_id: str
    anchor: CallKey | None
    """The collective that all count from; None: the beginning of the cell."""
    number: int
    """How many further; negative: before the anchor."""
    operation: str


_Messages: TypeAlias = dict[_MessageKey, dict[int, CallRecord]]


def _put_in_order(seen: dict[int, SeenRank]) -> tuple[list[CallKey | _MessageKey], _Messages]:
    """Return one order of all calls, and the messages among them."""
    messages: _Messages = {}
    orders: list[list[CallKey | _MessageKey]] = []
    times: dict[CallKey | _MessageKey, int] = {}
    for rank, each in seen.items():
        keys = _place(each)
        orders.append(keys)
        for key, call in zip(keys, each.records.calls, strict=True):
            if isinstance(key, _MessageKey):
                messages.setdefault(key, {})[rank] = call
            time_ns = call.start_ns + each.offset_ns
            times[key] = min(time_ns, times.get(key, time_ns))
    return merge_orders(orders, times), messages


def _place(seen: SeenRank) -> list[CallKey | _MessageKey]:
    """Return the key of each call; a message counts from the collective of its cell before it.

    Where that is not known because older calls are not, it counts from the one behind it.
    """
    placed: list[CallKey | _MessageKey] = []
    waiting: list[int] = []
    cell_id, anchor, number, is_cut = "", None, 0, seen.is_cut
    for key, call in zip(seen.keys, seen.records.calls, strict=True):
        if key.cell_id != cell_id and placed:
            is_cut, waiting = False, []
        if key.cell_id != cell_id:
            cell_id, anchor, number = key.cell_id, None, 0
        if not call.is_message:
            for steps, index in enumerate(reversed(waiting), 1):
                operation = seen.records.calls[index].operation
                placed[index] = _MessageKey(cell_id, key, -steps, operation)
            anchor, number, is_cut, waiting = key, 0, False, []
            placed.append(key)
            continue
        number += 1
        if is_cut:
            waiting.append(len(placed))
        placed.append(_MessageKey(cell_id, anchor, number, call.operation))
    return placed


def _shared_rows(
    shared: SharedCall, seen: dict[int, SeenRank], world_size: int, is_marked: bool
) -> list[CallRow]:
    """Return a row for each thing that was called at this place; most ranks' comes first."""
    meanings: dict[tuple[object, ...], dict[int, CallRecord]] = {}
    for rank, call in sorted(shared.calls.items()):
        meanings.setdefault(call.meaning, {})[rank] = call
    rows: list[CallRow] = []
    for calls in sorted(meanings.values(), key=len, reverse=True):
        states = {rank: CallState("apart") for rank in range(world_size)}
        if not rows:
            states |= dict.fromkeys(shared.missing, CallState("never"))
            states |= {
                rank: CallState("older" if rank in seen else "unread") for rank in shared.unknown
            }
            states |= dict.fromkeys(shared.calls.keys() - calls.keys(), CallState("other"))
        states |= {rank: state_of(call, seen[rank]) for rank, call in calls.items()}
        what = write_call(next(iter(calls.values())))
        whose = find_framework(shared.key.group)
        rows.append(CallRow(shared.key.sequence, what, _sites(calls), states, is_marked, whose))
    return rows


def _message_row(
    calls: dict[int, CallRecord], seen: dict[int, SeenRank], world_size: int
) -> CallRow:
    """Return one row for messages of several ranks; what differs between them is left out."""
    some = next(iter(calls.values()))
    what = write_call(some)
    if len({write_call(call) for call in calls.values()}) > 1:
        arrays = {f"{call.dtype}[{call.shape}]" for call in calls.values()}
        what = f"{some.operation}({arrays.pop() if len(arrays) == 1 else '…'})"
    numbers = {call.sequence for call in calls.values()}
    states = {rank: CallState("apart") for rank in range(world_size)}
    states |= {rank: state_of(call, seen[rank]) for rank, call in calls.items()}
    number = numbers.pop() if len(numbers) == 1 else 0
    return CallRow(number, what, _sites(calls), states)


def _sites(calls: Mapping[int, CallRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.site for call in calls.values() if call.site))


def _choose(rows: Sequence[CallRow], last: int) -> tuple[Sequence[CallRow], int]:
    """Return the last rows, or those around the marked one, and how many others there are."""
    marks = [index for index, row in enumerate(rows) if row.is_marked]
    first = max(0, len(rows) - last)
    if marks and marks[0] < first:
        first = max(0, marks[0] - _ROWS_BEFORE_MARK)
    shown = rows[first : first + max(last, _ROWS_BEFORE_MARK + len(marks))]
    return shown, len(rows) - len(shown)


def _notes(
    hosts: Sequence[HostRecords], problems: Mapping[str, str], world_size: int, hidden: int
) -> list[str]:
    notes = [f"{host}: {problem}" for host, problem in problems.items()]
    told = [records for host in hosts for records in host.ranks]
    unread = group_pairs((each.problem, each.rank) for each in told if each.problem)
    notes += [f"{name_ranks(ranks)}: {problem}" for problem, ranks in unread.items()]
    silent = set(range(world_size)).difference(records.rank for records in told)
    if silent:
        notes.append(f"nothing is known of {name_ranks(silent)}")
    if hidden:
        notes.append(f"not shown: {count_of(hidden, 'more row')}")
    return notes
