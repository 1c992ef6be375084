"""The program that each rank of test_gloo.py runs: one scenario, told as JSON lines."""

import functools
import sys
import threading
import time

import numpy as np
import ring_rank
from ranks_folder import Folder
from ring_rank import open_sockets, play, same, say

from jupyter_dist.collective.dtypes import find_dtype
from jupyter_dist.collective.gloo.transport import GlooTransport
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator

REDUCERS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def everything(comm):
    ring_rank.everything(comm)
    odd_types(comm)
    read_only(comm)


def odd_types(comm):
    """Types and values that gloo itself would reduce in another way, or not at all."""
    numbers = np.arange(7) % 5 - 1
    inputs = {name: numbers.astype(find_dtype(name)) for name in ("bfloat16", "float8_e4m3fn")}
    inputs["float8_e5m2"] = numbers.astype(find_dtype("float8_e5m2"))
    inputs |= {name: numbers.astype(name) for name in (">f4", ">i8", "uint16", "g", "complex128")}
    with_nan = [np.nan, 1, 2]
    inputs |= {name: np.array(with_nan, name) for name in ("float16", "float32", "float64")}
    inputs |= {name: np.array([200, 100, 3]).astype(name) for name in ("uint8", "int8", "uint64")}
    for name, array in inputs.items():
        mine = np.roll(array, comm.rank)
        stack = np.empty((comm.size, *array.shape), array.dtype)  # np.stack would turn bytes round
        stack[:] = [np.roll(array, rank) for rank in range(comm.size)]
        for op, ufunc in REDUCERS.items():
            with np.errstate(invalid="ignore"):
                expected = functools.reduce(ufunc, stack).astype(stack.dtype)
            same_bits(comm.all_reduce(mine, op), expected, name)
            reduced = comm.reduce(mine, 0, op)
            if comm.rank == 0:
                same_bits(reduced, expected, name)
            rows = np.empty_like(stack)
            rows[:] = mine
            same_bits(comm.reduce_scatter(rows, op), expected, name)
        same_bits(comm.all_gather(mine), stack, name)


def same_bits(found, expected, name):
    # Of a NaN only that it is one is agreed on.
    assert found.dtype == expected.dtype, name
    either = found.astype(np.complex128), expected.astype(np.complex128)
    np.testing.assert_array_equal(*either, err_msg=name)


def read_only(comm):
    array = np.arange(5.0) + comm.rank
    array.flags.writeable = False
    same(comm.all_gather(array)[comm.rank], array)
    same(comm.all_reduce(array), sum(np.arange(5.0) + rank for rank in range(comm.size)))


def messages_in_any_order(comm):
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    for count in (0, 1, 300_000):
        rooms = {rank: np.empty(count, np.int32) for rank in others}
        with comm.group():
            for rank in others:
                comm.recv(rooms[rank], rank)
            for rank in reversed(others):
                comm.send(np.full(count, 10 * comm.rank + rank, np.int32), rank)
        for rank, room in rooms.items():
            same(room, np.full(count, 10 * rank + comm.rank, np.int32))
    say(done=True)


def halves(comm):
    half = comm.split(comm.rank % 2, key=-comm.rank)
    same(half.all_gather(comm.rank), np.array(half.world_ranks))
    assert half.world_ranks == tuple(sorted(half.world_ranks, reverse=True))
    assert comm.split(None if comm.rank else 0) is None or comm.rank == 0
    comm.barrier()
    say(done=True)


def upper_half_is_late(comm):
    half = comm.split(comm.rank // 2)
    comm.barrier()
    if comm.rank == 2:
        assert sys.stdin.readline()
    if comm.rank == 3:
        comm.timeout_s = 0.5
    if comm.rank >= 2:
        half.all_reduce(1)


def beside_torch_distributed(comm, folder):
    import torch
    import torch.distributed as dist

    method = f"file://{folder}/of the user"
    dist.init_process_group("gloo", init_method=method, rank=comm.rank, world_size=comm.size)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert comm.all_reduce(tensor).tolist() == [comm.size**2] * 3
    dist.destroy_process_group()
    assert comm.all_reduce(1) == comm.size
    say(done=True)


def abort_while_receiving(comm):
    comm.barrier()
    if comm.rank == 0:
        timer = threading.Timer(0.3, comm.abort, (1, "raised ValueError"))
        timer.start()
        say(aborted_at=time.monotonic() + 0.3)
        comm.recv(np.empty(9), 1)
    elif comm.rank == 1:
        assert sys.stdin.readline()
    else:
        comm.recv(np.empty(9), 0)


def receive_from_rank_1(comm):
    comm.barrier()
    say(running=True)
    if comm.rank == 1:
        assert sys.stdin.readline()
    else:
        comm.recv(np.empty(9), 1)


def run_rank(rank, size, scenario, folder, *extra):
    sockets_before = open_sockets()
    say(address="")
    sys.stdin.readline()
    comm = HostCommunicator(
        group := Group(int(rank), int(size), 3),
        GlooTransport(group, "127.0.0.1", Folder(folder)),
    )
    comm.timeout_s = 60.0
    play(comm, globals().get(scenario) or getattr(ring_rank, scenario), *extra)
    comm.close()
    say(left=open_sockets() - sockets_before, threads=threading.active_count())
