"""What a benchmark of collectives shall measure."""

from collections.abc import Iterator

import msgspec

from jupyter_dist.model.bench.measurements import piece_count
from jupyter_dist.text.sizes import GIB, MIB

DEFAULT_OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
DEFAULT_MIN_BYTES = 8
DEFAULT_FACTOR = 8
DEFAULT_DTYPE = "float32"
DEFAULT_TIMEOUT_S = 60.0
DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "uint32", "int64", "uint64")
_HOST_MAX_BYTES = 64 * MIB
_DEVICE_MAX_BYTES = GIB


class BenchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure; see options/bench_options.py for what people may ask for."""

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
    """Yield each point to measure as operation and elements of one piece; none comes twice."""
    for op in plan.ops:
        wanted = (piece_count(op, nbytes, itemsize, world_size) for nbytes in sizes(plan, kind))
        yield from ((op, count) for count in dict.fromkeys(wanted))
