"""Measure what one all_reduce costs the host, ours against the bare bindings, on a real GPU.

python benchmarks/gpu/nccl_overhead.py [--calls 200] [--rounds 31] [--json FILE]

One rank alone: NCCL copies, so that what is measured is the way there, which is the same for any
number of ranks. A sample is the time until so many calls have been queued, divided by their number;
the device is waited for outside of it. `nccl4py` is NVIDIA's binding called with numbers, as
blocking and as non-blocking communicator (then asked until the call is queued, as NCCL demands);
`cupyx` is cupyx.distributed's own layer. All take turns in each round; the table has medians.
"""

# ruff: noqa: SLF001  (cupyx.distributed has no public way in)
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cupy
from cupy.cuda import nccl as cupy_nccl
from cupyx.distributed._nccl_comm import NCCLBackend
from nccl.bindings import nccl

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import Samples, medians_of, publish, read_options, summarise
from machine import describe_machine
from one_rank import open_communicator, time_loops

IN_PROGRESS = 7
FLOAT32, SUM = 7, 0


def make_bare(blocking: int) -> Callable[[Any, Any], None]:
    """Give nccl4py's all_reduce over a communicator of its own."""
    config = nccl.Config()
    config.blocking = blocking
    handle = nccl.comm_init_rank_config(1, nccl.get_unique_id(), 0, config)
    while nccl.comm_get_async_error(handle) == IN_PROGRESS:
        time.sleep(0.001)

    def call(source: Any, target: Any) -> None:
        nccl.all_reduce(
            source.data.ptr,
            target.data.ptr,
            source.size,
            FLOAT32,
            SUM,
            handle,
            cupy.cuda.get_current_stream().ptr,
        )
        if not blocking:
            while nccl.comm_get_async_error(handle) == IN_PROGRESS:
                pass

    return call


def make_cupyx() -> Callable[[Any, Any], None]:
    """Give cupyx.distributed's all_reduce, without its store."""
    backend = NCCLBackend.__new__(NCCLBackend)
    backend._comm = cupy_nccl.NcclCommunicator(1, cupy_nccl.get_unique_id(), 0)
    backend.rank, backend._n_devices, backend._use_mpi = 0, 1, False
    reduce: Callable[[Any, Any], None] = backend.all_reduce
    return reduce


def measure(calls: int, rounds: int) -> Samples:
    """Give the microseconds of one call in each round, by contender."""
    source, target = cupy.ones(1024, cupy.float32), cupy.empty(1024, cupy.float32)
    with open_communicator() as comm:
        contenders: dict[str, Callable[[Any, Any], Any]] = {
            "ours": lambda source, target: comm.all_reduce(source, out=target),
            "nccl4py blocking": make_bare(1),
            "nccl4py": make_bare(0),
            "cupyx": make_cupyx(),
        }

        def repeat(call: Callable[[Any, Any], Any], count: int) -> None:
            for _ in range(count):
                call(source, target)

        def settle() -> None:
            cupy.cuda.get_current_stream().synchronize()
            comm.settle()

        loops = {name: partial(repeat, call) for name, call in contenders.items()}
        return time_loops(loops, calls, rounds, settle)


def main() -> None:
    options = read_options(__doc__, calls=200, rounds=31)
    samples = measure(options.calls, options.rounds)
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    publish(
        options,
        summarise(samples, above="nccl4py"),
        machine={**describe_machine(), "gpu": device},
        versions={"cupy": cupy.__version__, "nccl": nccl.get_version()},
        NCCL_COMM_BLOCKING=os.environ.get("NCCL_COMM_BLOCKING", ""),
        median_us=medians_of(samples),
    )


if __name__ == "__main__":
    main()
