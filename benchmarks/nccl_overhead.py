"""Measure what our Python adds to each NCCL call, in one process without a GPU.

python benchmarks/nccl_overhead.py [--calls 5000] [--rounds 31] [--json FILE]

Arrays are CuPy's own, over memory that nobody touches; what leads into the driver and into libnccl
(the current stream, events, the call itself) is replaced by functions in C that do nothing. A
sample is the time of many `comm.all_reduce(array, out=array)`, divided by their number; the bare
call of the binding is measured likewise and taken off. Kinds take turns in each round; the table
has medians over all rounds, and the quickest round. benchmarks/gpu/nccl_overhead.py measures the
same on a GPU.
"""

import itertools
import math
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np
from figures import Samples, publish, read_options, summarise
from machine import describe_machine
from one_rank import compile_loops, open_communicator, time_loops

from jupyter_dist.collective.nccl.api import Nccl4py
from jupyter_dist.collective.nccl.cuda import Cuda
from jupyter_dist.collective.nccl.device import Ways

BUDGET_US = 5.0
"""Of Python for one call, above the bare binding."""
NOTHING: Callable[..., Any] = "".format
"""A function in C that takes whatever it is given."""
DONE: Callable[[object], int] = operator.not_
"""One that gives 0 for what is not, which both CUDA and NCCL take for success."""

CELL = """
def in_place(count):
    for _ in range(count):
        comm.all_reduce(array, out=array)

def beside(count):
    for _ in range(count):
        comm.all_reduce(array, out=other)

def bare(count):
    for _ in range(count):
        binding(array.data.ptr, array.data.ptr, array.size, 7, 0, handle, stream)
"""


class Runtime(SimpleNamespace):
    """CUDA's runtime, when all that is queued has ended already."""

    CUDARuntimeError = RuntimeError


def make_cupy() -> Any:
    """Give CuPy's array type in front of a driver that does nothing."""
    stream = SimpleNamespace(ptr=0)
    runtime = Runtime(
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        setDevice=NOTHING,
        eventCreateWithFlags=lambda _flags: 1,
        eventDestroy=NOTHING,
        eventRecord=NOTHING,
        eventQuery=DONE,
        eventElapsedTime=math.hypot,
    )
    cuda = SimpleNamespace(
        runtime=runtime,
        # In C as CuPy's own is; it gives the only stream there is.
        get_current_stream=itertools.repeat(stream).__next__,
        Stream=lambda **_: stream,
    )
    return SimpleNamespace(cuda=cuda, ndarray=cupy.ndarray)


def make_binding() -> Any:
    """Give nccl4py's names in front of a libnccl that does nothing."""
    launches = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "send", "recv")
    return SimpleNamespace(
        NCCLError=RuntimeError,
        Config=SimpleNamespace,
        UniqueId=SimpleNamespace(from_buffer=bytes),
        get_unique_id=lambda: bytes(128),
        comm_init_rank_config=lambda *_: "handle",
        comm_get_async_error=DONE,
        comm_abort=NOTHING,
        comm_finalize=NOTHING,
        comm_destroy=NOTHING,
        group_start=NOTHING,
        group_end=NOTHING,
        **dict.fromkeys(launches, NOTHING),
    )


def make_array() -> Any:
    """Make an array of CuPy over memory that does not exist."""
    memory = cupy.cuda.UnownedMemory(1 << 20, 4096, None, 0)
    return cupy.ndarray((32, 32), np.float32, cupy.cuda.MemoryPointer(memory, 0))


def measure(calls: int, rounds: int) -> Samples:
    """Give the microseconds of one call in each round, by kind."""
    fake, binding = make_cupy(), make_binding()
    ways = Ways(lambda: Cuda(fake), lambda: Nccl4py(binding), lambda: None)
    with open_communicator(ways) as comm:
        names: dict[str, Any] = {
            "comm": comm,
            "array": make_array(),
            "other": make_array(),
            "binding": NOTHING,
            "handle": "handle",
            "stream": 0,
        }
        return time_loops(compile_loops(CELL, names), calls, rounds, comm.settle)


def main() -> None:
    options = read_options(__doc__, calls=5000, rounds=31)
    table = summarise(measure(options.calls, options.rounds), above="bare")
    versions = {"cupy": cupy.__version__, "numpy": np.__version__}
    publish(options, table, machine=describe_machine(), versions=versions, budget_us=BUDGET_US)
    print(f"budget: {BUDGET_US} µs above the bare call")


if __name__ == "__main__":
    main()
