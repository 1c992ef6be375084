"""Whether a host has room for ranks that it is to start: asked before the first of them."""

import os
import resource

import psutil

from jupyter_dist.launch.processes.open_files import files_of_a_rank, hard_limit
from jupyter_dist.probe.cgroup import cgroup_of
from jupyter_dist.text.sizes import tell_size

_TASKS_OF_A_RANK = 8
"""Seven threads when it has just begun; what its cells start comes on top."""
_BYTES_OF_A_RANK = 10 << 20
"""Of its own, when it has just begun: the rest it shares with its zygote."""
_FEW_RANKS = 16
"""Other programs need as much every now and then: that is not looked at more closely."""
_FEWER = "or start fewer ranks"


def find_lack(ranks: int, world_size: int) -> str:
    """Return what this host has too little of for so many more ranks, with all numbers.

    Empty where it has enough, as far as it tells. The limits of this process count, for its
    children have them too.
    """
    return _lacks_files(world_size) or (
        "" if ranks <= _FEW_RANKS else _lacks_tasks(ranks) or _lacks_memory(ranks)
    )


def _lacks_files(world_size: int) -> str:
    needed, limit = files_of_a_rank(world_size), hard_limit()
    if needed <= limit:
        return ""
    return (
        f"each of {world_size} ranks needs {needed} open files, and may have {limit} here "
        "(RLIMIT_NOFILE). Raise the hard limit, as in /etc/security/limits.conf or with "
        f"`ulimit -Hn` as root, {_FEWER}"
    )


def _lacks_tasks(ranks: int) -> str:
    """Look at the two limits of Linux for processes and threads together."""
    needed = _TASKS_OF_A_RANK * ranks
    group = cgroup_of(os.getpid())
    room = group.tasks_left if group is not None else None
    if room is not None and room.left < needed:
        return (
            f"{ranks} ranks need {needed} processes and threads, and control group {room.folder} "
            f"has room for {room.left} (pids.max: {room.limit}). Raise it, as with `systemctl "
            f"set-property UNIT TasksMax={room.limit - room.left + needed}`, {_FEWER}"
        )
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if os.getuid() == 0 or limit == resource.RLIM_INFINITY:
        return ""  # root may have as many as it likes
    left = max(0, limit - _count_own_tasks())
    if left >= needed:
        return ""
    return (
        f"{ranks} ranks need {needed} processes and threads, and there is room for {left} of this "
        f"user's (RLIMIT_NPROC: {limit}). Raise it, as with `ulimit -u` or in "
        f"/etc/security/limits.conf, {_FEWER}"
    )


def _count_own_tasks() -> int:
    processes = psutil.process_iter(["uids", "num_threads"])
    facts = [process.info for process in processes]
    own = [each for each in facts if each["uids"] and each["uids"].real == os.getuid()]
    return sum(each["num_threads"] or 1 for each in own)


def _lacks_memory(ranks: int) -> str:
    needed, available = _BYTES_OF_A_RANK * ranks, psutil.virtual_memory().available
    group = cgroup_of(os.getpid())
    if group is not None and group.limit_bytes:
        available = min(available, group.limit_bytes)
    if needed <= available:
        return ""
    return (
        f"{ranks} ranks need {tell_size(needed)} of memory to begin with, and there are "
        f"{tell_size(available)}. Free some, take more hosts, {_FEWER}"
    )
