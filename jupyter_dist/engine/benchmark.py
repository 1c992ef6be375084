"""Measures collectives: every rank makes the same calls, and tells what came of them.

How often a call is repeated is decided by rank 0 and told to all, because ranks that count for
themselves would fall out of step. What is wrong in its results each rank counts for itself: a
collective that does not work must not have a say in that.
"""

from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from jupyter_dist.collective.communicator import Communicator
from jupyter_dist.model.bench.bench_plan import BenchPlan, piece_counts
from jupyter_dist.model.bench.measurements import (
    PROGRESS_MIME,
    BenchProgress,
    Measured,
    RankBench,
    size_of,
)
from jupyter_dist.probe.software import list_versions

POINT_S = 0.3
"""About so long a point is measured."""
FEWEST_CALLS = 3
MOST_CALLS = 100
_PERIOD = 8191
"""A prime, so that a piece that lands in the wrong place is seen."""
_LARGEST_VALUE = 6
_EXACT_SUM = 2048
"""Up to here every type has every whole number but those that wrap around, and those do on all."""

_MADE_OF = {"nccl": ("cupy", "nccl", "driver")}

Call = Callable[[], object]
Publish = Callable[[dict[str, Any]], object]
"""Displays a bundle, by its MIME types."""
_Part = tuple[Any, NDArray[Any], int]
"""A part of a result, the pattern that must be there, and where in the pattern it begins."""


def measure(communicator: Communicator, plan: BenchPlan, publish: Publish) -> RankBench:
    """Measure what the plan says; rank 0 displays a BenchProgress before each measurement."""
    usual_s = communicator.timeout_s
    memory = DeviceMemory() if communicator.kind == "nccl" else HostMemory()
    communicator.timeout_s = plan.timeout_s
    try:
        bench = _Bench(communicator, plan, memory, publish)
        itemsize = np.dtype(plan.dtype).itemsize
        points = tuple(
            bench.measure(op, count)
            for op, count in piece_counts(plan, communicator.kind, itemsize, communicator.size)
        )
    finally:
        communicator.timeout_s = usual_s
        memory.release()
    return RankBench(communicator.kind, points, _versions(communicator.kind))


class HostMemory:
    """Arrays of numpy: a call has filled them when it returns."""

    library: Any = np

    def fetch(self, array: Any) -> NDArray[Any]:
        """Return it as it is."""
        return np.asarray(array)

    def time(self, call: Call, count: int) -> list[float]:
        """Call so many times in a row; give the seconds that each took."""
        marks = [0.0] * (count + 1)
        marks[0] = perf_counter()
        for index in range(1, count + 1):
            call()
            marks[index] = perf_counter()
        return [after - before for before, after in pairwise(marks)]

    def release(self) -> None:
        """Do nothing: numpy keeps nothing."""


