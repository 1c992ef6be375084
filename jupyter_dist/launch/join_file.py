"""The file with which agents join by themselves: an invitation that is good for any host."""

import sys
import tempfile
from pathlib import Path

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.base import Invitation
from jupyter_dist.launch.connection_file import JOIN_SUFFIX, connection_path
from jupyter_dist.launch.plain_file import read_plain_file

JOINER = "(joins by file)"
"""Common name of the certificate in a join file; no host can be called so."""
STDIN = Path("-")
"""In place of the path of a join file: its content comes on stdin."""


def join_path(cluster: str) -> Path:
    """Path of the join file of the cluster with this name, beside its connection file.

    That of a batch job is in the job's own directory.
    """
    return connection_path(cluster).with_suffix(JOIN_SUFFIX)


def write_join_file(path: Path, invitation: Invitation) -> None:
    """Write it whole or not at all, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Made anew under a name that nobody can guess: a file of another owner would stay his.
    descriptor, name = tempfile.mkstemp(".draft", f"{path.name}.", path.parent)
    draft = Path(name)
    try:
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(invitation))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read_join_file(path: Path) -> Invitation:
    """Read it, for `-` from stdin; raises UsageError when there is none, or something else."""
    try:
        content = sys.stdin.buffer.read() if path == STDIN else read_plain_file(path)
        return msgspec.json.decode(content, type=Invitation)
    except OSError as error:
        reason = error.strerror or str(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"it is not a join file ({error})"
    raise UsageError(
        f"join file {str(path)!r} cannot be read: {reason}. %dist_start --hosts join:N writes one "
        "and says where; it is gone once N agents have joined, or the start is over."
    )
