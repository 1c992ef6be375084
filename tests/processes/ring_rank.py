"""The program that each rank of test_ring_communicator.py runs: one scenario, told as JSON lines."""

import json
import os
import sys
import threading
import time

import numpy as np

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.errors import CommunicatorError

KEY = b"a shared secret"
DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64")
SHAPES = ((), (0,), (3, 0), (1,), (5,), (7, 3), (4099,), (3, 50021))
REDUCERS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def say(**facts):
    print(json.dumps(facts), flush=True)


def values(rank, shape, dtype):
    numbers = np.random.default_rng(rank).integers(1, 3, size=shape)
    return np.asarray(numbers).astype(dtype) if dtype != "bool" else np.asarray(numbers > 1)


def same(found, expected):
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(found).dtype == expected.dtype


def check_collectives(comm, shape, dtype):
    inputs = [values(rank, shape, dtype) for rank in range(comm.size)]
    mine, before = inputs[comm.rank], inputs[comm.rank].copy()
    stack = np.stack(inputs)
    for name, ufunc in REDUCERS.items():
        expected = np.asarray(ufunc.reduce(stack, axis=0, dtype=dtype))
        same(comm.all_reduce(mine, name), expected)
        out = np.empty_like(mine)
        assert comm.all_reduce(mine, name, out=out) is out
        same(out, expected)
        same(mine, before)
        in_place = mine.copy()
        same(comm.all_reduce(in_place, name, out=in_place), expected)
        reduced = comm.reduce(mine, comm.size - 1, name)
        if comm.rank == comm.size - 1:
            same(reduced, expected)
        else:
            assert reduced is None
        rows = np.stack([mine] * comm.size)
        same(comm.reduce_scatter(rows, name), expected)
    same(comm.all_gather(mine), stack)
    for root in range(comm.size):
        same(comm.broadcast(mine, root), inputs[root])
        gathered = comm.gather(mine, root)
        if comm.rank == root:
            same(gathered, stack)
        else:
            assert gathered is None
        same(comm.scatter(stack if comm.rank == root else mine, root), mine)
    grid = np.stack([values(10 * comm.rank + to, shape, dtype) for to in range(comm.size)])
    back = [values(10 * source + comm.rank, shape, dtype) for source in range(comm.size)]
    same(comm.all_to_all(grid), np.stack(back))
    following, previous = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    room = np.empty_like(mine)
    assert comm.send_recv(mine, following, room, previous) is room
    same(room, inputs[previous])
    comm.barrier()
    same(mine, before)


def everything(comm):
    for dtype in DTYPES:
        for shape in SHAPES:
            check_collectives(comm, shape, dtype)
    assert comm.all_reduce(comm.rank) == sum(range(comm.size))
    assert str(comm.all_reduce(1.5)) == str(1.5 * comm.size)
    if comm.size > 1:
        if comm.rank == 0:
            comm.send([1.0, 2.0], dest=1)
        elif comm.rank == 1:
            assert comm.recv(np.empty(2), source=0).tolist() == [1.0, 2.0]
    say(done=True)


def reduce_for_ever(comm):
    array = np.ones(1 << 24, np.float32)
    comm.all_reduce(array)
    say(running=True)
    while True:
        comm.all_reduce(array, out=array)


def come_late(comm):
    comm.barrier()
    comm.timeout_s = 0.5
    if comm.rank == 1:
        assert sys.stdin.readline()
    else:
        comm.all_reduce(np.ones(1000))


def mismatch(comm, odd):
    array = np.ones(4, np.float32)
    calls = {
        "operation": lambda: comm.reduce_scatter(np.ones((comm.size, 1))),
        "reduction": lambda: comm.all_reduce(array, "max"),
        "shape": lambda: comm.all_reduce(np.ones(5, np.float32)),
        "dtype": lambda: comm.all_reduce(np.ones(4, np.int32)),
        "big": lambda: comm.all_reduce(np.ones(1 << 20, np.float32)),
        "extra": lambda: (comm.barrier(), comm.all_reduce(array)),
        "root": lambda: comm.broadcast(array, root=2),
    }
    comm.barrier()
    if comm.rank == 1:
        calls[odd]()
    elif odd == "root":
        comm.broadcast(array, root=0)
    else:
        comm.all_reduce(array)
    # Without data from the others a root may be through before anybody looked.
    comm.barrier()


def wait_for_rank_1(comm):
    comm.barrier()
    say(running=True)
    if comm.rank == 1:
        assert sys.stdin.readline()
    comm.all_reduce(np.ones(100))
    say(done=True)


def abort_while_waiting(comm):
    comm.barrier()
    if comm.rank == 0:
        threading.Timer(0.1, comm.abort, (1, "raised ValueError")).start()
        comm.all_reduce(np.ones(100))
    elif comm.rank == 1:
        assert sys.stdin.readline()
    else:
        comm.all_reduce(np.ones(100))


def some_ranks_only(comm):
    comm.participants = frozenset({0, 2})
    try:
        comm.all_reduce(1)
    except CommunicatorError as error:
        say(refused=str(error))
    if comm.rank == 0:
        comm.send(np.arange(3), 2)
    elif comm.rank == 2:
        assert comm.recv(np.empty(3, int), 0).tolist() == [0, 1, 2]
    comm.participants = None
    comm.barrier()
    say(done=True)


def open_sockets():
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    return sum(link.startswith("socket:") for link in links)


def run_rank(rank, size, scenario, *extra):
    sockets_before = open_sockets()
    listener = bind_listener("127.0.0.1")
    say(address=address_of(listener))
    peers = json.loads(sys.stdin.readline())
    group = Group(int(rank), int(size), 3)
    comm = HostCommunicator(group, RingTransport(group, listener, peers, KEY))
    comm.timeout_s = 60.0
    play(comm, globals()[scenario], *extra)
    comm.close()
    say(left=open_sockets() - sockets_before, threads=threading.active_count())


def play(comm, scenario, *extra):
    """Do what the scenario says, and tell how it ended."""
    try:
        scenario(comm, *extra)
    except (CommunicatorError, KeyboardInterrupt) as error:
        say(raised=type(error).__name__, text=str(error), at=time.monotonic())
        try:
            comm.barrier()
        except CommunicatorError as later:
            say(later=type(later).__name__, text=str(later))
