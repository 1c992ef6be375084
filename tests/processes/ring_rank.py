"""The program that each rank of test_ring_communicator.py runs: one scenario, told as JSON lines."""

import json
import sys
import threading
import time
from functools import partial

import numpy as np
from ring_values import open_sockets

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.errors import CommunicatorError

KEY = b"a shared secret"


def say(**facts):
    print(json.dumps(facts), flush=True)


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


def all_of_a_host_differ(comm):
    comm.barrier()
    if comm.rank % 2:
        comm.all_to_all(np.ones((comm.size, 1)))
    else:
        comm.all_reduce(np.ones(comm.size))
    comm.barrier()


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
        "message": lambda: comm.recv(array, 0),
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


def wait_for(late, comm):
    comm.barrier()
    say(running=True)
    if comm.rank == late:
        assert sys.stdin.readline()
    comm.all_reduce(np.ones(100))
    say(done=True)


wait_for_rank_1 = partial(wait_for, 1)
wait_for_rank_3 = partial(wait_for, 3)


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


def run_rank(rank, size, host, scenario, *extra, scenarios=None):
    """Play a scenario, of another program where its names are given; nothing is left open."""
    sockets_before = open_sockets()
    listener = bind_listener(host)
    say(address=address_of(listener))
    peers = json.loads(sys.stdin.readline())
    group = Group(int(rank), int(size), 3)
    comm = HostCommunicator(group, RingTransport(group, listener, peers, KEY))
    comm.timeout_s = 60.0
    play(comm, (scenarios or globals())[scenario], *extra)
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
