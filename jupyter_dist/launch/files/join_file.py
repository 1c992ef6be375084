"""The file with which agents join on their own: an invitation that is good for any host."""

import sys
from pathlib import Path

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.connection_file import JOIN_SUFFIX, connection_path
from jupyter_dist.launch.files.plain_file import read_plain_file, written_whole
from jupyter_dist.launch.launcher import JoinTicket

JOINER = "(joins by file)"
"""Common name of the certificate in a join file; no host can be called so."""
STDIN = Path("-")
"""In place of the path of a join file: its content comes on stdin."""


def join_path(cluster: str) -> Path:
    """Path of the join file of the cluster with this name, beside its connection file.

    That of a batch job is in the job's own directory.
    """
    return connection_path(cluster).with_suffix(JOIN_SUFFIX)


def write_join_file(path: Path, ticket: JoinTicket) -> None:
    """Write it whole or not at all, readable by its owner only."""
    with written_whole(path, msgspec.json.encode(ticket)) as draft:
        draft.replace(path)


def read_join_file(path: Path) -> JoinTicket:
    """Read it, for `-` from stdin; raises UsageError when there is none, or something else."""
    try:
        content = sys.stdin.buffer.read() if path == STDIN else read_plain_file(path)
        return msgspec.json.decode(content, type=JoinTicket)
    except OSError as error:
        reason = error.strerror or str(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"it is not a join file ({error})"
    raise UsageError(
        f"join file {str(path)!r} cannot be read: {reason}. %dist_start --hosts join:N writes one "
        "and says where; it is gone once N agents have joined, or the start is over."
    )
