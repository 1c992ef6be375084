"""What can be said of a benchmark of collectives, written once, and how it is read."""

import argparse
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict, Unpack

from msgspec.structs import replace

from jupyter_dist.errors import UsageError
from jupyter_dist.model.bench.bench_plan import DEFAULT_OPS, DTYPES, BenchPlan
from jupyter_dist.model.bench.measurements import OPS
from jupyter_dist.options.command_options import as_option
from jupyter_dist.options.option import Option, add_options
from jupyter_dist.text.sizes import GIB, KIB, MIB, tell_size

_SIZE = re.compile(r"(?P<number>\d+)\s*(?:(?P<unit>[kmg])(?:ib)?|b)?", re.IGNORECASE)
_UNIT_BYTES = {"k": KIB, "m": MIB, "g": GIB}


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


class OperationOptions(TypedDict, total=False):
    """What is measured."""

    ops: Annotated[
        str | Sequence[str] | None,
        Option(
            f"what to measure: all, or some of {', '.join(OPS)}",
            type=as_option(read_ops),
            metavar="OP,OP",
        ),
    ]


class MeasureOptions(TypedDict, total=False):
    """How it is measured."""

    min_bytes: Annotated[
        int | str | None,
        Option(
            "smallest size, as 8, 4K or 1MiB (default: 8)",
            "--min",
            type=as_option(read_size),
            metavar="SIZE",
        ),
    ]
    max_bytes: Annotated[
        int | str | None,
        Option(
            "largest size (default: 64M; 1G with nccl)",
            "--max",
            type=as_option(read_size),
            metavar="SIZE",
        ),
    ]
    factor: Annotated[
        int | None, Option("from one size to the next (default: 8)", type=int, metavar="F")
    ]
    dtype: Annotated[
        str | None, Option("of what elements arrays are made (default: float32)", choices=DTYPES)
    ]
    check: Annotated[
        bool | None,
        Option(
            "whether every element of every result is checked (default: yes)",
            action=argparse.BooleanOptionalAction,
        ),
    ]
    timeout_s: Annotated[
        float | None,
        Option("give up when one collective takes longer, as 30, 30s or 5m (default: 60 s)"),
    ]


class BenchOptions(OperationOptions, MeasureOptions, total=False):
    """Everything that can be said of a benchmark."""


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """Add everything that can be said of a benchmark."""
    add_options(parser, BenchOptions)


def plan_bench(**options: Unpack[BenchOptions]) -> BenchPlan:
    """Read what is asked for. Raise UsageError naming what is accepted."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    given |= {name: read_size(given[name]) for name in ("min_bytes", "max_bytes") if name in given}
    ops, is_checked = given.pop("ops", None), given.pop("check", True)
    plan = BenchPlan(**given, is_checked=is_checked)
    if plan.max_bytes is not None and plan.max_bytes < plan.min_bytes:
        raise UsageError(
            f"sizes from {tell_size(plan.min_bytes)} to {tell_size(plan.max_bytes)}: the largest "
            "must not be less than the smallest."
        )
    if not isinstance(plan.factor, int) or plan.factor < 2:
        raise UsageError(
            f"factor {plan.factor!r} is not accepted: give a whole number of 2 or more."
        )
    if plan.dtype not in DTYPES:
        raise UsageError(f"dtype {plan.dtype!r} is not accepted. Accepted: {', '.join(DTYPES)}.")
    if not plan.timeout_s > 0:
        raise UsageError(f"timeout {plan.timeout_s} is not accepted: it must be more than 0 s.")
    return replace(plan, ops=read_ops(ops))