class DeviceMemory:
    """Arrays of CuPy: a call is done when the current stream has come past it."""

    @cached_property
    def library(self) -> Any:
        """CuPy, which nobody else shall load."""
        import cupy

        return cupy

    def fetch(self, array: Any) -> NDArray[Any]:
        """Copy it to the host."""
        return np.asarray(self.library.asnumpy(array))

    def time(self, call: Call, count: int) -> list[float]:
        """Call so many times in a row; give the seconds between them on the device's clock."""
        cuda = self.library.cuda
        marks = [cuda.Event() for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        marks[-1].synchronize()
        return [cuda.get_elapsed_time(*pair) / 1e3 for pair in pairwise(marks)]

    def release(self) -> None:
        """Give unused memory back to the device."""
        self.library.get_default_memory_pool().free_all_blocks()


class _Bench:
    """The points of one plan, one after the other."""

    def __init__(
        self,
        communicator: Communicator,
        plan: BenchPlan,
        memory: HostMemory | DeviceMemory,
        publish: Publish,
    ) -> None:
        self._comm, self._publish = communicator, publish
        self._plan = plan
        self._memory = memory
        self._dtype = np.dtype(plan.dtype)
        self._patterns = make_patterns(communicator.size, self._dtype, memory.library)

    def measure(self, op: str, count: int) -> Measured:
        """Measure one operation with `count` elements in one piece."""
        nbytes = size_of(op, count, self._dtype.itemsize, self._comm.size)
        if self._comm.rank == 0:
            progress = BenchProgress(op, nbytes)
            bundle = {PROGRESS_MIME: msgspec.to_builtins(progress), "text/plain": str(progress)}
            self._publish(bundle)
        sent, out = self._buffers(op, count)
        call = self._call(op, sent, out)
        parts = self._expected(op, count, out)
        call()  # the first one connects
        wrong = self._count_wrong(parts)
        calls = self._choose_calls(call)
        self._comm.barrier()
        own = self._memory.time(call, calls)
        self._comm.barrier()
        wrong = max(wrong, self._count_wrong(parts))
        slowest_s = self._slowest(own)
        return Measured(
            op=op,
            nbytes=nbytes,
            iterations=calls,
            median_s=float(np.median(slowest_s)),
            p99_s=float(np.quantile(slowest_s, 0.99)),
            min_s=float(slowest_s.min()),
            wrong=wrong if self._plan.is_checked else None,
        )

    def _choose_calls(self, call: Call) -> int:
        """Let rank 0 decide how often to call, and give its answer on every rank."""
        self._comm.barrier()
        before_s = perf_counter()
        call()
        self._comm.barrier()
        duration_s = perf_counter() - before_s
        wish = _in_bounds(round(POINT_S / duration_s))
        told = self._comm.broadcast(self._memory.library.asarray([wish]), root=0)
        return _in_bounds(int(told[0]))

    def _slowest(self, own_s: list[float]) -> NDArray[np.float64]:
        """Give, for each call, the time of the slowest rank."""
        library = self._memory.library
        told_s = self._memory.fetch(self._comm.all_reduce(library.asarray(own_s), op="max"))
        # Less than its own no rank believes: even all_reduce may be what is broken.
        slowest_s: NDArray[np.float64] = np.fmax(own_s, told_s)
        return slowest_s

    # --- what is sent, and what must come ---

    def _buffers(self, op: str, count: int) -> tuple[Any, Any]:
        """Make what this rank sends, and room for what it gets (filled with what never comes)."""
        size, is_root = self._comm.size, self._comm.rank == 0
        stacked = (size, count)
        sent_shape = stacked if op in ("reduce_scatter", "all_to_all", "scatter") else (count,)
        out_shape = stacked if op in ("all_gather", "all_to_all", "gather") else (count,)
        library = self._memory.library
        sent: Any = None
        if op != "scatter" or is_root:
            own = self._patterns[self._comm.rank]
            sent = _stretch(library, own, 0, int(np.prod(sent_shape))).reshape(sent_shape)
        out: Any = None
        if op not in ("reduce", "gather") or is_root:
            never = np.asarray(_LARGEST_VALUE * size + 1).astype(self._dtype)
            out = library.full(out_shape, never.item(), self._dtype)
        return sent, out

    def _call(self, op: str, sent: Any, out: Any) -> Call:
        comm = self._comm
        if op == "send_recv":
            after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            return partial(comm.send_recv, sent, after, out, before)
        return partial(getattr(comm, op), sent, out=out)

    def _expected(self, op: str, count: int, out: Any) -> list[_Part]:
        """Return what must be in each part of the result; nothing where there is none."""
        rank, size = self._comm.rank, self._comm.size
        if out is None:
            return []
        total = self._patterns[-1]
        each = list(enumerate(self._patterns[:-1]))
        match op:
            case "all_reduce" | "reduce":
                return [(out, total, 0)]
            case "reduce_scatter":
                return [(out, total, rank * count)]
            case "broadcast":
                return [(out, each[0][1], 0)]
            case "scatter":
                return [(out, each[0][1], rank * count)]
            case "send_recv":
                return [(out, each[(rank - 1) % size][1], 0)]
            case "all_gather" | "gather":
                return [(out[other], pattern, 0) for other, pattern in each]
            case "all_to_all":
                return [(out[other], pattern, rank * count) for other, pattern in each]
            case _:
                raise ValueError(op)

    def _count_wrong(self, parts: list[_Part]) -> int:
        if not self._plan.is_checked:
            return 0
        library = self._memory.library
        return sum(
            int(library.count_nonzero(found != _stretch(library, pattern, start, found.size)))
            for found, pattern, start in parts
        )


def _in_bounds(calls: int) -> int:
    return min(MOST_CALLS, max(FEWEST_CALLS, calls))


def make_patterns(size: int, dtype: np.dtype[Any], library: Any = np) -> list[Any]:
    """Make one period of what each rank sends, and last of their sum: small whole numbers.

    They are the same on every machine, differ from rank to rank, and their sums are exact.
    """
    values = min(_LARGEST_VALUE, _EXACT_SUM // size) + 1
    index = np.arange(_PERIOD, dtype=np.uint64)
    own = []
    for rank in range(size):
        mixed = (index * np.uint64(2654435761) + np.uint64(rank * 40503 + 12345)) % np.uint64(2**32)
        mixed = (mixed ^ (mixed >> np.uint64(15))) * np.uint64(2246822519) % np.uint64(2**32)
        own.append((mixed >> np.uint64(16)) % np.uint64(values))
    # Added up as large integers: narrow ones wrap around to the same, in whatever order.
    total = np.sum(own, axis=0, dtype=np.uint64)
    return [library.asarray(pattern.astype(dtype)) for pattern in (*own, total)]


def _stretch(library: Any, pattern: Any, start: int, count: int) -> Any:
    """Give `count` elements of the endlessly repeated pattern, from `start` on."""
    turned = library.roll(pattern, -(start % _PERIOD))
    return library.tile(turned, -(-count // _PERIOD))[:count]


def _versions(kind: str) -> dict[str, str]:
    """Return the versions of what was measured; nothing else that is installed matters."""
    matter = ("python", "jupyter-dist", *_MADE_OF.get(kind, ("numpy",)))
    return {name: version for name, version in list_versions().items() if name in matter}
