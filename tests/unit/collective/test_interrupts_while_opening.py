"""Ctrl-C at each line that opens something for a communicator: closing it closes that, too."""

import contextlib
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from interrupting import AtLine

from jupyter_dist import collective, descriptors
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.errors import CommunicatorError

OPENING = {
    descriptors.__file__,
    *(
        str(Path(collective.__file__).parent / name)
        for name in (
            *("host.py", "ring/transport.py", "ring/memory/room.py", "ring/memory/sharing.py"),
            *("ring/acceptor.py", "ring/connections.py", "ring/addresses.py"),
        )
    ),
}
MOST_LINES = 1000


def split_and_meet(comm):
    child = comm.split(0)
    assert child.all_reduce(np.ones(3)).tolist() == [2.0] * 3


def meet_until_it_ends(comm):
    try:
        split_and_meet(comm)
    except CommunicatorError:
        comm.abort(0, "ended")


def is_interrupted(victim, number, thread):
    """Form a communicator of two, split it; return whether the victim came to so many lines."""
    listeners = [bind_listener("127.0.0.1") for _rank in range(2)]
    peers = [address_of(listener) for listener in listeners]
    comms = [
        HostCommunicator(group, RingTransport(group, listener, peers, b"key"))
        for group, listener in ((Group(rank, 2, 1), listeners[rank]) for rank in range(2))
    ]
    other = thread.submit(meet_until_it_ends, comms[1 - victim])
    interrupt = AtLine(number, OPENING)
    try:
        with interrupt:
            split_and_meet(comms[victim])
    except KeyboardInterrupt:
        for comm in comms:
            comm.abort(victim, "was interrupted")
    other.result(30)
    for comm in comms:
        comm.close()
    return interrupt.place is not None


def what_is_open():
    """Return the files and threads of this process."""
    files = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            files.add((fd, os.readlink(f"/proc/self/fd/{fd}")))
    return files, {thread.name for thread in threading.enumerate()}


def what_stays(before):
    """Return what is open now and was not; what closes meanwhile is of no test here."""
    return [now - then for now, then in zip(what_is_open(), before, strict=True) if now - then]


# Python closes a socket itself that the interrupt has left without an owner, and says so.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("victim", [0, 1], ids=["invited", "inviter"])
def test_wherever_a_rank_is_interrupted_nothing_stays_open(victim):
    with ThreadPoolExecutor(1) as thread:
        thread.submit(int).result()
        before = what_is_open()
        for number in range(MOST_LINES):
            if not is_interrupted(victim, number, thread):
                break
            assert what_stays(before) == [], f"interrupted at line {number} of those it comes to"
    gc.collect()  # what it finds is told of here, if of any test
    assert 100 < number < MOST_LINES
