"""What befalls a rank: each fault is a name, a way to cause it, and what must be told then.

Ranks are armed by a cell (`ARM`): from then on a signal (`SIGNAL`) lets a rank do to itself, on
its main thread and whatever that does at the moment, what the variable `deed` says.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import psutil

from tests.processes.leftovers import agents_of, relays_of, wait_until, zygotes_of
from tests.suspending import resume, suspend

SIGNAL = signal.SIGRTMIN + 4
"""One that nobody else uses."""
ARM = f"""
import ctypes, faulthandler, itertools, os, resource, signal, time
import numpy as np
class Boom(ValueError): pass
def boom(): raise Boom('bad batch')
def fill_memory():
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), before[1]))
    try: bytearray(1 << 30)
    finally: resource.setrlimit(resource.RLIMIT_AS, before)
deeds = {{
    'exit': lambda: os._exit(7),
    'raise': boom,
    'segfault': faulthandler._sigsegv,
    'out_of_memory': fill_memory,
    'gil': lambda: ctypes.PyDLL(None).usleep(1_500_000),
}}
deed = 'none'
_ = signal.signal({int(SIGNAL)}, lambda *_: deeds[deed]())
"""


EXIT_WITHIN_S = 5.0
"""From the end of a process to the answer: 0.2 s on an idle machine."""
HEARTBEAT_WITHIN_S = 14.0
"""Until a silent rank is given up: 4 s in these clusters."""
GIL_WITHIN_S = 8.0
"""Until a rank is heard again whose interpreter is held for 1.5 s."""


class Outcome(StrEnum):
    """How a cell ends on the rank that something has befallen."""

    LOST = "lost"
    RAISED = "raised"
    OK = "ok"


@dataclass(frozen=True)
class Fault:
    """Something that befalls one rank."""

    name: str
    cause: Callable
    """Called with the cluster and the rank's process."""
    outcome: Outcome
    words: str = ""
    """Must stand in what is told of the rank."""
    deed: str = "none"
    """What the rank has to be told before."""
    within_s: float = EXIT_WITHIN_S
    """So long the answer may take."""
    needs_relays: bool = False
    """Each host must have a relay that goes on; others that were there may be gone."""
    victims: tuple[int, ...] = (1,)
    """The ranks that it befalls; of a host's process all ranks of the host."""

    @property
    def is_external(self):
        """It needs no help of the rank's interpreter."""
        return self.deed == "none"


def _signal(number):
    return lambda _cluster, process: os.kill(process.pid, number)


def _stop_for_a_while(cluster, process):
    """Stop a process until its silence has been noticed, and let it go on."""
    suspend(process.pid)
    try:
        wait_until(lambda: _is_suspected(cluster, process.pid), 10, "its silence is noticed")
    finally:
        resume(process.pid)


def _is_suspected(cluster, pid):
    return any(
        "no heartbeat" in engine.reason
        for engine in cluster.topology().engines
        if engine.pid == pid
    )


def _by_itself(name, outcome, words="", **options):
    return Fault(name, _signal(SIGNAL), outcome, words, name, **options)


def _stop_second_agent(cluster, _process):
    """Stop the agent of the second host: its kernel still takes in what is sent to it."""
    suspend(agents_of(cluster)[1].pid)


def _stop_second_relay(cluster, _process):
    """Stop the relay of the second host: its ranks live, and hear nothing any more."""
    suspend(relays_of(cluster)[1].pid)


def _kill_second(find):
    """Kill what keeps the ranks of the second host."""
    return lambda cluster, _process: find(cluster)[1].kill()


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("sigkill", _signal(signal.SIGKILL), Outcome.LOST, "SIGKILL"),
        Fault(
            "sigstop",
            _signal(signal.SIGSTOP),
            Outcome.LOST,
            "no heartbeat",
            within_s=HEARTBEAT_WITHIN_S,
        ),
        Fault("sigstop_sigcont", _stop_for_a_while, Outcome.OK, within_s=HEARTBEAT_WITHIN_S),
        _by_itself("exit", Outcome.LOST, "code 7"),
        _by_itself("raise", Outcome.RAISED, "bad batch"),
        _by_itself("segfault", Outcome.LOST, "SIGSEGV"),
        _by_itself("out_of_memory", Outcome.RAISED, "MemoryError"),
        _by_itself("gil", Outcome.OK, within_s=GIL_WITHIN_S),
        Fault("agent_killed", _kill_second(agents_of), Outcome.LOST, "agent", victims=(2, 3)),
        Fault(
            "agent_stopped",
            _stop_second_agent,
            Outcome.LOST,
            "agent",
            within_s=HEARTBEAT_WITHIN_S,
            victims=(2, 3),
        ),
        Fault(
            "relay_killed",
            _kill_second(relays_of),
            Outcome.OK,
            needs_relays=True,
            victims=(2, 3),
        ),
        Fault(
            "relay_stopped",
            _stop_second_relay,
            Outcome.OK,
            within_s=HEARTBEAT_WITHIN_S,
            needs_relays=True,
            victims=(2, 3),
        ),
        Fault("zygote_killed", _kill_second(zygotes_of), Outcome.LOST, "zygote", victims=(2, 3)),
    )
}


def process_of(cluster, rank):
    """The process of a rank."""
    return psutil.Process(cluster.topology().engines[rank].pid)
