"""What a benchmark of collectives shall measure: what is asked for, read and checked."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.bench import GIB, KIB, MIB, OPS, piece_count, size_text

DEFAULT_OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "all_to_all",
    "send_recv",
)
DEFAULT_MIN_BYTES = 8
DEFAULT_FACTOR = 8
DEFAULT_DTYPE = "float32"
DEFAULT_TIMEOUT_S = 60.0
DTYPES = (
    "float32",
    "float64",
    "float16",
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
)
_HOST_MAX_BYTES = 64 * MIB
_DEVICE_MAX_BYTES = GIB
_SIZE = re.compile(r"(?P<number>\d+)\s*(?:(?P<unit>[kmg])(?:ib)?|b)?", re.IGNORECASE)
_UNIT_BYTES = {"k": KIB, "m": MIB, "g": GIB}


class BenchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure; made by `plan_bench`."""

    ops: tuple[str, ...] = DEFAULT_OPS
    min_bytes: int = DEFAULT_MIN_BYTES
    max_bytes: int | None = None
    """None: 64 MiB where data goes through the hosts' memory, 1 GiB with nccl."""
    factor: int = DEFAULT_FACTOR
    dtype: str = DEFAULT_DTYPE
    is_checked: bool = True
    """Every element of every result is compared with what it must be."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """Deadline of each collective."""


def plan_bench(  # noqa: PLR0913  (each is an option of %dist_bench)
    *,
    ops: str | Sequence[str] | None = None,
    min_bytes: int | str = DEFAULT_MIN_BYTES,
    max_bytes: int | str | None = None,
    factor: int = DEFAULT_FACTOR,
    dtype: str = DEFAULT_DTYPE,
    check: bool = True,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> BenchPlan:
    """Read what is asked for; raises UsageError naming what is accepted.

    `ops` are names, or one text as `all_reduce,broadcast` or `all`; sizes may be as `64M`.
    """
    smallest = read_size(min_bytes)
    largest = None if max_bytes is None else read_size(max_bytes)
    if largest is not None and largest < smallest:
        raise UsageError(
            f"sizes from {size_text(smallest)} to {size_text(largest)}: the largest must not be "
            "less than the smallest."
        )
    if not isinstance(factor, int) or factor < 2:
        raise UsageError(f"factor {factor!r} is not accepted: give a whole number of 2 or more.")
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is not accepted. Accepted: {', '.join(DTYPES)}.")
    if not timeout_s > 0:
        raise UsageError(f"timeout {timeout_s} is not accepted: it must be more than 0 s.")
    return BenchPlan(
        ops=read_ops(ops),
        min_bytes=smallest,
        max_bytes=largest,
        factor=factor,
        dtype=dtype,
        is_checked=check,
        timeout_s=timeout_s,
    )


def read_ops(ops: str | Sequence[str] | None) -> tuple[str, ...]:
    """Read names of operations, each once, in their order; None is a usual choice."""
    if ops is None:
        return DEFAULT_OPS
    names = ops.split(",") if isinstance(ops, str) else ops
    wanted = tuple(dict.fromkeys(name.strip() for name in names))
    if wanted == ("all",):
        return OPS
    if not wanted or not set(wanted) <= set(OPS):
        raise UsageError(
            f"ops {ops!r} are not accepted. Accepted: all, or some of {', '.join(OPS)}."
        )
    return wanted


def read_size(size: int | str) -> int:
    """Read a number of bytes as `8`, `4K`, `1MiB` or `1G`, in powers of 1024 as nccl-tests does."""
    if isinstance(size, int) and size > 0:
        return size
    match = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if match is None or int(match["number"]) < 1:
        raise UsageError(
            f"size {size!r} is not understood. Accepted: a number of bytes of 1 or more, with K, M "
            "or G for powers of 1024, for example 8, 4K, 64M or 1GiB."
        )
    return int(match["number"]) * _UNIT_BYTES.get((match["unit"] or "").lower(), 1)


def sizes(plan: BenchPlan, kind: str) -> tuple[int, ...]:
    """List the sizes that are asked for: each `factor` times the one before, and the largest."""
    largest = plan.max_bytes
    if largest is None:
        default = _DEVICE_MAX_BYTES if kind == "nccl" else _HOST_MAX_BYTES
        largest = max(default, plan.min_bytes)
    found = [plan.min_bytes]
    while found[-1] * plan.factor <= largest:
        found.append(found[-1] * plan.factor)
    return tuple(dict.fromkeys([*found, largest]))


def piece_counts(
    plan: BenchPlan, kind: str, itemsize: int, world_size: int
) -> Iterator[tuple[str, int]]:
    """Give each point to measure as operation and elements of one piece; none comes twice."""
    for op in plan.ops:
        wanted = (piece_count(op, nbytes, itemsize, world_size) for nbytes in sizes(plan, kind))
        yield from ((op, count) for count in dict.fromkeys(wanted))
