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
import argparse
import json
import os
import socket
import statistics
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
from machine import describe_machine
from nccl.bindings import nccl

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.transport import RingTransport

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


def measure(calls: int, rounds: int) -> dict[str, list[float]]:
    """Return the microseconds of one call in each round, by kind."""
    runtime = cupy.cuda.runtime
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = CollectiveRecorder(Path(folder) / "rank-0.collectives")
        recorder.begin_cell("In[1]", "cell-1")
        group = Group(0, 1, generation=1)
        transport = RingTransport(group, socket.socket(), ["127.0.0.1:1"], b"")
        comm = NcclCommunicator(HostCommunicator(group, transport, recorder))
        names: dict[str, Any] = {
            "comm": comm,
            "array": stand_in.put(np.zeros((32, 32), np.float32)),
            "binding": nccl,
            "handle": form_bare(),
            "record": runtime.eventRecord,
            "begun": runtime.eventCreateWithFlags(0),
            "ended": runtime.eventCreateWithFlags(0),
        }
        exec(compile(CELL, "In[1]", "exec"), names)
        loops = {name: names[name] for name in ("bare", "with_events", "ours")}
        samples: dict[str, list[float]] = {name: [] for name in loops}
        for number in range(rounds + 1):
            for name, loop in loops.items():
                start_s = time.perf_counter()
                loop(calls)
                elapsed_s = time.perf_counter() - start_s
                cupy.cuda.get_current_stream().synchronize()
                comm.settle()
                if number:  # the first round forms it and fills the caches
                    samples[name].append(elapsed_s / calls * 1e6)
        comm.close()
        recorder.close()
        nccl.comm_abort(names["handle"])
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--polls", type=int, default=0)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    os.environ["NCCL_STAND_IN_POLLS"] = str(options.polls)
    stand_in.install(cupy)
    samples = measure(options.calls, options.rounds)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    report = {
        "machine": describe_machine(),
        "command": " ".join(sys.argv),
        "versions": {"cupy": cupy.__version__, "nccl (stand-in)": nccl.get_version()},
        "budget_us": BUDGET_US,
        "median_us": medians,
        "quickest_us": {name: min(found) for name, found in samples.items()},
    }
    for part in ("machine", "versions"):
        for name, value in report[part].items():
            print(f"{name}: {value}")
    print(f"command: {report['command']}, load {os.getloadavg()[0]:.1f}")
    print(f"{'':>12} {'median µs':>10} {'quickest':>10} {'above bare':>11} {'above events':>13}")
    for name, median in medians.items():
        print(
            f"{name:>12} {median:10.2f} {min(samples[name]):10.2f} "
            f"{median - medians['bare']:11.2f} {median - medians['with_events']:13.2f}"
        )
    print(f"budget: {BUDGET_US} µs of Python above the same calls made bare")
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
