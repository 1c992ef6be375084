"""Rank processes that outlive many communicators, so that hundreds of examples take seconds."""

import pickle
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path

from tests.patience import Stopwatch

DEADLINE_S = 60.0
TIMEOUT_S = 30.0


class Rank:
    """A process, and the pipe on which it is told what to do."""

    def __init__(self, program):
        self.pipe, there = Pipe()
        path = Path(__file__).with_name(program)
        self.process = subprocess.Popen(
            [sys.executable, path, str(there.fileno())], pass_fds=[there.fileno()]
        )
        there.close()

    def end(self):
        """Let it run to its end; give its exit status."""
        self.pipe.close()
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()
            self.process.wait(DEADLINE_S)


class Pool:
    """So many ranks; the first n of them form a communicator of size n when one is wanted.

    They have the addresses of so many hosts in turns.
    """

    def __init__(self, size, program="ring_member.py", hosts=1):
        self._hosts = hosts
        self._program = program
        self.ranks = [Rank(program) for _rank in range(size)]
        self._generation = 0
        self._formed = set()

    def replace(self, rank):
        """Start another process in the place of one that is dead."""
        self.ranks[rank].end()
        self.ranks[rank] = Rank(self._program)

    def ask(self, orders):
        """Give ranks their orders all at once, by rank; give their answers in the same order."""
        self.tell(orders)
        return self.hear(orders)

    def tell(self, orders):
        """Give ranks their orders all at once, by rank."""
        for rank, order in orders.items():
            self.ranks[rank].pipe.send_bytes(pickle.dumps(order))

    def hear(self, ranks, deadline_s=DEADLINE_S):
        """Wait for one answer of each of these ranks."""
        answers = {}
        watch = Stopwatch()
        while missing := {self.ranks[rank].pipe: rank for rank in ranks if rank not in answers}:
            ready = wait(list(missing), watch.left_s(deadline_s))
            if not ready:
                if watch.left_s(deadline_s):
                    continue
                # Answers that come later would be taken for those to the next orders.
                self._start_again()
                raise AssertionError(f"{deadline_s:g} s without ranks {sorted(missing.values())}")
            for pipe in ready:
                answers[missing[pipe]] = pickle.loads(pipe.recv_bytes())
        failures = [told["failed"] for told in answers.values() if "failed" in (told or ())]
        assert not failures, "\n".join(failures)
        return [answers[rank] for rank in ranks]

    def form(self, size, name="world", timeout_s=TIMEOUT_S):
        """Make the communicator of the first `size` ranks."""
        self._generation += 1
        ranks = range(size)
        peers = self.ask({rank: ("listen", f"127.0.0.{1 + rank % self._hosts}") for rank in ranks})
        key = f"secret {self._generation}".encode()
        groups = [(rank, size, self._generation) for rank in ranks]
        self.ask({rank: ("form", name, groups[rank], peers, key, timeout_s) for rank in ranks})

    def run(self, programs):
        """Let each of the first ranks take its steps; give their answers in rank order."""
        size = len(programs)
        world = f"world of {size}"
        if world not in self._formed:
            self.form(size, world)
            self._formed.add(world)
        answers = self.ask({rank: ("run", world, steps) for rank, steps in enumerate(programs)})
        if any("raised" in answer for told in answers for answer in told):
            # What broke must not make the next example fail.
            self.ask(dict.fromkeys(range(size), ("close", world)))
            self._formed.discard(world)
        return answers

    def close(self):
        """End all; nothing may be left of them."""
        everybody = range(len(self.ranks))
        try:
            self.ask(dict.fromkeys(everybody, ("close",)))
            left = self.ask(dict.fromkeys(everybody, ("leftovers",)))
        finally:
            statuses = [rank.end() for rank in self.ranks]
        assert left == [(0, ["MainThread"])] * len(everybody)
        assert statuses == [0] * len(everybody)

    def _start_again(self):
        for rank in self.ranks:
            rank.process.send_signal(signal.SIGUSR1)  # they write to stderr where they are
        time.sleep(0.2)
        for rank in range(len(self.ranks)):
            self.ranks[rank].process.kill()
            self.replace(rank)
        self._formed.clear()
