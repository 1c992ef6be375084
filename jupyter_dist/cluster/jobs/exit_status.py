"""The status that tells a shell, or a scheduler, how a job has ended."""

import signal

from jupyter_dist.errors import CellInterrupted, CellTimedOut, RankLost, RankRaised
from jupyter_dist.model.ranks.crashes.crash import CrashReport

RAISED = 1
TIMED_OUT = 124
_BY_SIGNAL = 128
INTERRUPTED = _BY_SIGNAL + signal.SIGINT
TERMINATED = _BY_SIGNAL + signal.SIGTERM


def exit_status(failure: BaseException) -> int:
    """Return the status that tells how a program has failed."""
    match failure:
        case RankRaised(ename="SystemExit") if failure.evalue.isdecimal():
            return int(failure.evalue)
        case RankLost(crash=CrashReport() as crash):
            return _BY_SIGNAL + crash.signal if crash.signal else crash.exit_code or RAISED
        case CellTimedOut():
            return TIMED_OUT
        case CellInterrupted() | KeyboardInterrupt():
            return INTERRUPTED
        case _:
            return RAISED


def status_of_process(code: int | None) -> int:
    """Return the status for a process that has ended too early: minus N is signal N."""
    return _BY_SIGNAL - code if code is not None and code < 0 else code or RAISED
