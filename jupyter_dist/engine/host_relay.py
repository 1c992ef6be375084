"""The relay of a host, as a child of the zygote: it shares its memory, and ends with it."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

import msgspec

from jupyter_dist.launch.processes.process_life import die_with_parent
from jupyter_dist.protocol.births import EngineConfig, relay_path

if TYPE_CHECKING:
    from jupyter_dist.control.relay.doors import Doors

Fork = Callable[[Callable[[], NoReturn]], int]
"""Runs something in a child, and returns its number. Raises OSError."""


AGAIN_AFTER_S = 1.0
"""A relay that has lived for less is not followed by another one at once."""


class HostRelay:
    """At most one relay lives; ranks whose relay has ended dial the coordinator themselves.

    Another one takes its place: a rank that holds Python's lock cannot dial, but libzmq connects it
    again for its heartbeats. New ranks speak through it as well.
    """

    def __init__(self) -> None:
        self.pid = 0
        """Its process; 0: there is none."""
        self._start: Callable[[], None] | None = None
        """Starts one as it was asked for. Raises OSError."""
        self._started_s = 0.0

    def serve(self, births: Sequence[EngineConfig], fork: Fork | None) -> Sequence[EngineConfig]:
        """Return these births as they can be: without a relay where none can be started.

        Without `fork` engines are spawned here, and there is none.
        """
        if fork is None:
            return _without_relay(births)
        wants = [config for config in births if config.relay]
        if not wants or self.pid:
            return births
        self._start = partial(self._start_for, wants[0], fork)
        try:
            self._start()
        except OSError:
            traceback.print_exc()
            return _without_relay(births)
        return births

    def on_end(self, pid: int, status: int) -> None:
        """Take in that a child has ended."""
        if pid != self.pid:
            return
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        sys.stderr.write(f"the relay has ended ({code}): its ranks go on without one\n")
        if self._start is not None and monotonic() >= self._started_s + AGAIN_AFTER_S:
            try:
                self._start()
            except OSError:
                traceback.print_exc()

    def _start_for(self, config: EngineConfig, fork: Fork) -> None:
        from jupyter_dist.control.relay.doors import open_doors

        zygote_pid, self._started_s = os.getpid(), monotonic()
        # Open before there is a relay or a rank, so that none of them waits for the other.
        with closing(open_doors(relay_path(config.run_dir))) as doors:
            self.pid = fork(lambda: _be_relay(config, doors, zygote_pid))


def _without_relay(births: Sequence[EngineConfig]) -> Sequence[EngineConfig]:
    return [msgspec.structs.replace(config, relay="") for config in births]


def _be_relay(config: EngineConfig, doors: "Doors", zygote_pid: int) -> NoReturn:
    """Carry messages until the zygote ends."""
    die_with_parent(zygote_pid)
    os.setsid()
    # A batch system that ends a job signals all its processes; the agent decides.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    from jupyter_dist.control.context import new_context
    from jupyter_dist.control.relay.doors import Home
    from jupyter_dist.control.relay.engine_dealer import alive_interval_s
    from jupyter_dist.control.relay.relay import Relay

    home = Home(
        config.engines_address,
        config.beats_address,
        config.credentials,
        config.relay.encode(),
        alive_interval_s(config.lost_after_s),
    )
    relay = Relay(new_context(), doors, home)
    while True:
        relay.carry(relay.wait())
