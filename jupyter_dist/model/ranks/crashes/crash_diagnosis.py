"""Why a process ended, as one sentence that claims no more than the evidence carries. Pure."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.ranks.crashes.crash_traces import (
    fatal_error,
    innermost_call,
    is_deep,
    is_recursion,
)
from jupyter_dist.model.ranks.end_marks import EndCause
from jupyter_dist.model.ranks.signals import RankSignal
from jupyter_dist.text.plurals import count_of
from jupyter_dist.text.sizes import tell_part, tell_size

STEEP_SHARE = 0.1
"""Growth by so much of the host's memory within the last samples is steep."""
STEEP_S = 10.0
SHORT_SHARE = 0.05
"""With less than so much of the host's memory left, it is short."""
_QUOTE_CAP = 160
_XID = re.compile(r"Xid \([^)]*\): (\d+)")
_XIDS = {
    13: "a kernel accessed memory that it must not",
    31: "a kernel accessed memory that is not mapped",
    43: "it was reset for an error of the program",
    48: "a double bit error of its memory",
    62: "its microcontroller halted",
    63: "a row of its memory was remapped",
    64: "a row of its memory could not be remapped",
    74: "an error of NVLink",
    79: "it has fallen off the bus",
    92: "many single bit errors of its memory",
    94: "a contained error of its memory",
    95: "an uncontained error of its memory",
    109: "a context switch timed out",
    119: "its system processor does not answer",
    120: "an error of its system processor",
}
_CONSEQUENCES = frozenset({45})
"""What the driver reports when it cleans up after any process that was killed."""


def conclude(report: CrashReport) -> str:
    """Return how a process ended and why, to follow the words "rank 2 is lost:"."""
    gpu = _say_gpu(report.gpu_errors)
    if not report.signal:
        return f"{_exited(report)}{gpu}"
    cause = _CAUSES.get(report.signal)
    why = cause(report) if cause is not None else _where(report, "in")
    return f"its process was killed by {name_signal(report.signal)}{why}{gpu}"


def _exited(report: CrashReport) -> str:
    """Return why it ended itself; os._exit only if it has left its mark."""
    where = f" in {report.cell}" if report.cell else ""
    exited = f"its process exited with code {report.exit_code}{where}"
    match report.end_cause:
        case EndCause.EXIT_CALLED:
            return f"{exited} (os._exit at {report.end_detail})"
        case EndCause.OWN_ERROR:
            return (
                f"it ended with an error of jupyter-dist itself{where} ({report.end_detail}); its "
                "stderr has the traceback"
            )
        case EndCause.OUT_OF_REACH:
            return f"it could not hear its coordinator for {report.end_detail}, and ended itself"
        case _:
            return f"{exited} (not by Python: perhaps exit() in native code)" if where else exited


def name_signal(number: int) -> str:
    """Return its name, as SIGKILL, or `signal 63` where it has none."""
    try:
        return RankSignal(number).name
    except ValueError:
        return f"signal {number}"


# --- memory ---


class Growth(NamedTuple):
    """How much memory a process took at last."""

    grown_bytes: int
    span_s: float
    reached_bytes: int
    """The most it had in that time."""


def last_growth(report: CrashReport) -> Growth:
    """Return how its memory grew from its least in its last seconds."""
    recent = [(age_s, rss) for age_s, rss in report.rss_history if age_s <= STEEP_S]
    if not recent:
        return Growth(0, 0.0, 0)
    age_s, least = min(recent, key=lambda sample: (sample[1], sample[0]))
    reached = max(rss for at_s, rss in recent if at_s <= age_s)
    return Growth(reached - least, age_s, reached)


def _killed(report: CrashReport) -> str:
    if report.oom_kills or report.kernel:
        return f": out of memory ({_say_kills(report)})"
    growth = last_growth(report)
    total = report.memory_total_bytes
    left = report.memory_available_bytes
    if total and growth.grown_bytes > STEEP_SHARE * total and left < SHORT_SHARE * total:
        return (
            f": likely out of memory (it grew by {tell_size(growth.grown_bytes)} in its last "
            f"{growth.span_s:.0f} s, and {tell_part(left, total)} were free)"
        )
    if total and left < SHORT_SHARE * total:
        return f" (by whom is not known; memory was short: {tell_part(left, total)} were free)"
    return f" (someone sent it{_say_enough(report)})"


def _say_kills(report: CrashReport) -> str:
    used = _say_use(report)
    if not report.oom_kills:
        return f"the kernel's log says so{used}"
    kills = count_of(report.oom_kills, "kill")
    where = "in its cgroup" if report.memory_limit_bytes else "on its host"
    return f"the kernel's OOM killer counted {kills} {where}{used}"


