"""Drops clients in every order, while their coordinator lives and after it has died.

    python -X dev dropping.py CLUSTER PID

says for how long it took, and ends with an open client whose coordinator is dead.
"""

import contextlib
import gc
import os
import signal
import sys
import threading
import time
import weakref
from itertools import permutations
from pathlib import Path

from jupyter_dist import Cluster
from jupyter_dist.errors import DistError
from jupyter_dist.launch.processes.process_life import process_lives

PARTS = ("_cells", "_control", "_watch", "_lines")


class Knot:
    """Holds a thing, and itself: only a collection takes them."""

    def __init__(self, thing):
        self.thing = thing
        self.me = self


def visit(name, *, is_watched=False):
    """Connect, and give what can be dropped one by one."""
    cluster = Cluster.visit(name)
    if is_watched:
        cluster.watch_topology(lambda _, watched=cluster: watched.name, 60.0)
    things = {part: vars(cluster)[part] for part in PARTS[:3]}
    things["cluster"] = cluster
    return things


def drop(things, order, *, is_cyclic, is_collecting):
    """Drop things in this order."""
    if is_cyclic:
        things = {name: Knot(thing) for name, thing in things.items()}
        things["cluster"].thing.knots = tuple(things.values())
    for name in order:
        things.pop(name)
        if is_collecting:
            gc.collect()
    gc.collect()


def in_child(name):
    """Collect in a copy by fork, and try to use what it has copied; gives how that ended."""
    cluster = Cluster.visit(name)
    pid = os.fork()
    if pid == 0:
        try:
            cluster.run("1")
        except DistError as error:
            problem = str(error)
        cluster = None
        gc.collect()
        own = Cluster.visit(name)
        ranks = own.run("1").ok
        sys.exit(0 if ranks and "fork" in problem else 1)  # with what is called at an exit
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert cluster.run("2").ok
    cluster.detach()
    return status


def network_threads():
    """Threads of libzmq in this process."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found += task.joinpath("comm").read_text().startswith("ZMQbg")
    return found


def main():
    """See above."""
    name, pid = sys.argv[1], int(sys.argv[2])
    orders = list(permutations((*PARTS[:3], "cluster")))
    gc.disable()
    assert in_child(name) == 0
    assert network_threads() == 0, "a client that was detached has left threads"
    for number, order in enumerate(orders[::3]):
        drop(visit(name), order, is_cyclic=number % 2, is_collecting=number % 4 < 2)
    deadline_s = time.monotonic() + 20
    while network_threads() or threading.active_count() > 1:
        assert time.monotonic() < deadline_s, "clients that were dropped are still connected"
        time.sleep(0.02)
    clients = [visit(name, is_watched=number % 3 == 0) for number, _ in enumerate(orders)]
    dropped = [weakref.ref(things["cluster"]) for things in clients]
    last = Cluster.visit(name)
    os.kill(pid, signal.SIGKILL)
    while process_lives(pid) or threading.active_count() > 1:
        time.sleep(0.02)
    began_s = time.monotonic()
    for number, (things, order) in enumerate(zip(clients, orders, strict=True)):
        drop(things, order, is_cyclic=number % 2, is_collecting=number % 4 < 2)
    del clients, things
    gc.collect()
    assert not any(cluster() for cluster in dropped), "something keeps clients alive"
    print(f"{time.monotonic() - began_s:.3f}", flush=True)
    assert not last.is_running


main()
