"""What a caller asked for, read and checked before anything is started or sent."""

import os
from collections.abc import Iterable
from pathlib import Path

from jupyter_dist.errors import UnknownRanks, UsageError
from jupyter_dist.launch.connection_file import connection_path, running_clusters
from jupyter_dist.model.rank import parse_ranks

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
    # A file that cannot be read, as somebody else's, holds its name too.
    while f"cluster-{number}" in taken or connection_path(f"cluster-{number}").exists():
        number += 1
    return f"cluster-{number}"


def read_text_file(path: str | os.PathLike[str], what: str) -> str:
    """Read a file that a caller has named; raises UsageError."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(f"{what} {str(path)!r} cannot be read: {reason}.") from None


def whole_path(given: str | os.PathLike[str]) -> str:
    """Give the path from the root on, of what need not be on this machine; empty stays empty."""
    return os.path.abspath(os.path.expanduser(given)) if os.fspath(given) else ""


def check_directory(cwd: str | os.PathLike[str] | None) -> str:
    """Give the whole path of a directory (None: the present one); raises UsageError."""
    directory = Path(cwd or ".").expanduser().resolve()
    if not directory.is_dir():
        raise UsageError(
            f"working directory {str(cwd)!r} does not exist on this machine. One that only other "
            "hosts have is named in a spec file, as cwd of those hosts."
        )
    return str(directory)
