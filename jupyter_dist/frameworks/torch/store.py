"""The store in which ranks find each other: rank 0 opens it, on the data path and nowhere else."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from jupyter_dist.errors import FrameworkError

BACKLOG = 2048
CONNECT_TIMEOUT_S = 10.0
_SLICE_S = 0.2


def open_store(host: str, port: int, world_size: int, timeout_s: float) -> tuple[Any, str]:
    """Open torch's store here, port 0: on a free one; gives its address too.

    Raises FrameworkError.

    The socket is ours, so that no port is looked for and let go of again, and no other network
    reaches it.
    """
    from torch.distributed import TCPStore

    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise FrameworkError(
            f"rank 0 cannot listen on {format_address(host, port)}: {error.strerror or error}. "
            "Leave MASTER_ADDR and MASTER_PORT out: a free port is found then"
        ) from error
    bound_host, bound_port = listener.getsockname()[:2]
    store = TCPStore(
        bound_host,
        bound_port,
        world_size,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=timeout_s),
        master_listen_fd=listener.detach(),
    )
    return store, format_address(bound_host, bound_port)


def reach_store(address: str, world_size: int, look_around: Callable[[], None]) -> Any:
    """Connect to the store of rank 0; `look_around` raises what makes further waiting useless.

    Raises FrameworkError where nothing answers. The store waits for CONNECT_TIMEOUT_S only, until
    it is told otherwise.
    """
    from torch.distributed import TCPStore

    host, port = parse_address(address)
    try:
        # torch would not say what is in its way.
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        return _on_a_thread(
            lambda: TCPStore(
                host,
                port,
                world_size,
                is_master=False,
                wait_for_workers=False,
                timeout=timedelta(seconds=CONNECT_TIMEOUT_S),
            ),
            look_around,
        )
    except (OSError, RuntimeError) as error:  # torch's errors of networks are RuntimeErrors
        said = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise FrameworkError(
            f"it cannot reach rank 0 at {address}: {said}. Check that no "
            "firewall is between the hosts, and which network ranks use (%dist_check)"
        ) from error


def _on_a_thread(connect: Callable[[], Any], look_around: Callable[[], None]) -> Any:
    """Wait for torch in slices, because it hears no interrupt; raises what it raises."""
    ended = threading.Event()
    stores: list[Any] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            stores.append(connect())
        except BaseException as error:  # noqa: BLE001  (raised by who waits)
            errors.append(error)
        finally:
            ended.set()

    # Where the wait is given up, it ends by itself, after CONNECT_TIMEOUT_S at most.
    threading.Thread(target=call, name="torch-connect", daemon=True).start()
    while not ended.wait(_SLICE_S):
        look_around()
    if errors:
        raise errors[0]
    return stores[0]


def format_address(host: str, port: int) -> str:
    """Write `10.0.0.2:41234` or `[fd00::2]:41234`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(address: str) -> tuple[str, int]:
    """Read what `format_address` has written."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def hang_up(address: str) -> None:
    """Shut down all connections of this process to a store, from any thread: its waits raise."""
    host, port = parse_address(address)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            duplicate = os.dup(int(name))
            try:
                _shut_down_to(duplicate, host, port)
            finally:
                os.close(duplicate)


def _shut_down_to(descriptor: int, host: str, port: int) -> None:
    """Shut a connection down if it leads there; the descriptor stays the caller's."""
    connection = socket.socket(fileno=descriptor)  # raises OSError where it is no socket
    try:
        peer = connection.getpeername()
        # torch connects by IPv6 sockets to IPv4 addresses, too.
        if len(peer) > 1 and (str(peer[0]).removeprefix("::ffff:"), peer[1]) == (host, port):
            connection.shutdown(socket.SHUT_RDWR)
    finally:
        connection.detach()
