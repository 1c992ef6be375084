"""Where a cluster can be found: a file in the Jupyter runtime directory, mode 0600."""

import contextlib
import os
from pathlib import Path
from time import time

import msgspec

from jupyter_dist.errors import ClusterExists, UsageError
from jupyter_dist.launch.files.plain_file import read_plain_file, written_whole
from jupyter_dist.launch.processes.private_dir import sweep_private_dirs, this_machine
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.protocol.credentials import Credentials

_PREFIX = "jupyter-dist-"
JOIN_SUFFIX = ".join"
"""Of the file beside it with which agents join."""

TOUCH_INTERVAL_S = 60.0
"""So often a coordinator says with its file's time that it lives."""
ABANDONED_AFTER_S = 15 * 60.0
"""A file of another machine that nobody has touched for so long is of a coordinator that is gone;
the clocks of machines differ, and file servers lag behind."""


class ConnectionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a cluster, and the secret that opens it."""

    name: str
    clients_address: str
    credentials: Credentials
    coordinator_pid: int
    world_size: int
    """0 while the hosts have not told how many ranks they take."""
    log_path: str
    hosts: tuple[HostSpec, ...] = ()
    """As they were asked for."""
    job_dir: str = ""
    """Where the directory of its batch job is; empty: beside the connection file, or no job."""
    machine: str = ""
    """Where its coordinator runs, as `private_dir.this_machine` has it; empty: on this machine."""
    coordinator_host: str = ""
    """The other machine on which it runs; the process and the log are those of its proxy here."""
    clients_path: str = ""
    """A Unix socket at which clients on its machine need no keys; empty: there is none."""


class StartReport(msgspec.Struct, frozen=True):
    """A line of the coordinator to its starter: what it does now, or how the start has ended."""

    connection: ConnectionInfo | None = None
    problem: str = ""
    is_name_taken: bool = False
    stage: str = ""
    """What it does now, as in `it was …`; empty: this is its last line."""
    log_path: str = ""
    """Its log, from the stage on in which it has one."""


def connection_path(name: str) -> Path:
    """Path of the connection file of the cluster with this name."""
    return _folder() / _file_name(name)


def path_of(info: ConnectionInfo) -> Path:
    """Path of the file in which a cluster is found, on its own machine or through a proxy here.

    Machines may share a home, and so this folder.
    """
    own, of_proxy = paths_of(info.name)
    return of_proxy if info.coordinator_host else own


def paths_of(name: str) -> tuple[Path, Path]:
    """Return where a cluster of this name can be found: by its own file, or that of a proxy."""
    import socket  # not needed before agents are started

    return connection_path(name), _folder() / f"{_PREFIX}{name}@{socket.gethostname()}.json"


def write_connection(path: Path, info: ConnectionInfo, *, is_new: bool = False) -> None:
    """Write it whole or not at all, readable by its owner only.

    Raises ClusterExists when it `is_new` and another cluster has taken the name meanwhile.
    """
    with written_whole(path, msgspec.json.encode(info)) as draft:
        if not is_new:
            draft.replace(path)
            return
        try:
            os.link(draft, path)
        except FileExistsError:
            raise ClusterExists(info.name) from None


def keep_connection(path: Path, info: ConnectionInfo) -> None:
    """Write it again when someone has deleted it; let its time tell that its coordinator lives."""
    try:
        age_s = time() - path.stat().st_mtime
    except FileNotFoundError:
        write_connection(path, info)
    else:
        if age_s > TOUCH_INTERVAL_S:
            os.utime(path)


def read_connection(path: Path) -> ConnectionInfo | None:
    """Read it; None when there is none, or when its coordinator is gone (it is removed then).

    None as well for what is not ours to read, or no file (a directory, a FIFO, a loop of links), or
    names another cluster than it says, or is of another machine whose home is ours as well: its
    addresses lead nowhere here.
    """
    try:
        info = msgspec.json.decode(read_plain_file(path), type=ConnectionInfo)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # there is none, or this is something else
    if path.name != path_of(info).name:
        return None  # whoever checks the file of that name must not be given another one
    if info.machine not in ("", this_machine()):
        with contextlib.suppress(OSError):
            if time() - path.stat().st_mtime > ABANDONED_AFTER_S:
                _remove(path)
        return None
    if process_lives(info.coordinator_pid):
        return info
    _remove(path)
    from jupyter_dist.launch.batch.files import sweep_job_dirs  # not needed where all is well

    sweep_job_dirs(Path(info.job_dir) if info.job_dir else path.parent)
    return None


def check_name_is_free(name: str) -> None:
    """Raise ClusterExists, or UsageError naming the file that holds the name and is no such one."""
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        raise UsageError(
            f"the folder for connection files, {str(folder)!r}, cannot be made: "
            f"{problem.strerror}. Set JUPYTER_RUNTIME_DIR to another one."
        ) from None
    for path in paths_of(name):
        if read_connection(path) is not None:
            raise ClusterExists(name)
        if os.path.lexists(path):
            raise UsageError(
                f"cluster name {name!r} is held by {str(path)!r}, which is not the connection file "
                "of a cluster of yours on this machine: it is damaged, or of another machine or "
                "user. Remove it, or choose another name."
            )


def running_clusters() -> list[ConnectionInfo]:
    """Every cluster of this user on this machine whose coordinator lives, by name."""
    try:
        paths = sorted(_folder().glob(f"{_PREFIX}*.json"))
    except OSError:  # no folder can be called so, or be looked into
        return []
    return [info for info in map(read_connection, paths) if info is not None]


def find_connection(name: str) -> ConnectionInfo | None:
    """Return how a cluster of this name is reached from here; None when there is none."""
    return next(filter(None, map(read_connection, paths_of(name))), None)


def remove_files_of_killed() -> None:
    """Remove the files of this user's coordinators and agents on this machine that were killed."""
    running_clusters()
    sweep_private_dirs()


def _remove(path: Path) -> None:
    """Remove the connection file of a cluster that is gone, and its join file beside it."""
    for left in (path, path.with_suffix(JOIN_SUFFIX)):
        with contextlib.suppress(OSError):
            left.unlink()


def _file_name(cluster: str) -> str:
    return f"{_PREFIX}{cluster}.json"


def _folder() -> Path:
    from jupyter_core.paths import jupyter_runtime_dir  # not needed before agents are started

    return Path(jupyter_runtime_dir())
