"""The cell of all_reduce_sweep.py: runs on the ranks, which have `comm`, `rank` and `SIZES`."""

# ruff: noqa: F821, SLF001  (ranks have these names; cupyx.distributed has no public way in)
import json
import time
from itertools import pairwise

import cupy
import numpy as np

FLOAT32, SUM, IN_PROGRESS = 7, 0, 7


def make_bare(blocking):
    """Give nccl4py's all_reduce over a communicator of its own."""
    from nccl.bindings import nccl

    made = bytes(nccl.get_unique_id()) if comm.rank == 0 else None
    identity = nccl.UniqueId.from_buffer(comm.broadcast_object(made))
    config = nccl.Config()
    config.blocking = blocking
    handle = nccl.comm_init_rank_config(comm.size, identity, comm.rank, config)
    while nccl.comm_get_async_error(handle) == IN_PROGRESS:
        time.sleep(0.001)

    def call(array):
        pointer, stream = array.data.ptr, cupy.cuda.get_current_stream().ptr
        nccl.all_reduce(pointer, pointer, array.size, FLOAT32, SUM, handle, stream)
        while not blocking and nccl.comm_get_async_error(handle) == IN_PROGRESS:
            pass

    return call


def make_cupyx():
    """Give cupyx.distributed's all_reduce, without its store."""
    from cupy.cuda import nccl
    from cupyx.distributed._nccl_comm import NCCLBackend

    identity = comm.broadcast_object(nccl.get_unique_id() if comm.rank == 0 else None)
    backend = NCCLBackend.__new__(NCCLBackend)
    backend._comm = nccl.NcclCommunicator(comm.size, identity, comm.rank)
    backend.rank, backend._n_devices = comm.rank, comm.size
    backend._use_mpi = False
    return lambda array: backend.all_reduce(array, array)


def time_calls(call, array, count):
    """Give the microseconds of each of so many calls in a row, by the device's clock."""
    marks = [cupy.cuda.Event() for _ in range(count + 1)]
    comm.barrier()
    marks[0].record()
    for mark in marks[1:]:
        call(array)
        mark.record()
    marks[-1].synchronize()
    return [1e3 * cupy.cuda.get_elapsed_time(*pair) for pair in pairwise(marks)]


def sweep(sizes, rounds):
    """Give median microseconds of the slowest rank, by bytes and contender."""
    contenders = {
        "ours": lambda array: comm.all_reduce(array, out=array),
        "nccl4py blocking": make_bare(1),
        "nccl4py": make_bare(0),
        "cupyx": make_cupyx(),
    }
    found = {}
    for nbytes in sizes:
        array = cupy.zeros(max(1, nbytes // 4), "f4")
        count = 50 if nbytes <= 1 << 20 else 10
        samples = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, call in contenders.items():
                own = np.asarray(time_calls(call, array, count))
                slowest = comm.all_reduce(own, "max")
                if number:
                    samples[name] += slowest.tolist()
        found[nbytes] = {name: float(np.median(each)) for name, each in samples.items()}
    return found


json.dumps(sweep(SIZES, ROUNDS))
