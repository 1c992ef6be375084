"""The relay of a host, as a child of the zygote: it shares its memory, and ends with it."""

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from jupyter_dist.launch.processes.process_life import die_with_parent
from jupyter_dist.protocol.births import EngineConfig, relay_path

Fork = Callable[[Callable[[], NoReturn]], int]
"""Runs something in a child, and returns its number. Raises OSError."""


class HostRelay:
    """At most one relay lives; engines whose relay has ended dial the coordinator themselves."""

    def __init__(self) -> None:
        self.pid = 0
        """Its process; 0: there is none."""

    def serve(self, births: Sequence[EngineConfig], fork: Fork | None) -> Sequence[EngineConfig]:
        """Return these births as they can be: without a relay where none can be started.

        Without `fork` engines are spawned here, and there is none.
        """
        if fork is None:
            return _without_relay(births)
        wants = [config for config in births if config.relay]
        if not wants or self.pid:
            return births
        path = relay_path(wants[0].run_dir)
        try:
            with _listen_at(path) as listening:
                zygote_pid = os.getpid()
                self.pid = fork(lambda: _be_relay(wants[0], listening, zygote_pid))
        except OSError:
            traceback.print_exc()
            return _without_relay(births)
        return births

    def on_end(self, pid: int, status: int) -> None:
        """Take in that a child has ended."""
        if pid == self.pid:
            self.pid = 0
            code = os.waitstatus_to_exitcode(status)
            sys.stderr.write(f"the relay has ended ({code}): its ranks go on without one\n")


def _without_relay(births: Sequence[EngineConfig]) -> Sequence[EngineConfig]:
    return [msgspec.structs.replace(config, relay="") for config in births]


def _listen_at(path: str) -> socket.socket:
    """Open it before there is a relay or a rank, so that none of them waits for the other."""
    from jupyter_dist.control.relay.relay import listen_at

    if os.path.exists(path):
        os.unlink(path)  # of a relay that has ended
    return listen_at(path)


def _be_relay(config: EngineConfig, listening: socket.socket, zygote_pid: int) -> NoReturn:
    """Carry messages until the zygote ends."""
    die_with_parent(zygote_pid)
    os.setsid()
    # A batch system that ends a job signals all its processes; the agent decides.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    from jupyter_dist.control.context import new_context
    from jupyter_dist.control.relay.relay import Home, Relay

    home = Home(config.engines_address, config.credentials, config.relay.encode())
    relay = Relay(new_context(), listening, home)
    while True:
        relay.carry(relay.wait())
