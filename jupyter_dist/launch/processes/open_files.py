"""What a process may have: open files and connections, of how many needed; and cores."""

import errno
import os
import sys
from typing import TYPE_CHECKING

from jupyter_dist.errors import DistError, StartFailed

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from jupyter_dist.model.spec.cluster_spec import ClusterSpec

_UNLIMITED = 1 << 30
_OF_A_CLIENT = 32
"""24 with its first cluster."""
_OF_A_COORDINATOR = 96
"""With two clients; 43 when it has just begun, and some for starts, transfers and strangers."""
_BY_RANK = 2
"""In the coordinator: its control channel and its heartbeats; in a rank: to and from each other."""
_BY_HOST = 5
"""The agent's stream, and what starts it there: ssh and its three pipes."""
_OF_A_RANK = 64
"""31 when it has just begun; what its cells open comes on top."""


def usable_cores() -> int:
    """Return how many cores this process may use."""
    cores = os.cpu_count() or 1
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    return cores


def are_crowded(ranks: int) -> bool:
    """Return whether there are more ranks than cores that this process may use."""
    return ranks > usable_cores()


def files_of_the_coordinator(ranks: int, hosts: int) -> int:
    """Return how many files the coordinator of so many ranks and hosts may have open."""
    return _OF_A_COORDINATOR + _BY_RANK * ranks + _BY_HOST * hosts


def files_of_a_rank(ranks: int) -> int:
    """Return how many files one of so many ranks may have open."""
    return _OF_A_RANK + _BY_RANK * ranks


def check_open_files(spec: "ClusterSpec") -> None:
    """Raise StartFailed when processes of this machine may not open what such a cluster needs."""
    ranks = sum(host.slots for host in spec.hosts)  # those that are known
    needed = files_of_the_coordinator(ranks, len(spec.hosts))  # more than a rank on its host needs
    soft, hard = _limits()
    if needed > hard:
        raise StartFailed(
            f"cluster {spec.name!r} was not started: with {ranks} ranks on {len(spec.hosts)} hosts "
            f"its coordinator needs {needed} open files, and processes of this machine may have "
            f"{hard} (RLIMIT_NOFILE: {soft}, {hard} at most). Raise the hard limit, as in "
            "/etc/security/limits.conf or with `ulimit -Hn` as root, or start fewer ranks."
        )


def allow_files_of_the_coordinator(spec: "ClusterSpec") -> None:
    """Raise this process's limit to what it needs as the coordinator of this cluster.

    That is as far as it goes where other machines bring as many slots as they have: what those are
    is known when their ranks are about to connect.
    """
    is_known = all(host.slots or host.launcher in ("local", "auto") for host in spec.hosts)
    ranks = sum(host.slots for host in spec.hosts)
    needed = files_of_the_coordinator(ranks, len(spec.hosts))
    allow_open_files(needed if is_known else _UNLIMITED)


def allow_open_files(needed: int) -> None:
    """Raise this process's limit as far as its hard limit goes, if it is below what is needed."""
    soft, hard = _limits()
    if sys.platform != "win32" and soft < min(needed, hard):
        limit = resource.RLIM_INFINITY if hard == _UNLIMITED else hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), limit))


def hard_limit() -> int:
    """Return how many files this process and its children may have open at most."""
    return _limits()[1]


def soft_limit() -> int:
    """Return how many files this process may have open now."""
    return _limits()[0]


def check_room(error: type[DistError]) -> None:
    """Raise this error when too few files are left for a client, and the limit cannot be raised.

    libzmq ends the process that has none left for its network thread.
    """
    for _ in range(2):
        soft, hard = _limits()
        used = _count_open(soft)
        if soft - used >= _OF_A_CLIENT:
            return
        allow_open_files(used + 2 * _OF_A_CLIENT)
    raise error(
        f"this process ({os.getpid()}) has {used} open files, and may have {hard} (RLIMIT_NOFILE: "
        f"{soft}, {hard} at most): a connection to a cluster needs {_OF_A_CLIENT} more. Close "
        "some, or raise the hard limit before this process starts, for example with `ulimit -Hn`."
    )


def _count_open(limit: int) -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError as problem:  # one file is needed to look
        return limit if problem.errno == errno.EMFILE else 0


def name_limit(number: int | None) -> str:
    """Return what the limit is, to follow an error of this number; empty for other errors."""
    if number == errno.EMFILE:
        soft, hard = _limits()
        return (
            f". This process may have {soft} open files (RLIMIT_NOFILE; {hard} at most). Raise it, "
            f"for example with `ulimit -n {hard}`, or close some"
        )
    if number == errno.ENFILE:
        return ". All processes of this machine together have too many (sysctl fs.file-max)"
    return ""


def _limits() -> tuple[int, int]:
    """Return the soft and the hard limit; one that is not there is a very large number."""
    if sys.platform != "win32":
        soft, hard = (
            _UNLIMITED if limit == resource.RLIM_INFINITY else limit
            for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
        )
    else:  # sockets are as many as memory allows
        soft = hard = _UNLIMITED
    return soft, hard
