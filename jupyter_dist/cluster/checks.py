"""What a caller asked for, read and checked before anything is started or sent."""

import os
from collections.abc import Iterable
from pathlib import Path

from jupyter_dist.errors import HostSpecError, UnknownRanks, UsageError
from jupyter_dist.launch.connection_file import running_clusters
from jupyter_dist.launch.local import is_this_machine
from jupyter_dist.model.rank import parse_ranks
from jupyter_dist.model.spec import ClusterSpec

Ranks = None | int | str | Iterable[int]
"""Ranks as callers write them: `None` for all, `2`, `"0,2-3"` or any iterable of numbers."""


def read_ranks(ranks: Ranks, world_size: int) -> tuple[int, ...] | None:
    """Read ranks, sorted and each once; None stays None; raises UnknownRanks."""
    if ranks is None:
        return None
    if isinstance(ranks, str):
        return parse_ranks(ranks, world_size)
    wanted = (ranks,) if isinstance(ranks, int) else tuple(ranks)
    if not wanted or any(not 0 <= rank < world_size for rank in wanted):
        raise UnknownRanks(str(ranks), world_size)
    return tuple(sorted(set(wanted)))


def free_name() -> str:
    """Find a name that no running cluster of this user has."""
    taken = {info.name for info in running_clusters()}
    number = 1
    while f"cluster-{number}" in taken:
        number += 1
    return f"cluster-{number}"


def check_directory(cwd: str | os.PathLike[str] | None) -> str:
    """Give the whole path of a directory (None: the present one); raises UsageError."""
    directory = Path(cwd or ".").expanduser().resolve()
    if not directory.is_dir():
        raise UsageError(f"working directory {str(cwd)!r} does not exist on this machine.")
    return str(directory)


def check_hosts(spec: ClusterSpec, given: str) -> None:
    """Raise HostSpecError for a host that cannot be reached from here."""
    for host in spec.hosts:
        try:
            is_here = is_this_machine(host.name)
        except OSError as error:
            raise HostSpecError(given, f"host {host.name!r} is not known ({error})") from error
        if not is_here:
            raise HostSpecError(
                given, f"host {host.name!r} is another machine, and only this one can be used yet"
            )
