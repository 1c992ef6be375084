"""Measure what our Python adds to each NCCL call, in one process without a GPU.

python benchmarks/nccl_overhead.py [--calls 5000] [--rounds 31] [--json FILE]

Arrays are CuPy's own, over memory that nobody touches; what leads into the driver and into libnccl
(the current stream, events, the call itself) is replaced by functions in C that do nothing. A
sample is the time of many `comm.all_reduce(array, out=array)`, divided by their number; the bare
call of the binding is measured likewise and taken off. Kinds take turns in each round; the table
has medians over all rounds, and the quickest round. benchmarks/gpu/nccl_overhead.py measures the
same on a GPU.
"""

import argparse
import itertools
import json
import math
import operator
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np
from machine import describe_machine

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.api import Nccl4py
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.collective.nccl.cuda import Cuda
from jupyter_dist.collective.nccl.device import Ways
from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.transport import RingTransport

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


def make_communicator(recorder: CollectiveRecorder) -> NcclCommunicator:
    """Make a communicator of one rank."""
    group = Group(0, 1, generation=1)
    transport = RingTransport(group, socket.socket(), ["127.0.0.1:1"], b"")
    fake = make_cupy()
    binding = make_binding()
    ways = Ways(lambda: Cuda(fake), lambda: Nccl4py(binding), lambda: None)
    return NcclCommunicator(HostCommunicator(group, transport, recorder), ways)


def measure(calls: int, rounds: int) -> dict[str, list[float]]:
    """Give the microseconds of one call in each round, by kind."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = CollectiveRecorder(Path(folder) / "rank-0.collectives")
        recorder.begin_cell("In[1]", "cell-1")
        comm = make_communicator(recorder)
        names: dict[str, Any] = {
            "comm": comm,
            "array": make_array(),
            "other": make_array(),
            "binding": NOTHING,
            "handle": "handle",
            "stream": 0,
        }
        exec(compile(CELL, "In[1]", "exec"), names)
        loops = {name: names[name] for name in ("in_place", "beside", "bare")}
        samples: dict[str, list[float]] = {name: [] for name in loops}
        for number in range(rounds + 1):
            for name, loop in loops.items():
                start_s = time.perf_counter()
                loop(calls)
                elapsed_s = time.perf_counter() - start_s
                comm.settle()
                if number:  # the first round forms it and fills the caches
                    samples[name].append(elapsed_s / calls * 1e6)
        comm.close()
        recorder.close()
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    samples = measure(options.calls, options.rounds)
    bare = statistics.median(samples["bare"])
    figures = {
        name: {
            "median_us": statistics.median(found),
            "quickest_us": min(found),
            "above_bare_us": statistics.median(found) - bare,
        }
        for name, found in samples.items()
    }
    report = {
        "machine": describe_machine(),
        "versions": {"cupy": cupy.__version__, "numpy": np.__version__},
        "budget_us": BUDGET_US,
        "figures": figures,
    }
    for name, value in report["machine"].items():
        print(f"{name}: {value}")
    print(f"cupy {cupy.__version__}, numpy {np.__version__}, load {os.getloadavg()[0]:.1f}")
    print(f"all_reduce of float32[32,32], {options.calls} calls, {options.rounds} rounds")
    print(f"{'':>12} {'median µs':>10} {'quickest':>10} {'above the bare call':>20}")
    for name, row in figures.items():
        print(
            f"{name:>12} {row['median_us']:10.2f} {row['quickest_us']:10.2f} "
            f"{row['above_bare_us']:20.2f}"
        )
    print(f"budget: {BUDGET_US} µs above the bare call")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
