"""Measure what one all_reduce costs the host, ours against the bare bindings, on a real GPU.

python benchmarks/gpu/nccl_overhead.py [--calls 200] [--rounds 31] [--json FILE]

One rank alone: NCCL copies, so that what is measured is the way there, which is the same for any
number of ranks. A sample is the time until so many calls have been queued, divided by their number;
the device is waited for outside of it. `nccl4py` is NVIDIA's binding called with numbers, as
blocking and as non-blocking communicator (then asked until the call is queued, as NCCL demands);
`cupyx` is cupyx.distributed's own layer. All take turns in each round; the table has medians.
"""

# ruff: noqa: SLF001  (cupyx.distributed has no public way in)
import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
from cupy.cuda import nccl as cupy_nccl
from cupyx.distributed._nccl_comm import NCCLBackend
from nccl.bindings import nccl

sys.path.insert(0, str(Path(__file__).parents[1]))
from machine import describe_machine

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.transport import RingTransport

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


def make_ours(recorder: CollectiveRecorder) -> NcclCommunicator:
    """Give a communicator of one rank as in a cell."""
    group = Group(0, 1, generation=1)
    transport = RingTransport(group, socket.socket(), ["127.0.0.1:1"], b"")
    return NcclCommunicator(HostCommunicator(group, transport, recorder))


def measure(calls: int, rounds: int) -> dict[str, list[float]]:
    """Give the microseconds of one call in each round, by contender."""
    source, target = cupy.ones(1024, cupy.float32), cupy.empty(1024, cupy.float32)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = CollectiveRecorder(Path(folder) / "rank-0.collectives")
        comm = make_ours(recorder)
        contenders: dict[str, Callable[[Any, Any], Any]] = {
            "ours": lambda source, target: comm.all_reduce(source, out=target),
            "nccl4py blocking": make_bare(1),
            "nccl4py": make_bare(0),
            "cupyx": make_cupyx(),
        }
        samples: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, call in contenders.items():
                start_s = time.perf_counter()
                for _ in range(calls):
                    call(source, target)
                elapsed_s = time.perf_counter() - start_s
                cupy.cuda.get_current_stream().synchronize()
                comm.settle()
                if number:
                    samples[name].append(elapsed_s / calls * 1e6)
        comm.close()
        recorder.close()
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    samples = measure(options.calls, options.rounds)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    report = {
        "machine": {**describe_machine(), "gpu": device},
        "versions": {"cupy": cupy.__version__, "nccl": nccl.get_version()},
        "NCCL_COMM_BLOCKING": os.environ.get("NCCL_COMM_BLOCKING", ""),
        "median_us": medians,
        "quickest_us": {name: min(found) for name, found in samples.items()},
    }
    for name, value in report["machine"].items():
        print(f"{name}: {value}")
    print(f"cupy {cupy.__version__}, NCCL {nccl.get_version()}")
    print(f"{'':>18} {'median µs':>10} {'above nccl4py':>14}")
    for name, median in medians.items():
        print(f"{name:>18} {median:10.2f} {median - medians['nccl4py']:14.2f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
