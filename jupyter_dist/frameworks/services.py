"""The main of a helper process: something that ranks of all hosts reach, outside of any rank.

    python -P -m jupyter_dist.frameworks.services SERVICE HOST:PORT WORLD_SIZE

It says one line of JSON, an Answer, and serves until its stdin is closed.
"""

import importlib
import os
import resource
import signal
import sys
from typing import NoReturn, Protocol

import msgspec

from jupyter_dist.errors import DistError

SERVICES = {
    "jax": "jupyter_dist.frameworks.jax.service.coordination_service",
    "mpi": "jupyter_dist.frameworks.mpi.pmi",
}
"""The module of each; its `serve(bind, world_size)` gives a Service.

It raises DistError with a sentence when it cannot listen at `bind`, whose port may be 0.
"""


class Service(Protocol):
    """Something that serves on threads of its own, as long as its process lives."""

    @property
    def address(self) -> str:
        """Where it listens, as `10.0.0.2:4711` or `[fd00::2]:4711`; more may follow after a `/`."""


class Answer(msgspec.Struct, frozen=True):
    """Where a service listens, or why it does not."""

    address: str = ""
    problem: str = ""
    is_usage: bool = False
    """What is in its way is a mistake of who asked for it."""


def main(service: str, bind: str, world_size: int) -> NoReturn:
    """Serve until stdin is closed, and end at once: nobody waits for what threads still do."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A batch system sends it to all processes of a job; this one ends with its agent.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    told = os.dup(1)
    os.dup2(2, 1)  # whatever is printed meanwhile goes to the log
    try:
        if service not in SERVICES:
            raise DistError(f"there is no service {service!r}; accepted: {', '.join(SERVICES)}")
        serving: Service = importlib.import_module(SERVICES[service]).serve(bind, world_size)
    except DistError as error:
        _answer(told, Answer(problem=str(error)))
        os._exit(1)
    _answer(told, Answer(serving.address))
    while os.read(0, 4096):
        continue
    os._exit(0)


def _answer(descriptor: int, answer: Answer) -> None:
    os.write(descriptor, msgspec.json.encode(answer) + b"\n")
    os.close(descriptor)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
