"""The variables of all ranks in one table, with what differs between ranks. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from jupyter_dist.cluster.collectives.call_order import merge_orders
from jupyter_dist.cluster.variables.name_differences import (
    ByRank,
    find_differences,
    find_usual,
    rank_groups,
)
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.variable_facts import NameInfo, RankNames
from jupyter_dist.text.columns import align, without_empty
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.plurals import fit
from jupyter_dist.text.sizes import tell_size

MOST_ROWS = 200
HEADS = ("", "name", "type", "shape", "dtype", "memory", "value", "on the ranks")
HERE = "▶"
_ALIKE = 1.25
"""Ranks whose memory differs by less than this factor are told of together."""


class NameRow(msgspec.Struct, frozen=True):
    """One variable; type, shape, dtype and value as most ranks have it, empty where none is."""

    name: str
    type_name: str
    shape: str
    dtype: str
    memory: str
    """Of all ranks together and of each, as `192 B, 48 B a rank`."""
    value: str
    """On one line; empty where it is long."""
    remark: str
    """Who lacks it, what differs on whom; or that it is the same, or was not compared."""
    is_marked: bool
    """It is not the same on all ranks."""

    @property
    def cells(self) -> tuple[str, ...]:
        """What stands in the columns of HEADS."""
        mark = HERE if self.is_marked else ""
        about = (self.name, self.type_name, self.shape, self.dtype)
        return (mark, *about, self.memory, self.value, self.remark)


class NamesTable(msgspec.Struct, frozen=True):
    """Variables in the order in which they came to be; `str()` is a table."""

    ranks: tuple[int, ...]
    """Those that have answered."""
    rows: tuple[NameRow, ...]
    memory: str
    """Of the ranks' processes."""
    notes: tuple[str, ...] = ()
    """What is not shown, and which ranks have not answered, with the reason."""
    infos: Mapping[str, ByRank] = {}
    """What each rank has told of each variable, by name."""

    def __str__(self) -> str:
        return "\n".join([*self.lines, *self.notes])

    @property
    def lines(self) -> list[str]:
        """Return the memory of processes and the rows, as aligned text."""
        lines = [self.memory] if self.memory else []
        if self.rows:
            lines += align(without_empty([HEADS, *(row.cells for row in self.rows)]))
        elif self.ranks:
            lines.append(self.emptiness)
        return lines

    @property
    def emptiness(self) -> str:
        """What to say where there are no rows."""
        verb = fit(self.ranks, "has", "have")
        return f"{name_ranks(self.ranks)} {verb} no such variables"


def tabulate_names(answers: Mapping[int, RankNames], problems: Mapping[int, str]) -> NamesTable:
    """Put the variables of all ranks side by side; `problems` are ranks without an answer."""
    found: dict[str, dict[int, NameInfo]] = {}
    for rank, own in sorted(answers.items()):
        for info in own.names:
            found.setdefault(info.name, {})[rank] = info
    orders = [[info.name for info in own.names] for _, own in sorted(answers.items())]
    times = {name: number for number, name in enumerate(found)}
    # A rank that has not told all its names may have those that are missing in what it told.
    complete = {rank for rank, own in answers.items() if not own.omitted}
    rows = [
        _row(name, found[name], complete, answers.keys() | problems.keys())
        for name in merge_orders(orders, times)
    ]
    shown = _choose(rows)
    return NamesTable(
        tuple(sorted(answers)),
        tuple(shown),
        _memory_line({rank: own.rss_bytes for rank, own in answers.items() if own.rss_bytes}),
        tuple(_notes(answers, problems, len(rows) - len(shown))),
        found,
    )


def _row(name: str, infos: ByRank, complete: set[int], asked: set[int]) -> NameRow:
    lacking = sorted(complete - infos.keys())
    differences = find_differences(infos)
    remarks = [_who_lacks(infos, lacking)] if lacking else []
    remarks += differences
    return NameRow(
        name=name,
        type_name=find_usual(infos, _type_text),
        shape=find_usual(infos, lambda info: info.shape),
        dtype=find_usual(infos, lambda info: info.dtype),
        memory=_memory_text([info.nbytes for info in infos.values() if info.nbytes >= 0]),
        value=_value_text(infos),
        remark="; ".join(remarks) or _how_equal(infos, asked),
        is_marked=bool(remarks),
    )


def _type_text(info: NameInfo) -> str:
    return f"{info.type_name} on {info.device}" if info.device else info.type_name


def _who_lacks(infos: ByRank, lacking: Sequence[int]) -> str:
    if len(infos) < len(lacking):
        return f"only {name_ranks(infos)} {fit(infos, 'has', 'have')} it"
    return f"{name_ranks(lacking)} {fit(lacking, 'lacks', 'lack')} it"


def _how_equal(infos: ByRank, asked: set[int]) -> str:
    """Return what is known of values between which no difference was found."""
    if len(asked) < 2:
        return ""
    if not all(info.digest for info in infos.values()):
        return "not compared"
    if len(infos) == 1:
        return ""
    return "same on all" if infos.keys() == asked else f"same on {name_ranks(infos)}"


def _value_text(infos: ByRank) -> str:
    """Return the value that most ranks have; where there is none, the first few."""
    usual = find_usual(infos, lambda info: info.preview)
    if usual or len(infos) < 2:
        return usual
    previews = [info.preview for _, info in sorted(infos.items())]
    if not all(previews) or max(map(len, previews)) > 20:
        return ""
    return ", ".join([*previews[:3], *(["…"] if len(previews) > 3 else [])])


def _memory_text(sizes: Sequence[int]) -> str:
    if not sizes:
        return ""
    total = tell_size(sum(sizes))
    return total if len(sizes) == 1 else f"{total}, {_range_text(sizes)} a rank"


def _memory_line(sizes: Mapping[int, int]) -> str:
    """Tell the memory of the ranks' processes, of ranks that are alike together."""
    groups: list[list[int]] = []
    for rank in sorted(sizes, key=lambda rank: (sizes[rank], rank)):
        if groups and sizes[rank] < _ALIKE * sizes[groups[-1][0]]:
            groups[-1].append(rank)
        else:
            groups.append([rank])
    told = [
        f"{name_ranks(group)} {_range_text([sizes[rank] for rank in group])}" for group in groups
    ]
    return f"memory of processes: {name_some(told)}" if told else ""


def _range_text(sizes: Sequence[int]) -> str:
    least, most = tell_size(min(sizes)), tell_size(max(sizes))
    return least if least == most else f"{least} to {most}"


def _choose(rows: Sequence[NameRow]) -> list[NameRow]:
    """Leave out rows where there are too many, those without a mark and the last ones first."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    order = sorted(range(len(rows)), key=lambda index: (not rows[index].is_marked, index))
    return [rows[index] for index in sorted(order[:MOST_ROWS])]


def _notes(answers: Mapping[int, RankNames], problems: Mapping[int, str], hidden: int) -> list[str]:
    notes = [f"and {hidden} more; name some, as in `w*`, to see fewer"] if hidden else []
    omitted = {rank: str(own.omitted) for rank, own in sorted(answers.items()) if own.omitted}
    for count, ranks in rank_groups(omitted):
        notes.append(
            f"{name_ranks(ranks)}: {count} more names were not told; name some, as in `w*`"
        )
    for reason, ranks in rank_groups(problems):
        notes.append(f"no answer from {name_ranks(ranks)}: {reason}")
    return notes
