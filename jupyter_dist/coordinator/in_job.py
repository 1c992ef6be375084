"""The coordinator as a batch job starts it, on one of its nodes.

    python -P -m jupyter_dist.coordinator.in_job ORDER

It reads its order from that file, and turns into the coordinator, whose agents are on the nodes of
the job around it. It reports into a file beside its order that only its user can read.
"""

import os
import socket
import sys
import tempfile
from pathlib import Path
from time import time

import msgspec

from jupyter_dist.errors import ClusterExists, DistError, StartFailed
from jupyter_dist.launch.files.connection_file import StartReport, connection_path
from jupyter_dist.launch.files.plain_file import read_plain_file
from jupyter_dist.launch.for_coordinator import settle_here
from jupyter_dist.launch.local import coordinator_command
from jupyter_dist.launch.processes.starter import tell_starter
from jupyter_dist.launch.proxy.conversation import JobOrder, JobPlace, report_path
from jupyter_dist.model.spec.batch import BatchSpec
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.version import WIRE, __version__


def main() -> None:
    """Turn into the coordinator, or report why not."""
    os.umask(0o077)
    path = Path(sys.argv[1])
    try:
        order = msgspec.json.decode(read_plain_file(path), type=JobOrder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        sys.exit(f"jupyter-dist: order file {str(path)!r} cannot be read: {reason}")
    try:
        report = os.open(report_path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # a script of the user's starts us on each node, and another one was first
    os.dup2(report, 1)
    os.close(report)
    place = JobPlace(socket.gethostname(), str(connection_path("").parent))
    os.write(1, msgspec.json.encode(place) + b"\n")
    try:
        spec = _read_spec(order, path)
        _give_order(settle_here(spec))
    except (OSError, DistError) as error:
        is_name_taken = isinstance(error, ClusterExists)
        tell_starter(StartReport(problem=str(error), is_name_taken=is_name_taken))
        return
    command = coordinator_command(spec)
    os.execv(command[0], command)  # the scheduler ends us with signals, and it by this number


def _read_spec(order: JobOrder, path: Path) -> ClusterSpec:
    """Return what to start: agents on the nodes of the job that we are in. Raise StartFailed."""
    if order.wire != WIRE:
        raise StartFailed(
            f"its jupyter-dist {__version__} ({sys.executable}) speaks {WIRE}, that of the "
            f"notebook speaks {order.wire}. Install the same version on both, or name its Python "
            "with --python."
        )
    spec = msgspec.json.decode(order.spec, type=ClusterSpec)
    left_s = order.good_until_s - time()
    if left_s <= 0:
        raise StartFailed("the time for this start was over when the job began")
    assert spec.batch is not None
    around = BatchSpec(
        system=spec.batch.system,
        nodes=spec.batch.nodes,
        is_within=True,
        directory=str(path.parent),  # goes with the job, however that ends
    )
    return msgspec.structs.replace(spec, batch=around, timeout_s=min(spec.timeout_s, left_s))


def _give_order(spec: ClusterSpec) -> None:
    """Let it be what is read from stdin."""
    with tempfile.TemporaryFile() as file:
        file.write(msgspec.json.encode(spec) + b"\n")
        file.seek(0)
        os.dup2(file.fileno(), 0)


if __name__ == "__main__":
    main()
