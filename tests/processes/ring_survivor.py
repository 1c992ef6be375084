"""The program of the ranks of test_ring_chaos.py: collectives without end, until one fails."""

import itertools
import random
import sys
import threading
import time
from multiprocessing.connection import Connection

import numpy as np
from ring_member import Member, serve, write

from jupyter_dist.engine.execution.swallowed_interrupts import SwallowedInterrupts
from jupyter_dist.errors import CommunicatorError

MOST_ELEMENTS = 1 << 20
BASE = np.arange(MOST_ELEMENTS) % 100
DTYPES = ("float32", "int32", "uint8")
OPS = {"sum": np.add, "max": np.maximum, "min": np.minimum}
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("reduce", "broadcast", "gather", "scatter")
OTHERS = ("barrier", "send_recv", "group")
KINDS = (*REDUCING, *ROOTED[1:], "all_gather", "all_to_all", *OTHERS)


class Plan:
    """The call with this number in this round: the same on every rank."""

    def __init__(self, seed, number, size):
        choice = random.Random(f"{seed} {number}")
        self.number, self.size = number, size
        self.kind = choice.choice(KINDS) if number else "all_reduce"
        self.op = choice.choice(sorted(OPS))
        self.root = choice.randrange(size)
        self.dtype = choice.choice(DTYPES)
        self.count = round(2 ** choice.uniform(0, 20))
        self.is_in_child = number > 0 and choice.random() < 0.3

    def __repr__(self):
        return f"#{self.number} {self.kind} {self.op} root {self.root} {self.dtype}[{self.count}]"

    def given(self, rank):
        """What this rank gives; different in each call, so that nothing old passes for new."""
        return (BASE[: self.count] * (rank + 1) + self.number % 1000).astype(self.dtype)

    def rows(self, rank):
        """What this rank gives, one row for each rank."""
        length = self.count // self.size
        return self.given(rank)[: length * self.size].reshape(self.size, length)

    def reduced(self, arrays):
        """What numpy makes of them."""
        return OPS[self.op].reduce(arrays, axis=0, dtype=self.dtype)

    def call(self, comm):
        """Take part; give what came of it."""
        given, rows = self.given(comm.rank), self.rows(comm.rank)
        match self.kind:
            case "all_reduce":
                return comm.all_reduce(given, self.op)
            case "reduce":
                return comm.reduce(given, self.root, self.op)
            case "reduce_scatter":
                return comm.reduce_scatter(rows, self.op)
            case "scatter":
                return comm.scatter(rows if comm.rank == self.root else rows[0], self.root)
            case "all_to_all":
                return comm.all_to_all(rows)
            case "all_gather":
                return comm.all_gather(given)
            case "broadcast" | "gather":
                return getattr(comm, self.kind)(given, self.root)
            case _:
                return self.pass_on(comm)

    def wanted(self, mine):
        """What should come of it."""
        given = [self.given(rank) for rank in range(self.size)]
        rows = [self.rows(rank) for rank in range(self.size)]
        if self.kind in ("reduce", "gather") and mine != self.root:
            return None
        return {
            "all_reduce": lambda: self.reduced(given),
            "reduce": lambda: self.reduced(given),
            "reduce_scatter": lambda: self.reduced(rows)[mine],
            "scatter": lambda: rows[self.root][mine],
            "all_to_all": lambda: np.stack([matrix[mine] for matrix in rows]),
            "all_gather": lambda: np.stack(given),
            "gather": lambda: np.stack(given),
            "broadcast": lambda: given[self.root],
            "barrier": lambda: None,
        }.get(self.kind, lambda: given[mine - 1])()

    def pass_on(self, comm):
        """Send to the right and receive from the left, in one call or in a group."""
        if self.kind == "barrier":
            return comm.barrier()
        right, left = (comm.rank + 1) % self.size, (comm.rank - 1) % self.size
        room = np.empty(self.count, self.dtype)
        if self.kind == "send_recv":
            comm.send_recv(self.given(comm.rank), right, room, left)
        else:
            with comm.group():
                comm.recv(room, left)
                comm.send(self.given(comm.rank), right)
        return room

    def odd(self, seed):
        """Another call in the place of this one."""
        choice = random.Random(f"odd {seed}")
        found = Plan(seed, self.number, self.size)
        if self.kind in OTHERS:
            found.kind = "all_reduce"
            return found
        changes = ["kind", "dtype", "count"]
        changes += ["op"] * (self.kind in REDUCING) + ["root"] * (self.kind in ROOTED)
        change = choice.choice(changes)
        if change == "count":
            found.count = self.count + self.size
        elif change == "root":
            found.root = (self.root + 1) % self.size
        else:
            ways = {"kind": REDUCING + ROOTED, "dtype": DTYPES, "op": tuple(OPS)}[change]
            now = getattr(self, change)
            setattr(found, change, choice.choice([way for way in ways if way != now]))
        return found


class Survivor(Member):
    """A rank that goes on until something happens, to it or to another one."""

    def __init__(self, pipe):
        super().__init__()
        self._pipe = pipe
        self._loops = 0
        self._is_in_loop = False
        SwallowedInterrupts(lambda: self._is_in_loop and self._loops)  # as on a rank

    def live(self, seed, deed, after_s, closes_at_once):
        """Call collectives until one fails; do the deed oneself, if there is one, after a while.

        Tells how it ended, and when; the first answer comes when the first collective is done.
        """
        comm = self.comms["world"]
        facts = {"acted_at": None, "wrong": None}
        timer = threading.Timer(after_s, self._abort, (comm, facts))
        try:
            self._loop(comm, seed, deed, after_s, timer, facts)
        except (CommunicatorError, KeyboardInterrupt) as error:
            facts |= {"at": time.monotonic(), "raised": type(error).__name__, "text": str(error)}
            # As the end of a cell does: others may wait in another communicator, and an interrupt
            # may have come between two calls.
            comm.abort(getattr(error, "rank", comm.rank), f"ended the loop: {error}")
        if timer.ident is not None:
            timer.join()
        if closes_at_once:
            comm.close()
        return facts

    def _loop(self, *arguments):
        self._loops += 1
        self._is_in_loop = True
        try:
            self._call_until_it_ends(*arguments)
        finally:
            self._is_in_loop = False

    def _call_until_it_ends(self, comm, seed, deed, after_s, timer, facts):
        acts_at = child = None
        for number in itertools.count():
            plan = Plan(seed, number, comm.size)
            is_time = acts_at is not None and time.monotonic() >= acts_at
            if is_time and deed == "close":
                facts["acted_at"] = facts["at"] = time.monotonic()
                comm.close()
                return
            if is_time and deed == "mismatch" and facts["acted_at"] is None:
                plan = plan.odd(seed)
                facts["acted_at"] = time.monotonic()
            calls = child if plan.is_in_child else comm
            found = plan.call(calls)
            if not is_same(found, plan.wanted(calls.rank)):
                facts["wrong"] = f"{plan}: {found}"
            if number == 0:
                child = comm.split(0, comm.size - comm.rank)
                write(self._pipe, "running")
                acts_at = time.monotonic() + after_s
                if deed == "abort":
                    timer.start()

    def _abort(self, comm, facts):
        facts["acted_at"] = time.monotonic()
        comm.abort(comm.rank, "raised ValueError")


def is_same(found, wanted):
    """Whether the result of a call is what it should be."""
    if wanted is None:
        return found is None
    return found.dtype == wanted.dtype and np.array_equal(found, wanted)


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as pipe:
        serve(Survivor(pipe), pipe)
