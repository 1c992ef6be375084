"""A process that simulates some hosts: orders in, answers out, a line of JSON each.

    {"do": "join", "file": PATH, "first": 0, "hosts": 32, "slots": 8}  -> {}
    {"do": "be late", "seconds": 2.0}    -> {}         every rank ends cells so much later
    {"do": "await held", "seconds": 60}  -> {"missing": [3, 4]}   ranks that are not held in a cell;
                                                       once there are none, or the time is over
    {"do": "kill a rank"}                -> {"at_s": monotonic}   the last one of the last host

It says `{}` as soon as it can join, and ends with its stdin, with its parent, or with the first
error.
"""

import asyncio
import json
import os
import sys
import threading
import time
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import zmq
from simulation.host import SimulatedHost
from simulation.rank import Crowd

from jupyter_dist.control.context import new_context
from jupyter_dist.launch.files.join_file import read_join_file
from jupyter_dist.launch.processes.process_life import die_with_parent

MEND_INTERVAL_S = 1.0
_STACK_BYTES = 256 << 10
"""Of each thread: each host has some, and so has each rank that dials itself."""
_LONGEST_TURN_S = 0.1
"""Of a thread that others wait for: hundreds of them, which look each time whether it is over."""
_MOST_SOCKETS = 60_000


class Worker:
    """The simulated hosts of this process."""

    def __init__(self) -> None:
        self._crowd = Crowd()
        self._hosts: list[SimulatedHost] = []
        self._context = new_context()
        self._context.set(zmq.MAX_SOCKETS, _MOST_SOCKETS)
        self._loop = asyncio.get_running_loop()
        self._mend()

    def obey(self, order: dict[str, Any]) -> None:
        """Do what a line says, and answer it."""
        match order["do"]:
            case "join":
                ticket = read_join_file(Path(order["file"]))
                for number in range(order["first"], order["first"] + order["hosts"]):
                    host = SimulatedHost(number, order["slots"], ticket, self._context, self._crowd)
                    self._hosts.append(host)
                    host.start()
                answer()
            case "be late":
                self._crowd.late_s = order["seconds"]
                answer()
            case "await held":
                self._held = self._loop.create_task(self._await_held(order["seconds"]))
            case "kill a rank":
                host, at_s = self._hosts[-1], time.monotonic()
                host.kill(list(host.ranks.values())[-1])
                answer(at_s=at_s)

    async def _await_held(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._crowd.all_held.wait()
        ranks = chain.from_iterable(host.ranks.values() for host in self._hosts)
        answer(missing=sorted(rank.number for rank in ranks if not rank.is_held))

    def _mend(self) -> None:
        for host in self._hosts:
            for rank in list(host.ranks.values()):
                rank.mend()
        self._loop.call_later(MEND_INTERVAL_S, self._mend)


def answer(**values: float | list[int]) -> None:
    """Answer an order."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def fail(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """End with what went wrong on stderr: ranks would be missing, and no one knew why."""
    loop.default_exception_handler(context)
    sys.stderr.flush()
    os._exit(1)


async def serve() -> None:
    """Obey what comes on stdin until it ends."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(fail)
    worker = Worker()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(worker.obey, json.loads(line))
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=read, name="orders", daemon=True).start()
    answer()
    await over.wait()


if __name__ == "__main__":
    die_with_parent(os.getppid())
    threading.stack_size(_STACK_BYTES)
    sys.setswitchinterval(_LONGEST_TURN_S)
    asyncio.run(serve())
    os._exit(0)  # threads sit in libzmq, which waits for each socket
