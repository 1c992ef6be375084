"""How the process of a rank ended: what is known of it, and the sentence it comes to. Pure."""

from collections.abc import Sequence

import msgspec

from jupyter_dist.model.ranks.records import CallRecord

_MOST_OUTLOOKS = 4


class CrashReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything known about the end of one rank's process; a view makes a card of it."""

    rank: int
    host: str
    pid: int = 0
    reason: str
    """The conclusion as a sentence that follows the words "rank 2 is lost:"."""
    exit_code: int = 0
    signal: int = 0
    """Number of the signal that killed it; 0: it exited on its own, or nobody knows."""
    cell: str = ""
    """Label of the cell it ran, as `In[3]`; empty: it ran none."""
    line: str = ""
    """Where in user code it was last, as `In[3]:7`, where that is known."""
    oom_kills: int = 0
    """Processes that the kernel killed for memory in its last seconds, and that no other end
    accounts for: in its cgroup, or on its host where that has no limit."""
    memory_limit_bytes: int = 0
    """Of its cgroup; 0: none."""
    address_limit_bytes: int = 0
    """Of its own address space (`ulimit -v`); 0: none."""
    memory_available_bytes: int = 0
    """Of the host, when it ended."""
    memory_total_bytes: int = 0
    """Of the host."""
    is_shared_memory_full: bool = False
    """Nothing more fitted into /dev/shm."""
    rss_history: tuple[tuple[float, int], ...] = ()
    """Seconds before its end, and bytes; oldest first. At 0 s: the most it had since the last."""
    end_cause: str = ""
    """Why it has ended itself, if it has said so: a value of EndCause;"""
    end_detail: str = ""
    """and what it said of that."""
    stderr: tuple[str, ...] = ()
    """The last lines it, or a library in it, wrote to stderr."""
    stacks: tuple[str, ...] = ()
    """What faulthandler left about user code, line by line."""
    calls: tuple[CallRecord, ...] = ()
    """Its last collectives, oldest first."""
    kernel: tuple[str, ...] = ()
    """What the kernel has logged about it, oldest first."""
    gpu_errors: tuple[str, ...] = ()
    """Xid messages of the driver about its device, newest last."""
    outlook: str = ""
    """What is done about it without asking; empty: that is for the person."""


def list_outlooks(crashes: Sequence[CrashReport]) -> tuple[str, ...]:
    """Return what is done about ranks without asking, each once, and of very many some."""
    ordered = sorted(crashes, key=lambda crash: crash.rank)
    found = [each for each in dict.fromkeys(crash.outlook for crash in ordered) if each]
    more = len(found) - _MOST_OUTLOOKS
    return (*found[:_MOST_OUTLOOKS], *[f"… and {more} more in the same way"] * (more > 0))
