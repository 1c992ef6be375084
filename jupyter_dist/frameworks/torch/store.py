"""The store in which ranks find each other: rank 0 opens it, on the data path and nowhere else."""

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.blocking_call import BlockingCall
from jupyter_dist.frameworks.gloo_sockets import shut_down
from jupyter_dist.frameworks.port_holders import find_holders
from jupyter_dist.model.hosts.addresses import join_address, split_address

BACKLOG = 2048
CONNECT_TIMEOUT_S = 10.0


class PortInUse(FrameworkError):
    """Something listens already at the address that was given."""


def open_store(host: str, port: int, world_size: int, timeout_s: float) -> tuple[Any, str]:
    """Open torch's store here, port 0: on a free one; return it and its address.

    Raise PortInUse, FrameworkError.

    The socket is made here, so that no port is looked for and let go of again, and no other network
    reaches it. Where a former group of this process still has a store at the port, that store is
    shared, as torch does it: objects of the user may hold it for as long as they live.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        takes_both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listener = socket.create_server(
            address, family=family, backlog=BACKLOG, dualstack_ipv6=takes_both
        )
    except OSError as error:
        if any(holder.is_this_process for holder in find_holders(port)):
            with suppress(RuntimeError):  # torch's of networks: there is no store of its own
                shared = _make_store(host, port, world_size, timeout_s, None)
                return shared, join_address(str(address[0]), port)
        kind = PortInUse if error.errno == errno.EADDRINUSE else FrameworkError
        why = str(error.strerror or error).partition(" (while ")[0]
        raise kind(f"rank 0 cannot listen on {join_address(host, port)}: {why}") from error
    bound_host, bound_port = listener.getsockname()[:2]
    store = _make_store(bound_host, bound_port, world_size, timeout_s, listener.detach())
    return store, join_address(bound_host, bound_port)


def _make_store(
    host: str, port: int, world_size: int, timeout_s: float, listening: int | None
) -> Any:
    from torch.distributed import TCPStore

    return TCPStore(
        host,
        port,
        world_size,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=timeout_s),
        # torch.distributed.rpc and others that meet at MASTER_PORT then find this one.
        multi_tenant=True,
        master_listen_fd=listening,
    )


def reach_store(address: str, world_size: int, look_around: Callable[[], None]) -> Any:
    """Connect to the store of rank 0; `look_around` raises what makes further waiting useless.

    Raises FrameworkError where nothing answers. The store waits for CONNECT_TIMEOUT_S only, until
    it is told otherwise.
    """
    from torch.distributed import TCPStore

    host, port = split_address(address)
    try:
        # torch would not say what is in its way.
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        connect = partial(
            TCPStore,
            host,
            port,
            world_size,
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(seconds=CONNECT_TIMEOUT_S),
        )
        # Where the wait is given up, it ends on its own, after CONNECT_TIMEOUT_S at most.
        return BlockingCall(connect, "torch-connect").wait(look_around)
    except (OSError, RuntimeError) as error:  # torch's errors of networks are RuntimeErrors
        said = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise FrameworkError(
            f"it cannot reach rank 0 at {address}: {said}. Check that no "
            "firewall is between the hosts, and which network ranks use (%dist_check)"
        ) from error


def hang_up(address: str) -> None:
    """Shut down all connections of this process to a store, from any thread: its waits raise."""
    place = split_address(address)
    for name in os.listdir("/proc/self/fd"):
        shut_down(int(name), place)
