"""What a benchmark of collectives measures, and what follows from it, by nccl-tests' definitions.

The size of a point is that of the larger of a rank's two buffers: of all_gather, reduce_scatter,
all_to_all, gather and scatter that is what all ranks' pieces have together. algbw is that size by
time; busbw is algbw times a factor that makes it comparable with the speed of the links, however
many ranks there are. Both are in GB/s, 1e9 bytes per second.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from jupyter_dist.model.bench.bandwidth import Promise, RankPath, promise_of
from jupyter_dist.text.sizes import tell_size, three_digits

PROGRESS_MIME = "application/vnd.jupyter-dist.bench-progress+json"


class _Operation(NamedTuple):
    """How an operation's traffic relates to its size."""

    passes: int
    """How often the data goes over a link."""
    keeps_own: bool
    """A rank's own 1/n of the data stays where it is."""
    is_by_rank: bool
    """The larger buffer has one piece for each rank."""


_OPERATIONS = {
    "all_reduce": _Operation(2, keeps_own=True, is_by_rank=False),
    "broadcast": _Operation(1, keeps_own=False, is_by_rank=False),
    "reduce": _Operation(1, keeps_own=False, is_by_rank=False),
    "all_gather": _Operation(1, keeps_own=True, is_by_rank=True),
    "reduce_scatter": _Operation(1, keeps_own=True, is_by_rank=True),
    "all_to_all": _Operation(1, keeps_own=True, is_by_rank=True),
    "gather": _Operation(1, keeps_own=True, is_by_rank=True),
    "scatter": _Operation(1, keeps_own=True, is_by_rank=True),
    "send_recv": _Operation(1, keeps_own=False, is_by_rank=False),
}
OPS = tuple(_OPERATIONS)


class Measured(msgspec.Struct, frozen=True):
    """One point as a rank has measured it: the times are those of the slowest rank."""

    op: str
    nbytes: int
    iterations: int
    median_s: float
    p99_s: float
    min_s: float
    wrong: int | None
    """Wrong elements in this rank's own results; None: not checked."""


class BenchProgress(msgspec.Struct, frozen=True):
    """What is measured now."""

    op: str
    nbytes: int

    def __str__(self) -> str:
        """Read as `all_reduce 1 MiB …`."""
        return f"{self.op} {tell_size(self.nbytes)} …"


class RankBench(msgspec.Struct, frozen=True):
    """Everything that one rank has measured."""

    kind: str
    """Of the communicator: ring or nccl."""
    points: tuple[Measured, ...]
    versions: dict[str, str]

    def __str__(self) -> str:
        """Read as `measured 54 points`."""
        return f"measured {len(self.points)} points"


class BenchPoint(Measured, frozen=True, kw_only=True):
    """One operation at one size, over all ranks: `wrong` counts elements of all their results."""

    dtype: str
    algbw: float
    """In GB/s, 1e9 bytes per second."""
    busbw: float | None
    """None: there is one rank only, and no bus."""
    wrong_ranks: tuple[int, ...] = ()


def piece_count(op: str, nbytes: int, itemsize: int, world_size: int) -> int:
    """Count the elements of one piece so that the size is at most this, and one at least."""
    pieces = world_size if _OPERATIONS[op].is_by_rank else 1
    return max(1, nbytes // (pieces * itemsize))


def size_of(op: str, count: int, itemsize: int, world_size: int) -> int:
    """Return the size, in bytes, of an operation with so many elements in one piece."""
    return count * itemsize * (world_size if _OPERATIONS[op].is_by_rank else 1)


def busbw_factor(op: str, world_size: int) -> float:
    """Say by how much the traffic on a link exceeds the size of the operation."""
    operation = _OPERATIONS[op]
    share = (world_size - 1) / world_size if operation.keeps_own else 1.0
    return operation.passes * share


def merge(
    measured: Sequence[Sequence[Measured]], dtype: str, world_size: int
) -> tuple[BenchPoint, ...]:
    """Make the points out of what each rank has measured, in rank order."""
    return tuple(_merge_point(same, dtype, world_size) for same in zip(*measured, strict=True))


def _merge_point(same: Sequence[Measured], dtype: str, world_size: int) -> BenchPoint:
    first = same[0]
    algbw = first.nbytes / first.median_s / 1e9
    counted = [each.wrong for each in same if each.wrong is not None]
    wrong = sum(counted) if counted else None
    return BenchPoint(
        **{**msgspec.structs.asdict(first), "wrong": wrong},
        dtype=dtype,
        algbw=algbw,
        busbw=algbw * busbw_factor(first.op, world_size) if world_size > 1 else None,
        wrong_ranks=tuple(rank for rank, each in enumerate(same) if each.wrong),
    )


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a benchmark."""

    kind: str
    world_size: int
    hosts: tuple[str, ...]
    paths: tuple[RankPath, ...]
    """By what each rank's data comes and goes, in rank order."""
    points: tuple[BenchPoint, ...]
    versions: dict[str, str] = {}
    """Of rank 0."""

    @property
    def promise(self) -> Promise:
        """What the links between the ranks can carry at best."""
        return promise_of(self.paths)

    @property
    def ops(self) -> tuple[str, ...]:
        """The operations that were measured, in their order."""
        return tuple(dict.fromkeys(point.op for point in self.points))

    def of(self, op: str) -> tuple[BenchPoint, ...]:
        """Return the points of one operation, the smallest first."""
        return tuple(point for point in self.points if point.op == op)


# --- words ---


def time_text(seconds: float) -> str:
    """Write a time with three digits: `8.5 µs`, `1.25 ms`, `2.5 s`."""
    for unit_s, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit_s * 0.9995:
            return f"{three_digits(seconds / unit_s)} {name}"
    return f"{three_digits(seconds * 1e6)} µs"


def bandwidth_text(gb_per_s: float | None) -> str:
    """Write GB/s as nccl-tests does, with two decimals; `n/a` for None."""
    if gb_per_s is None:
        return "n/a"
    return f"{gb_per_s:.2f}" if gb_per_s < 99.995 else f"{gb_per_s:.0f}"
