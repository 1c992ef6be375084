"""A communicator of one rank, and loops of calls on it, measured in turns."""

import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from figures import Samples, take_turns

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.collective.nccl.device import Ways
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.transport import RingTransport


@contextmanager
def open_recorder() -> Iterator[CollectiveRecorder]:
    """Lend a recorder of a cell's collectives, in shared memory as on a rank."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = CollectiveRecorder(Path(folder) / "rank-0.collectives")
        recorder.begin_cell("In[1]", "cell-1")
        yield recorder
        recorder.close()


@contextmanager
def open_communicator(ways: Ways | None = None) -> Iterator[NcclCommunicator]:
    """Lend a communicator of one rank as in a cell; `ways` lead to CuPy and NCCL."""
    with open_recorder() as recorder:
        group = Group(0, 1, generation=1)
        transport = RingTransport(group, socket.socket(), ["127.0.0.1:1"], b"")
        host = HostCommunicator(group, transport, recorder)
        comm = NcclCommunicator(host, *([ways] if ways else []))
        yield comm
        comm.close()


def time_loops(
    loops: Mapping[str, Callable[[int], object]],
    calls: int,
    rounds: int,
    settle: Callable[[], object] = lambda: None,
) -> Samples:
    """Return the microseconds of one call in each round; `settle` waits outside of the time."""

    def measure(loop: Callable[[int], object]) -> float:
        start_s = time.perf_counter()
        loop(calls)
        elapsed_s = time.perf_counter() - start_s
        settle()
        return elapsed_s / calls * 1e6

    return take_turns(
        {name: lambda loop=loop: measure(loop) for name, loop in loops.items()}, rounds
    )


def compile_loops(cell: str, names: dict[str, object]) -> dict[str, Callable[[int], object]]:
    """Return the functions that a cell defines, which has these names."""
    known = set(names) | {"__builtins__"}
    exec(compile(cell, "In[1]", "exec"), names)
    return {name: made for name, made in names.items() if name not in known}