def _say_use(report: CrashReport) -> str:
    reached = last_growth(report).reached_bytes
    limit = report.memory_limit_bytes
    if reached > limit > 0:  # pages that it shares with others are counted elsewhere
        return f"; it used {tell_size(reached)}, and {tell_size(limit)} are the limit"
    if limit and reached:
        return f"; it used {tell_part(reached, limit)}"
    if limit:
        return f", which may use {tell_size(limit)}"
    return f"; it used {tell_size(reached)}" if reached else ""


def _say_enough(report: CrashReport) -> str:
    if report.memory_limit_bytes and 0 < report.memory_limit_bytes < report.memory_total_bytes:
        used = last_growth(report).reached_bytes
        told = f"it used {tell_part(used, report.memory_limit_bytes)}" if used else ""
    elif report.memory_total_bytes and report.memory_available_bytes:
        free = tell_part(report.memory_available_bytes, report.memory_total_bytes)
        told = f"{free} were free"
    else:
        told = ""
    return f"; no sign of memory shortage: {told}" if told else ""


# --- other signals ---


def _where(report: CrashReport, word: str) -> str:
    """Return what it was at: its line, else its cell."""
    place = report.line or report.cell
    return f" {word} {place}" if place else ""


def _native(report: CrashReport, hint: str = "") -> str:
    told = [hint] if hint else []
    if is_deep(report.stacks):
        told.append("more than 100 calls deep: perhaps a recursion without an end")
    extra = f" ({'; '.join(told)})" if told else ""
    if not report.line:
        return f"{_where(report, 'while it ran')}{extra}"
    call = innermost_call(report.stacks)
    return f" in native code{f' of {call}' if call else ''} called from {report.line}{extra}"


def _segfault(report: CrashReport) -> str:
    if not is_recursion(report.stacks):
        return _native(report)
    return f"{_where(report, 'at')}: its stack overflowed, by a recursion more than 100 calls deep"


def _bus(report: CrashReport) -> str:
    if report.is_shared_memory_full:
        return f": /dev/shm is full{_where(report, 'in')}"
    hint = "often a file that was shortened or a disk that ran full while it was mapped to memory"
    return _native(report, hint)


def _aborted(report: CrashReport) -> str:
    said = _say_abort(report)
    limit = report.address_limit_bytes
    hint = ""
    if limit and "bad_alloc" in said:
        hint = f"its address space is limited to {tell_size(limit)}"
    return f"{_native(report, hint)}{said}"


def _say_abort(report: CrashReport) -> str:
    """Quote what was said before: by a library, else by Python itself."""
    lines = [line.strip() for line in report.stderr]
    for at, line in reversed(list(enumerate(lines))):
        if line.startswith("terminate called"):
            what = next((each for each in lines[at + 1 :] if each.startswith("what():")), "")
            return f"; it said: {_quote(f'{line} {what}'.strip())}"
    fatal = fatal_error(report.stacks)
    if fatal and fatal != "Aborted":
        return f"; Python said: {_quote(fatal)}"
    return f"; it said last: {_quote(lines[-1])}" if lines else ""


def _quote(text: str) -> str:
    return text if len(text) <= _QUOTE_CAP else f"{text[:_QUOTE_CAP]}…"


def _say_gpu(errors: Sequence[str]) -> str:
    """Name the last error of its GPU that is more than a consequence of its end."""
    for text in reversed(errors):
        found = _XID.search(text)
        if found and int(found[1]) not in _CONSEQUENCES:
            number = int(found[1])
            meaning = f" ({_XIDS[number]})" if number in _XIDS else ""
            return f"; before that its GPU reported Xid {number}{meaning}"
    return ""


_CAUSES: dict[int, Callable[[CrashReport], str]] = {
    RankSignal.SIGKILL: _killed,
    RankSignal.SIGSEGV: _segfault,
    RankSignal.SIGFPE: lambda report: _native(report, "a division of integers by zero"),
    RankSignal.SIGILL: lambda report: _native(
        report, "often a library built for another processor"
    ),
    RankSignal.SIGSYS: lambda report: _native(report, "a system call that a filter forbids"),
    RankSignal.SIGBUS: _bus,
    RankSignal.SIGABRT: _aborted,
    RankSignal.SIGTERM: lambda report: f" (someone asked it to end{_where(report, 'in')})",
    RankSignal.SIGXCPU: lambda report: (
        f": it used up its limit of processor time (ulimit -t){_where(report, 'in')}"
    ),
    RankSignal.SIGXFSZ: lambda report: (
        f": a file became longer than its limit (ulimit -f){_where(report, 'in')}"
    ),
    RankSignal.SIGALRM: lambda report: f": an alarm that its own code set{_where(report, 'in')}",
}
