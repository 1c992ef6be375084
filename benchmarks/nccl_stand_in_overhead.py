"""Measure what our Python adds to nccl4py's all_reduce, on a libnccl in the memory of the host.

python benchmarks/nccl_stand_in_overhead.py [--calls 500] [--rounds 31] [--polls 0] [--json FILE]

CuPy and nccl4py are the real ones; libnccl, streams and events are those of tests/nccl_stand_in, in
C. One rank reduces in place. `bare` is nccl4py called with numbers and asked until the call is
queued, as NCCL demands; `with events` records one event before and one after it, which cost here
what the stand-in's Python takes for them, and less with CuPy's own. `ours` has all checks of
`comm.all_reduce(array, out=array)`, the recorder, and the same two events. Kinds take turns in each
round, and what is queued is waited for outside of the time; the table has medians. `--polls` is how
often NCCL says that a call is in progress: from the second time on `ours` lets other threads run.
"""

# ruff: noqa: E402  (the stand-in is put under CuPy before it is used)
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [
    str(Path(__file__).parents[1] / "tests" / "nccl_stand_in" / name) for name in ("", "plugin")
]
from building import compile_library

LIBRARY = tempfile.TemporaryDirectory()
os.environ["NCCL_STAND_IN"] = LIBRARY.name
compile_library(Path(LIBRARY.name))

import cupy
import numpy as np
import stand_in
from figures import Samples, medians_of, publish, read_options, summarise
from machine import describe_machine
from nccl.bindings import nccl
from one_rank import compile_loops, open_communicator, time_loops

BUDGET_US = 5.0
"""Of Python for one call, above the bare binding."""
IN_PROGRESS = 7

CELL = """
def bare(count):
    for _ in range(count):
        binding.all_reduce(array.data.ptr, array.data.ptr, array.size, 7, 0, handle, 0)
        while binding.comm_get_async_error(handle) == 7:
            pass

def with_events(count):
    for _ in range(count):
        record(begun, 0)
        binding.all_reduce(array.data.ptr, array.data.ptr, array.size, 7, 0, handle, 0)
        while binding.comm_get_async_error(handle) == 7:
            pass
        record(ended, 0)

def ours(count):
    for _ in range(count):
        comm.all_reduce(array, out=array)
"""


def form_bare() -> Any:
    """Form a communicator of one rank by nccl4py alone."""
    config = nccl.Config()
    config.blocking = 0
    handle = nccl.comm_init_rank_config(1, nccl.get_unique_id(), 0, config)
    while nccl.comm_get_async_error(handle) == IN_PROGRESS:
        time.sleep(0.001)
    return handle


def measure(calls: int, rounds: int) -> Samples:
    """Return the microseconds of one call in each round, by kind."""
    runtime = cupy.cuda.runtime
    with open_communicator() as comm:
        names: dict[str, Any] = {
            "comm": comm,
            "array": stand_in.put(np.zeros((32, 32), np.float32)),
            "binding": nccl,
            "handle": form_bare(),
            "record": runtime.eventRecord,
            "begun": runtime.eventCreateWithFlags(0),
            "ended": runtime.eventCreateWithFlags(0),
        }

        def settle() -> None:
            cupy.cuda.get_current_stream().synchronize()
            comm.settle()

        samples = time_loops(compile_loops(CELL, names), calls, rounds, settle)
    nccl.comm_abort(names["handle"])
    return samples


def main() -> None:
    options = read_options(__doc__, calls=500, rounds=31, polls=0)
    os.environ["NCCL_STAND_IN_POLLS"] = str(options.polls)
    stand_in.install(cupy)
    samples = measure(options.calls, options.rounds)
    table = summarise(samples, above="bare")
    for name, median_us in (medians := medians_of(samples)).items():
        table[name]["above_events_us"] = median_us - medians["with_events"]
    versions = {"cupy": cupy.__version__, "nccl (stand-in)": nccl.get_version()}
    publish(options, table, machine=describe_machine(), versions=versions, budget_us=BUDGET_US)
    print(f"budget: {BUDGET_US} µs of Python above the same calls made bare")


if __name__ == "__main__":
    main()
