"""ipyparallel on the ranks of a cluster: its controller, and clients of that."""

import contextlib
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jupyter_dist.errors import (
    ClusterGone,
    ClusterInUse,
    ClusterUnreachable,
    FrameworkError,
    UsageError,
)
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.protocol.messages import (
    ControllerEnded,
    ControllerReady,
    EndController,
    StartController,
)

if TYPE_CHECKING:
    from jupyter_dist.cluster.session import Session
    from jupyter_dist.frameworks.ipyparallel.client import RanksClient

START_TIMEOUT_S = 30.0
_PATIENCE_S = 5.0
"""How much longer than its own limit the coordinator may take before it counts as gone."""
_END_TIMEOUT_S = 15.0
_OLDEST = (9, 0)
_NEXT_STEP = "pip install 'ipyparallel>=9,<10' into it, and into the Python of the hosts"


def ipyparallel(session: "Session", *, timeout_s: float = START_TIMEOUT_S) -> "RanksClient":
    """Return an `ipyparallel.Client` whose engines are the ranks, each with its rank as id.

    Its tasks run in the processes and namespaces of the ranks, one after the other with cells.
    The first call starts a controller. It goes on until `leave_ipyparallel`, or the end of
    the cluster; used as a context manager, the client ends it if it was the last one.
    Raises FrameworkError naming each rank that cannot join, with the reason.
    """
    check_ipyparallel()
    if not 0 < timeout_s < math.inf:
        raise UsageError(f"timeout {timeout_s} is not accepted: it must be more than 0 s.")
    with contextlib.closing(session._new_line()) as line:  # noqa: SLF001  (it is our own)
        if line.is_far:
            raise FrameworkError(
                "clients of ipyparallel reach its controller on the machine of the coordinator "
                f"alone, and {session.name!r} has it on another one. Ask for a client there: "
                f"Cluster.attach({session.name!r}).ipyparallel()."
            )
        request = StartController(line.new_request_id(), timeout_s)
        patience_s = timeout_s + _PATIENCE_S
        ready, _ = line.ask(request, ControllerReady, timeout_s=patience_s)
    # Only now: this takes a moment, and the controller has taken the same one meanwhile.
    from jupyter_dist.frameworks.ipyparallel.client import RanksClient

    def leave() -> None:
        with contextlib.suppress(
            ClusterGone, ClusterInUse, ClusterUnreachable
        ):  # it is not ours to end any more
            _end_controller(session, is_left_to_others=True)

    connection = json.loads(ready.connection)
    with contextlib.ExitStack() as failing:
        failing.callback(leave)
        client = _connect(RanksClient, connection, leave)
        failing.pop_all()
    return client


def leave_ipyparallel(session: "Session") -> bool:
    """End the ipyparallel controller, whoever uses it; tells whether there was one.

    The ranks go on with everything they have. Clients are closed, and what they wait for
    raises.
    """
    return _end_controller(session, is_left_to_others=False)


def _connect(
    make: "type[RanksClient]", connection: dict[str, Any], leave: Callable[[], None]
) -> "RanksClient":
    try:
        return make(connection, lambda: process_lives(connection["pid"]), leave)
    except OSError as error:  # its TimeoutError as well
        raise FrameworkError(
            f"ipyparallel's client cannot connect to the controller ({error}): it ended just now, "
            "or does not answer. Ask for a client again; leave_ipyparallel() ends a stuck one."
        ) from error


def _end_controller(session: "Session", *, is_left_to_others: bool) -> bool:
    with contextlib.closing(session._new_line()) as line:  # noqa: SLF001  (it is our own)
        request = EndController(line.new_request_id(), is_left_to_others)
        return line.ask(request, ControllerEnded, timeout_s=_END_TIMEOUT_S)[0].was_running


def check_ipyparallel() -> None:
    """Raise FrameworkError where ipyparallel is missing, or is too old."""
    import importlib.metadata

    try:
        version = importlib.metadata.version("ipyparallel")
    except importlib.metadata.PackageNotFoundError:
        what = "ipyparallel is not installed in the Python of this notebook"
        raise FrameworkError(f"{what}. {_NEXT_STEP}.") from None
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        what = f"ipyparallel {version} is too old: {oldest} is the oldest that works"
        raise FrameworkError(f"{what}. {_NEXT_STEP}.")
