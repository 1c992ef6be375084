"""Ctrl-C at each line that opens something for a communicator: closing it closes that, too."""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from jupyter_dist import collective
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.errors import CommunicatorError

OPENING = {
    str(Path(collective.__file__).parent / name)
    for name in (
        *("host.py", "ring/transport.py", "ring/memory/room.py", "ring/memory/sharing.py"),
        *("ring/acceptor.py", "ring/connections.py", "ring/addresses.py"),
    )
}
MOST_LINES = 1000


class AtLine:
    """Interrupts the main thread at the n-th of the lines that it comes to for the first time."""

    def __init__(self, number):
        self._left = number
        self._seen = set()
        self.has_come = False

    def __enter__(self):
        sys.settrace(self._enter_frame)

    def __exit__(self, *_error):
        sys.settrace(None)

    def _enter_frame(self, frame, _event, _argument):
        return self._look if frame.f_code.co_filename in OPENING else None

    def _look(self, frame, event, _argument):
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and not self.has_come and place not in self._seen:
            self._seen.add(place)
            self._left -= 1
            if self._left < 0:
                self.has_come = True
                signal.raise_signal(signal.SIGINT)
        return self._look


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
    interrupt = AtLine(number)
    try:
        with interrupt:
            split_and_meet(comms[victim])
    except KeyboardInterrupt:
        for comm in comms:
            comm.abort(victim, "was interrupted")
    other.result(30)
    for comm in comms:
        comm.close()
    return interrupt.has_come


# Python closes a socket itself that the interrupt has left without an owner, and says so.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("victim", [0, 1], ids=["invited", "inviter"])
def test_wherever_a_rank_is_interrupted_nothing_stays_open(victim):
    with ThreadPoolExecutor(1) as thread:
        thread.submit(int).result()
        before = len(os.listdir("/proc/self/fd")), threading.active_count()
        for number in range(MOST_LINES):
            if not is_interrupted(victim, number, thread):
                break
            now = len(os.listdir("/proc/self/fd")), threading.active_count()
            assert now == before, f"interrupted at line {number} of those it comes to"
    assert 100 < number < MOST_LINES
