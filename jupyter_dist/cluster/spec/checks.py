"""What a caller asked for, read and checked before anything is started or sent."""

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from jupyter_dist.errors import StartFailed, UnknownRanks, UsageError
from jupyter_dist.launch.files.connection_file import running_clusters
from jupyter_dist.launch.files.plain_file import read_plain_file
from jupyter_dist.launch.files.reserved_name import ReservedName, reserve_name
from jupyter_dist.model.hosts.rank import parse_ranks
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.model.spec.sendable import shorten

Ranks = None | int | str | Iterable[int]
"""Ranks as callers write them: `None` for all, `2`, `"0,2-3"` or any iterable of numbers."""
On = None | str | Mapping[str, Any]
"""Who is meant by place: `"nodeA"`, `"node[01-02],data=0-1"`, or `{"data": 0}`; None: all."""
WantedRanks = tuple[int, ...] | None
"""Ranks that were checked already; None: all."""


def read_ranks(ranks: Ranks, world_size: int) -> WantedRanks:
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
    """Find a name that no cluster of this user has, and none that is being started."""
    with closing(reserve_free_name()) as reserved:
        return reserved.name


def reserve_free_name(taken: Collection[str] = ()) -> ReservedName:
    """Reserve such a name, and none of those that are taken elsewhere, until it is closed."""
    return reserve_name({info.name for info in running_clusters()}.union(taken))


def read_text_file(path: str | os.PathLike[str], what: str) -> str:
    """Read a file that a caller has named; raises UsageError."""
    try:
        return read_plain_file(Path(path).expanduser()).decode()
    except (OSError, UnicodeDecodeError, RuntimeError) as problem:
        reason = "it is not text in UTF-8"
        if not isinstance(problem, UnicodeDecodeError):
            reason = getattr(problem, "strerror", None) or str(problem)
        raise UsageError(f"{what} {shorten(str(path))} cannot be read: {reason}.") from None


def whole_path(given: str | os.PathLike[str]) -> str:
    """Return the path from the root on, of what need not be on this machine; empty stays empty."""
    return os.path.abspath(os.path.expanduser(given)) if os.fspath(given) else ""


def check_directory(cwd: str | os.PathLike[str] | None) -> str:
    """Return the whole path of a directory (None: the present one); raises UsageError."""
    directory = find_directory(cwd or ".")
    if not directory:
        raise UsageError(
            f"working directory {shorten(str(cwd))} does not exist on this machine. One that only "
            "other hosts have is named in a spec file, as cwd of those hosts."
        )
    return directory


def find_directory(given: str | os.PathLike[str]) -> str:
    """Return the whole path of a directory of this machine; empty for all that is none."""
    # Those of os.path fail for no name: neither for a loop of links, nor for one that is too long.
    directory = os.path.realpath(os.path.expanduser(given))
    return directory if os.path.isdir(directory) else ""


def check_timeout(timeout_s: float | None) -> None:
    """Raise UsageError for a time limit that is none."""
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError(f"timeout {timeout_s!r} is not accepted: it must be more than 0 s.")


def check_system(spec: ClusterSpec, system: str = sys.platform) -> None:
    """Raise StartFailed for what a machine of this system, by `sys.platform`, cannot start."""
    if system != "win32":
        return
    if spec.coordinator is not None:
        raise StartFailed(
            f"cluster {spec.name!r} cannot be reached on {spec.coordinator.name} from Windows, "
            "whose ssh forwards no Unix sockets. Start Jupyter within WSL, or on that machine."
        )
    given = [host.name for host in spec.hosts if host.launcher in ("local", "auto")]
    if given:
        raise StartFailed(
            f"cluster {spec.name!r} was not started: ranks run on Linux and macOS, and "
            f"{', '.join(given)} is this machine, which has Windows. Name hosts that ssh reaches "
            "(--hosts user@host:4), or start Jupyter within WSL."
        )
    if spec.install or spec.wheelhouse:
        raise StartFailed(
            f"cluster {spec.name!r} was not started: --install does not work from Windows. Install "
            "there with `ssh HOST python3 -m pip install jupyter-dist`, and start without it."
        )
