"""A process with the relays of simulated hosts, each in a thread.

As threads of the process that plays the ranks they would wait for its lock of Python, which on a
real host nothing but the relay holds. Orders come in on stdin, a line of JSON each (a RelayOrder);
a line comes back as soon as the relay listens. Its argument is the folder of their paths.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import zmq

from jupyter_dist.control.context import new_context
from jupyter_dist.control.relay.doors import Home, open_doors
from jupyter_dist.control.relay.relay import Relay
from jupyter_dist.launch.processes.process_life import die_with_parent

_STACK_BYTES = 256 << 10
_MOST_SOCKETS = 60_000


class RelayOrder(msgspec.Struct):
    """Where a relay is to listen, and where it dials."""

    path: str
    home: Home


class RelayProcess:
    """The other end of that process."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simulation.relays", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parent.parent,
        )
        self.pid = self._process.pid

    def start(self, path: str, home: Home) -> None:
        """Start a relay; it listens once this returns. Raise RuntimeError where it cannot."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(RelayOrder(path, home)) + b"\n")
        process.stdin.flush()
        if not process.stdout.readline():
            raise RuntimeError(f"the process of relays has ended ({process.wait()})")


def _serve(relay: Relay) -> None:
    while True:
        relay.carry(relay.wait())


def main() -> None:
    """Start relays until stdin ends."""
    threading.stack_size(_STACK_BYTES)
    context = new_context()
    context.set(zmq.MAX_SOCKETS, _MOST_SOCKETS)
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=RelayOrder)
        relay = Relay(context, open_doors(order.path), order.home)
        threading.Thread(target=_serve, args=(relay,), daemon=True).start()
        sys.stdout.write("\n")
        sys.stdout.flush()
    os._exit(0)  # threads sit in libzmq, which waits for each socket


if __name__ == "__main__":
    die_with_parent(os.getppid())
    os.chdir(sys.argv[1])
    main()
