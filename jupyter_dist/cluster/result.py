"""What came of a cell: one RankResult for each rank that ran it, in rank order."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NoReturn, overload

import msgspec

from jupyter_dist.cluster.variables.values_of_cells import ValuesOfCell
from jupyter_dist.errors import (
    CellInterrupted,
    CellTimedOut,
    DistError,
    RankLost,
    RankRaised,
    TransferError,
    UsageError,
)
from jupyter_dist.model.hosts.axes import NO_AXES, Axes
from jupyter_dist.model.hosts.rank import format_ranks, name_rank, name_ranks, naming_along
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.protocol.commands import CommandKind, Report, Request
from jupyter_dist.protocol.messages import ErrorInfo, Output
from jupyter_dist.protocol.unreadable import STATUSES
from jupyter_dist.text.plurals import agree, count_of, fit

_ENDINGS = {
    "raised": "raised",
    "lost": "{be} lost",
    "timed_out": "timed out",
    "unresponsive": "{be} still busy",
    "interrupted": "{was} interrupted",
    "peer_failed": "{was} released with PeerFailed",
}
"""What is said of ranks that did not end well, causes before consequences."""


class RankResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a cell ended on one rank, and what that rank said."""

    rank: int
    status: str
    """One of ok, raised, interrupted, peer_failed, timed_out, unresponsive (still busy), lost."""
    stdout: str = ""
    stderr: str = ""
    omitted: tuple[str, ...] = ()
    """What stdout and stderr lack, a sentence each, which stands there as a line too; empty where
    they are whole. The log on the rank's host has all of it."""
    value_repr: str | None = None
    """`repr` of the cell's last expression, or None."""
    displays: tuple[Output, ...] = ()
    """Rich outputs (display and value), in order."""
    error: ErrorInfo | None = None
    """None, or ename, evalue and traceback; reads as `ZeroDivisionError: division by zero`."""
    duration_s: float = 0.0
    crash: CrashReport | None = None
    """Of a lost rank, what is known about its end."""
    report: bytes = b""
    """What a command of the cluster itself has returned; empty for cells."""
    values: ValuesOfCell | None = None
    """Where the value of the last expression is."""

    @property
    def value(self) -> Any:
        """The value of the last expression, fetched from its rank when it is first wanted.

        None where there was none. The rank keeps it until another cell with this number ends.
        Raises TransferError when the cell has not ended well there, the value is kept no longer,
        cannot be sent or takes more than 1 GiB, or the rank is lost.
        """
        if self.status != "ok":
            raise TransferError(f"rank {self.rank} has no value: {self.error or self.status}")
        if self.value_repr is None or self.values is None:
            return None
        return self.values[self.rank]


class SpmdResult(Sequence[RankResult]):
    """The results of one cell in rank order; `result[k]` is the k-th, `result.rank(r)` rank r's."""

    def __init__(self, results: Sequence[RankResult], axes: Axes = NO_AXES) -> None:
        self.axes = axes
        """Those of the cluster when the cell was sent: errors name coordinates along them."""
        self._results = tuple(sorted(results, key=attrgetter("rank")))

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> RankResult: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RankResult]: ...
    def __getitem__(self, index: int | slice) -> RankResult | Sequence[RankResult]:
        return self._results[index]

    def __iter__(self) -> Iterator[RankResult]:
        return iter(self._results)

    def __repr__(self) -> str:
        groups = [
            f"{status} on {name_ranks(ranks)}"
            for status in STATUSES
            if (ranks := [result.rank for result in self if result.status == status])
        ]
        return f"<SpmdResult: {'; '.join(groups) or 'no ranks'}>"

    @property
    def ok(self) -> bool:
        """Every rank ended well."""
        return all(result.status == "ok" for result in self)

    def rank(self, rank: int) -> RankResult:
        """Return the result of this rank; raises UsageError when it did not run the cell."""
        for result in self:
            if result.rank == rank:
                return result
        here = name_ranks(result.rank for result in self)
        raise UsageError(f"rank {rank} did not run this cell; {here} did.")

    def raise_first(self) -> None:
        """Raise what went wrong, causes before consequences; do nothing when all is well."""
        for status in _ENDINGS:
            for result in self:
                if result.status == status:
                    with naming_along(self.axes):
                        self._raise(result)

    def _raise(self, result: RankResult) -> NoReturn:
        same = [r.rank for r in self if r.status == result.status]
        others = self._count_others(result)
        in_brackets = f" ({others})" if others else ""
        error, who = result.error or ErrorInfo(result.status, ""), name_rank(result.rank)
        match result.status:
            case "lost":
                raise RankLost(result.rank, error.evalue, others, result.crash, who)
            case "interrupted":
                raise CellInterrupted(f"{name_ranks(same)} interrupted{in_brackets}")
            case "unresponsive":
                raise CellInterrupted(_way_out(same, in_brackets), unresponsive=tuple(same))
            case "timed_out":
                raise CellTimedOut(f"{name_ranks(same)} ran into the time limit{in_brackets}")
            case _:
                raised = RankRaised(
                    result.rank, error.ename, error.evalue, error.traceback, others, who
                )
                if len(self) == len(same) > 1:
                    raised.head = f"All {len(same)} ranks raised; traceback from {who}"
                raise raised

    def _count_others(self, first: RankResult) -> str:
        """Return how the others ended: `2 others raised; 1 other was released with PeerFailed`."""
        counts: dict[str, int] = {}
        for result in self:
            if result.status != "ok" and result.rank != first.rank:
                counts[result.status] = counts.get(result.status, 0) + 1
        told = []
        for status, count in counts.items():
            if status == first.status and status in ("interrupted", "timed_out", "unresponsive"):
                continue
            others = count_of(count, "other")
            if count == len(self) - 1 > 1:
                others = f"the {count} other ranks"
            ended = agree(_ENDINGS.get(status, status), count)
            told.append(f"{others} {ended}{' too' if status == first.status else ''}")
        return "; ".join(told)


def read_reports(kind: CommandKind[Request, Report], result: SpmdResult) -> dict[int, Report]:
    """Return what each rank has returned from a command. Raise DistError naming one without it."""
    found = {}
    for each in result:
        try:
            found[each.rank] = kind.read_report(each.report)
        except msgspec.DecodeError:
            raise DistError(f"rank {each.rank} ended well, but has not told what it did.") from None
    return found


def _way_out(ranks: Sequence[int], others: str) -> str:
    """Say that ranks have not answered an interrupt, and what can be done about them."""
    verb, them = fit(ranks, ("is", "it"), ("are", "them"))
    return (
        f"{name_ranks(ranks)} {verb} still busy, not responding to the interrupt{others}. "
        f"The next cell waits for {them}, or %dist_heal --ranks {format_ranks(ranks)} kills and "
        f"replaces {them}"
    )
