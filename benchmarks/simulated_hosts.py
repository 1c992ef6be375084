"""Simulated hosts, as the program that measures sees them: worker processes, and faults."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from jupyter_dist.model.hosts.rank import name_ranks

ANSWER_TIMEOUT_S = 60.0
HELD_WITHIN_S = 60.0
RANKS_OF_A_WORKER = 1024
"""At most: each that dials itself has some six descriptors and a thread in it."""
LEAST_WORKERS = 2
FOLDER = Path(__file__).parent


class WorkerError(RuntimeError):
    """A process that simulates hosts has ended, or does not answer."""


class Worker:
    """One process that simulates hosts."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._unread = b""
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "simulation.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=FOLDER,
                bufsize=0,
            )

    def tell(self, do: str, **values: Any) -> None:
        """Give an order; `hear` returns the answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `hear` says what has happened
            self.process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")

    def hear(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Return the next answer. Raise WorkerError where there is none."""
        assert self.process.stdout is not None
        deadline_s = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            left_s = max(0.0, deadline_s - time.monotonic())
            if not select.select([self.process.stdout], [], [], left_s)[0]:
                raise WorkerError(f"worker {self.process.pid} did not answer in {timeout_s:g} s")
            piece = os.read(self.process.stdout.fileno(), 4096)
            if not piece:
                raise self.problem
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    @property
    def has_ended(self) -> bool:
        """It has met an error of its own."""
        return self.process.poll() is not None

    @property
    def problem(self) -> WorkerError:
        """Why it has ended."""
        return WorkerError(f"a worker has ended: {self._log.read_text()[-2000:]}")

    def cpu_s(self) -> float:
        """Return the CPU time that it has taken so far, in seconds."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def close(self) -> None:
        """End it, however it is."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class SimulatedHosts:
    """Hosts in worker processes; the last one has a process of its own, and suffers what is to be.

    A context manager: at its end no process and no file of it is left.
    """

    def __init__(self, hosts: int, slots: int) -> None:
        self.hosts, self.slots = hosts, slots
        self._stack = contextlib.ExitStack()
        self._workers: list[Worker] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for number in range(len(share_hosts(self.hosts, self.slots))):
                worker = Worker(folder / f"worker-{number}.log")
                stack.callback(worker.close)
                self._workers.append(worker)
            for worker in self._workers:
                worker.hear()  # that it can join
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        """End all. Raise WorkerError where that is why what was measured has failed."""
        with self._stack:
            ended = [worker for worker in self._workers if worker.has_ended]
            if error is not None and ended:
                raise ended[0].problem from error

    def join(self, file: Path) -> None:
        """Have all hosts join with this file; returns at once."""
        first = 0
        shares = share_hosts(self.hosts, self.slots)
        for worker, hosts in zip(self._workers, shares, strict=True):
            worker.tell("join", file=str(file), first=first, hosts=hosts, slots=self.slots)
            first += hosts
        for worker in self._workers:
            worker.hear()

    def await_held(self) -> None:
        """Wait until every rank is held in a cell. Raise WorkerError with those that are not."""
        for worker in self._workers:
            worker.tell("await held", seconds=HELD_WITHIN_S)
        missing = [
            rank
            for worker in self._workers
            for rank in worker.hear(HELD_WITHIN_S + ANSWER_TIMEOUT_S)["missing"]
        ]
        if missing:
            raise WorkerError(
                f"{name_ranks(missing)} did not come into the cell within {HELD_WITHIN_S:g} s"
            )

    def be_late(self, seconds: float) -> None:
        """Let the ranks of the last host end their cells so much later from now on."""
        self._workers[-1].tell("be late", seconds=seconds)
        self._workers[-1].hear()

    def kill_a_rank(self) -> float:
        """Let the last rank of the last host die; return when that was, in monotonic seconds."""
        self._workers[-1].tell("kill a rank")
        return self._workers[-1].hear()["at_s"]

    def silence_the_last_host(self) -> float:
        """Stop all that the last host does; return when that was, in monotonic seconds.

        Its connections stay open, and its kernel takes what is sent: only its silence tells.
        """
        self._workers[-1].process.send_signal(signal.SIGSTOP)
        return time.monotonic()

    def cpu_s(self) -> float:
        """Return the CPU time that simulating has taken so far, in seconds."""
        return sum(worker.cpu_s() for worker in self._workers)


def share_hosts(hosts: int, slots: int) -> Sequence[int]:
    """Return how many hosts each worker simulates; the last one has one host only."""
    others = hosts - 1
    workers = min(others, max(LEAST_WORKERS, -(-others * slots // RANKS_OF_A_WORKER)))
    shares = [others // workers + (number < others % workers) for number in range(workers)]
    return [*shares, 1]
