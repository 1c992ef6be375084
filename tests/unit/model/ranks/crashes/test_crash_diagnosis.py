"""What is concluded of the end of a process stands in crash_diagnosis.txt, for people to judge.

To write that file again after a change: REWRITE_GOLDEN=1 python -m pytest tests/unit/model/ranks
"""

import os
import signal
from pathlib import Path

import pytest

from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.ranks.crashes.crash_diagnosis import conclude
from jupyter_dist.model.ranks.end_marks import EndCause

GOLDEN = Path(__file__).with_name("crash_diagnosis.txt")
GIB = 2**30
STACK = (
    "Fatal Python error: Segmentation fault",
    "Current thread 0x01 (most recent call first):",
    '  File "/dev/shm/x/In_3_0a1b2c3d.py", line 7 in <module>',
)
INNER = '  File "/lib/ctypes/__init__.py", line 519 in string_at'
ABORTED = "Fatal Python error: Aborted"
OVERFLOW = "Fatal Python error: cannot recover from stack overflow"
BAD_ALLOC = (
    "loading",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "  what():  std::bad_alloc",
)
XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=4711, name=python3, and more"
CELL, LINE = {"cell": "In[3]"}, {"cell": "In[3]", "line": "In[3]:7"}
CALLED = {"end_cause": EndCause.EXIT_CALLED, "end_detail": "In[3]:7"}
UNHEARD = {"end_cause": EndCause.OUT_OF_REACH, "end_detail": "12 s"}
OURS = {"end_cause": EndCause.OWN_ERROR, "end_detail": "KeyError: 'a'"}

EXITS = {
    "os._exit": {"exit_code": 3, **CELL, **CALLED},
    "native code": {"exit_code": 3, **CELL},
    "no cell": {"exit_code": 0},
    "out of reach": {"exit_code": 1, **CELL, **UNHEARD},
    "own error": {"exit_code": 1, **OURS},
    "a GPU error": {"exit_code": 1, "gpu_errors": (XID.format(79),)},
    "a GPU error that nobody knows": {"exit_code": 1, "gpu_errors": (XID.format(999),)},
}
KILLS = {
    "counted in a cgroup": {
        "oom_kills": 1,
        "memory_limit_bytes": 4 * GIB,
        "rss_history": ((0.5, GIB), (0.0, 39 * GIB // 10)),
    },
    "more than the limit": {
        "oom_kills": 1,
        "memory_limit_bytes": GIB,
        "rss_history": ((0.0, 2 * GIB),),
    },
    "counted on a host": {"oom_kills": 2, "rss_history": ((0.4, 60 * GIB),)},
    "in the kernel's log": {"kernel": ("Out of memory: Killed process 4711 (python3)",)},
    "no evidence": {},
    "a limit far away": {"memory_limit_bytes": 4 * GIB, "rss_history": ((0.5, GIB // 5),)},
    "steep growth and little left": {
        "memory_available_bytes": GIB // 2,
        "rss_history": ((9.0, 4 * GIB), (5.0, 30 * GIB), (0.5, 60 * GIB)),
    },
    "little left without growth": {
        "memory_available_bytes": GIB,
        "rss_history": ((9.0, GIB), (0.5, GIB)),
    },
    "growth with much left": {"rss_history": ((9.0, GIB), (0.5, 30 * GIB))},
    "nothing is known": {"memory_total_bytes": 0, "memory_available_bytes": 0},
    "a mark that explains nothing": CALLED,
    "only a consequence for its GPU": {"gpu_errors": (XID.format(45),)},
    "an error of its GPU before": {"gpu_errors": (XID.format(31), XID.format(45))},
}
OTHERS = [
    (63, {}),
    (signal.SIGSEGV, {**LINE, "stacks": STACK}),
    (signal.SIGSEGV, {**LINE, "stacks": (*STACK[:2], INNER, STACK[2])}),
    (signal.SIGSEGV, {**LINE, "stacks": (*STACK[:2], *[STACK[2]] * 60, "  ...")}),
    (signal.SIGSEGV, {**LINE, "stacks": (*STACK, "  ...")}),
    (signal.SIGSEGV, CELL),
    (signal.SIGSEGV, {}),
    (signal.SIGBUS, {**LINE, "is_shared_memory_full": True}),
    (signal.SIGBUS, {}),
    (signal.SIGABRT, {**LINE, "stderr": BAD_ALLOC, "address_limit_bytes": 2 * GIB}),
    (signal.SIGABRT, {"stacks": (OVERFLOW, *STACK[1:])}),
    (signal.SIGABRT, {"stacks": (ABORTED, *STACK[1:]), "stderr": ("one", "free(): invalid")}),
    *((number, CELL) for number in (signal.SIGILL, signal.SIGFPE, signal.SIGXCPU)),
    *((number, CELL) for number in (signal.SIGXFSZ, signal.SIGTERM, signal.SIGALRM)),
    (signal.SIGSYS, CELL),
]


def say(number=0, **known):
    return conclude(CrashReport(rank=2, host="a", pid=4711, reason="", signal=number, **known))


def killed(**known):
    room = {"memory_total_bytes": 64 * GIB, "memory_available_bytes": 12 * GIB, **known}
    return say(signal.SIGKILL, **room)


def test_what_is_concluded_stands_in_one_place():
    lines = [
        *(f"{name}: {say(**known)}" for name, known in EXITS.items()),
        *(f"{name}: {killed(**known)}" for name, known in KILLS.items()),
        *(say(number, **known) for number, known in OTHERS),
    ]
    text = "\n".join([*lines, ""])
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("name", KILLS)
def test_out_of_memory_is_what_there_is_evidence_for(name):
    is_blamed = name.startswith(("counted", "more", "in the kernel", "steep"))
    assert ("out of memory" in killed(**KILLS[name])) is is_blamed
