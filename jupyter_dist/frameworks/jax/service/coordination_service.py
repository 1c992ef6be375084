"""JAX's coordination service in a process of its own, so that no rank's end takes it along."""

import errno
import importlib
import os
import re
import socket
from types import ModuleType
from typing import Any

import msgspec

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.port_holders import find_holders, list_own_ports, name_holders
from jupyter_dist.model.hosts.addresses import join_address, split_address

HEARTBEAT_TIMEOUT_S = 10 * 365 * 24 * 3600
"""Whether ranks live is known otherwise; to JAX a silence would be the end of all of them."""
_HEARTBEAT_INTERVAL_S = 10
_SHUTDOWN_TIMEOUT_S = 5
_MODULES = ("jaxlib._jax", "jaxlib.xla_extension")


class CoordinationService(msgspec.Struct, frozen=True):
    """One that serves; it ends with its process."""

    address: str
    native: Any


def serve(bind: str, world_size: int) -> CoordinationService:
    """Serve at this address, whose port may be 0; raises FrameworkError, UsageError."""
    host, port = split_address(bind)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy comes along, and computes nothing
    native = _import_native()
    _try(host, port)  # where JAX cannot listen, it ends the process without a word
    begin = native.get_distributed_runtime_service
    before = list_own_ports()  # JAX does not tell which port it was given
    serving = begin(join_address(host, port), world_size, **options(begin.__doc__ or ""))
    opened = port or next(iter(list_own_ports() - before), 0)
    if not opened:
        raise FrameworkError(f"JAX's coordination service does not listen at {bind}")
    return CoordinationService(join_address(host, opened), serving)


def options(signature: str) -> dict[str, object]:
    """Return what this version of JAX accepts, which its documentation begins with."""
    wishes: dict[str, object] = {
        "heartbeat_timeout": HEARTBEAT_TIMEOUT_S,
        "heartbeat_interval": _HEARTBEAT_INTERVAL_S,
        "max_missing_heartbeats": HEARTBEAT_TIMEOUT_S // _HEARTBEAT_INTERVAL_S,
        "shutdown_timeout": _SHUTDOWN_TIMEOUT_S,
        "recoverable": True,
    }
    return {name: wish for name, wish in wishes.items() if re.search(rf"\b{name}\s*:", signature)}


def _import_native() -> ModuleType:
    """Import what is needed only: the whole of JAX takes a second more; raises FrameworkError."""
    problem = ""
    for name in _MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            problem = problem or str(error)
        else:
            if hasattr(module, "get_distributed_runtime_service"):
                return module
    why = problem or "this version of jaxlib has another coordination service"
    raise FrameworkError(
        f"JAX's coordination service cannot be started on {socket.gethostname()}: {why}. Install "
        "on this host what the ranks use, or see docs/how_to/jax.md for the versions that work."
    )


def _try(host: str, port: int) -> None:
    """Listen there for a moment; raises FrameworkError where that is not possible."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _name, address in found:
            with socket.socket(family, kind, protocol) as attempt:
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                attempt.bind(address)
                attempt.listen(1)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        holder = f", by {name_holders(find_holders(port))}" if is_taken else ""
        raise FrameworkError(
            f"JAX's coordination service cannot listen at {join_address(host, port)} on "
            f"{socket.gethostname()}: {error.strerror}{holder}. Give another address, or none: "
            "then a free port is taken."
        ) from error
