"""The checkpoints of a directory as a table, put together from what each host sees of it. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from jupyter_dist.text.columns import align, without_empty
from jupyter_dist.text.lists import group_pairs, name_some
from jupyter_dist.text.sizes import tell_size

_HEADS = ("name", "step", "saved (UTC)", "ranks", "size", "holds", "on hosts", "missing")
_DAMAGED = "cannot be used"
_TREE = "a tree, for checkpoint.restore"


class CheckpointSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint, as its manifest tells of it."""

    id: str
    """The same wherever a copy of its manifest is seen."""
    name: str
    """Of its directory, under the one that was looked through; empty: it is that one itself."""
    step: int
    path: str
    saved_at: str
    """In UTC, as 2026-11-22T14:03:12Z."""
    world_size: int
    """Ranks that have saved it."""
    nbytes: int
    variables: tuple[str, ...] = ()
    """Names that it holds; empty for a tree that a cell has saved."""
    missing: tuple[str, ...] = ()
    """Part files that are not there: all the host does not see, where storage is not shared."""

    @property
    def when(self) -> str:
        """When it was saved, in UTC, as people read it."""
        return self.saved_at[:19].replace("T", " ")


class RankFound(msgspec.Struct, frozen=True):
    """What one rank sees of a directory."""

    directory: str
    last: str = ""
    """Where variables were saved or restored last by this rank; empty: nowhere."""
    seen: tuple[CheckpointSeen, ...] = ()
    problems: tuple[str, ...] = ()
    """Of each directory that looks like a checkpoint and is none, a sentence."""


class CheckpointRow(msgspec.Struct, frozen=True):
    """One checkpoint, and the hosts that see it."""

    seen: CheckpointSeen
    hosts: tuple[str, ...] = ()
    """Empty: all that were asked."""
    missing: tuple[str, ...] = ()
    """Part files that no host sees: it cannot be restored as a whole."""


class CheckpointTable(msgspec.Struct, frozen=True):
    """The checkpoints of a directory, the newest of each name last; `str()` is a table."""

    directory: str
    rows: tuple[CheckpointRow, ...]
    notes: tuple[str, ...] = ()
    """What looks like a checkpoint and is none, one sentence each."""

    @property
    def newest(self) -> CheckpointSeen | None:
        """Of those with all their parts the one that was saved last; None: there is none."""
        whole = (row.seen for row in self.rows if not row.missing)
        return max(whole, key=lambda seen: (seen.saved_at, seen.step), default=None)

    def __str__(self) -> str:
        if not self.rows:
            return "\n".join([f"no checkpoint in {self.directory}", *self.notes])
        lines = align(without_empty([_HEADS, *map(_cells, self.rows)]))
        return "\n".join([*lines, f"in {self.directory}", *self.notes])


def tabulate_checkpoints(directory: str, told: Mapping[str, RankFound]) -> CheckpointTable:
    """Put together what hosts see; each checkpoint has one row."""
    found: dict[tuple[str, int, str], dict[str, CheckpointSeen]] = {}
    for host, each in told.items():
        for seen in each.seen:
            found.setdefault((seen.name, seen.step, seen.id), {})[host] = seen
    problems = group_pairs(
        (problem, host) for host, each in told.items() for problem in each.problems
    )
    rows = [_row(found[key], len(told)) for key in sorted(found)]
    return CheckpointTable(directory, tuple(rows), _describe(problems, len(told)))


def _row(by_host: Mapping[str, CheckpointSeen], host_count: int) -> CheckpointRow:
    first, *others = by_host.values()
    missing = set(first.missing).intersection(*(each.missing for each in others))
    hosts = () if len(by_host) == host_count else tuple(by_host)
    return CheckpointRow(first, hosts, tuple(sorted(missing)))


def _describe(problems: Mapping[str, Sequence[str]], host_count: int) -> tuple[str, ...]:
    return tuple(
        f"{_DAMAGED}: {problem}"
        if len(hosts) == host_count
        else f"{_DAMAGED} on {name_some(hosts)}: {problem}"
        for problem, hosts in problems.items()
    )


def _cells(row: CheckpointRow) -> tuple[str, ...]:
    seen = row.seen
    return (
        seen.name,
        str(seen.step),
        seen.when,
        str(seen.world_size),
        tell_size(seen.nbytes),
        name_some(seen.variables) or _TREE,
        name_some(row.hosts),
        name_some(row.missing),
    )
