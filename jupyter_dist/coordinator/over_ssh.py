"""The far end of the ssh connection of another machine's client to the coordinator here.

    python -P -m jupyter_dist.coordinator.over_ssh

It greets, reads its order on stdin, and starts the coordinator or finds it. It reports on stdout as
the coordinator does, and stays until that ends. A coordinator that was started ends with the
connection, until it is told to live on.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

import msgspec

from jupyter_dist.errors import ClusterExists, DistError, StartFailed
from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    StartReport,
    connection_path,
    read_connection,
    running_clusters,
)
from jupyter_dist.launch.files.plain_file import read_plain_file
from jupyter_dist.launch.for_coordinator import settle_here
from jupyter_dist.launch.launcher import AgentHello
from jupyter_dist.launch.local import coordinator_command
from jupyter_dist.launch.processes.private_dir import this_machine
from jupyter_dist.launch.processes.process_life import await_end, own_session
from jupyter_dist.launch.processes.starter import tell_starter
from jupyter_dist.launch.proxy.conversation import (
    CLUSTER_ENDED,
    END,
    GREETING,
    KEEP,
    KEPT,
    RemoteOrder,
)
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.text.lists import name_some
from jupyter_dist.version import WIRE, __version__


def main() -> None:
    """Start or find one coordinator, and stay with it."""
    hello = AgentHello(WIRE, __version__, sys.executable)
    sys.stdout.write(f"\n{GREETING}{msgspec.json.encode(hello).decode()}\n")
    sys.stdout.flush()
    line = sys.stdin.buffer.readline()
    if not line:
        return  # another version was there
    order = msgspec.json.decode(line, type=RemoteOrder)
    try:
        if order.spec is not None:
            _start(order.spec)
        else:
            if order.runtime_dir:
                os.environ["JUPYTER_RUNTIME_DIR"] = order.runtime_dir
            _find(order.name)
    except (OSError, DistError) as error:
        is_name_taken = isinstance(error, ClusterExists)
        tell_starter(StartReport(problem=str(error), is_name_taken=is_name_taken))
        os._exit(CLUSTER_ENDED if isinstance(error, _NoSuchCluster) or order.spec else 1)


class _NoSuchCluster(StartFailed):
    """None of this name runs here."""


def _start(spec: ClusterSpec) -> NoReturn:
    """Start the coordinator, which reports by our stdout, and stay with it."""
    spec = settle_here(spec)
    process = subprocess.Popen(coordinator_command(spec), stdin=subprocess.PIPE, **own_session())
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(msgspec.json.encode(spec) + b"\n")
    _stay(process.pid, lambda: process.wait() is not None, is_kept=False)


def _find(name: str) -> NoReturn:
    """Report where the coordinator of this cluster is, and stay with it."""
    info = read_connection(connection_path(name))
    if info is None:
        _explain_absence(name)
    tell_starter(StartReport(info))
    pid = info.coordinator_pid
    _stay(pid, lambda: await_end(pid, math.inf), is_kept=True)


def _explain_absence(name: str) -> NoReturn:
    """Raise StartFailed for one that runs on a machine with which we share a home."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        info = msgspec.json.decode(read_plain_file(connection_path(name)), type=ConnectionInfo)
        if info.machine != this_machine():
            there, here = (each.partition(" ")[2] for each in (info.machine, this_machine()))
            raise StartFailed(
                f"cluster {name!r} runs on {there}, and this is {here}. Name that machine itself"
            )
    running = [info.name for info in running_clusters()]
    others = f"; there are {name_some(running)}" if running else ""
    raise _NoSuchCluster(
        f"no cluster {name!r} runs there{others}. It was looked for in "
        f"{str(connection_path(name).parent)!r}; if JUPYTER_RUNTIME_DIR names another folder where "
        "it was started, set that for logins by ssh too, or start it with --coordinator"
    )


def _stay(pid: int, wait: Callable[[], bool], *, is_kept: bool) -> NoReturn:
    """Do what is said on stdin, until the coordinator has ended or the connection has."""

    def exit_with_it() -> None:
        os._exit(CLUSTER_ENDED if wait() else 1)  # else it is looked for again

    watch = threading.Thread(target=exit_with_it, name="coordinator-watch", daemon=True)
    watch.start()
    for word in sys.stdin.buffer:
        if word == KEEP:
            is_kept = True
            with contextlib.suppress(OSError):  # the connection has just broken
                os.write(1, KEPT)
        if word == END:
            _terminate(pid)
    if not is_kept:
        _terminate(pid)
        watch.join()
    os._exit(0)


def _terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


if __name__ == "__main__":
    main()
