"""Signals of ranks by the numbers of Linux, which cross the wire whatever system reads or sends.

A coordinator or client may run on Windows, which has few signals, or on macOS, which numbers some
of them differently.
"""

import signal
import sys
from enum import IntEnum


class RankSignal(IntEnum):
    """What may end a rank, or be sent to one."""

    SIGHUP = 1
    SIGINT = 2
    SIGQUIT = 3
    SIGILL = 4
    SIGTRAP = 5
    SIGABRT = 6
    SIGBUS = 7
    SIGFPE = 8
    SIGKILL = 9
    SIGUSR1 = 10
    SIGSEGV = 11
    SIGUSR2 = 12
    SIGPIPE = 13
    SIGALRM = 14
    SIGTERM = 15
    SIGSTKFLT = 16
    SIGCHLD = 17
    SIGCONT = 18
    SIGSTOP = 19
    SIGTSTP = 20
    SIGTTIN = 21
    SIGTTOU = 22
    SIGURG = 23
    SIGXCPU = 24
    SIGXFSZ = 25
    SIGVTALRM = 26
    SIGPROF = 27
    SIGWINCH = 28
    SIGIO = 29
    SIGPWR = 30
    SIGSYS = 31
    SIGRTMIN = 34
    SIGRTMAX = 64


WAKING_SIGNAL = RankSignal.SIGURG
"""It ends the system call of a rank's main thread, and means nothing else: ranks handle it for
their debugger."""


def from_the_wire(number: int) -> int:
    """Return the number of a signal on this system; as it came where that has no such signal."""
    if sys.platform != "linux" and number:
        name = {each.value: each.name for each in RankSignal}.get(number, "")
        return int(getattr(signal, name, number))
    return number


def on_the_wire(number: int) -> int:
    """Return the number that this system's signal has on Linux; its own where Linux has none."""
    if sys.platform != "linux" and number:
        name = signal.Signals(number).name
        return RankSignal.__members__.get(name, number)
    return number
