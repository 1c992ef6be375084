"""JAX's connection to its service, and its devices: where nothing can hang or abort."""

import threading
from collections.abc import Callable, Mapping
from time import monotonic

from jupyter_dist.errors import CollectiveTimeout, FrameworkError
from jupyter_dist.frameworks.blocking_call import BlockingCall
from jupyter_dist.frameworks.jax.private.runtime import (
    Client,
    PrivateRuntime,
    abandon_backends,
    keep,
    make_backends,
)
from jupyter_dist.frameworks.jax.service.relay_process import RelayProcess

_GOODBYE_TIMEOUT_S = 1.5
_SLICE_S = 0.2
_LEAVING_TIMEOUT_S = 0.5
_LEFT_TIMEOUT_S = 2.0
_MOMENT_S = 0.005


def connect(
    runtime: PrivateRuntime,
    relay: RelayProcess,
    arguments: Mapping[str, object],
    deadline_s: float,
    look_around: Callable[[], None],
) -> None:
    """Call JAX's initialize on a thread, because it cannot be interrupted.

    `look_around` raises what makes further waiting useless. Raises CollectiveTimeout, what JAX
    raises, and FrameworkError when an earlier call is still on its way.
    """
    _await_left()
    too_late = (
        f"JAX's coordination service at {arguments['coordinator_address']} has not let all "
        "processes in within initialization_timeout. Give it more time, or see the service's log."
    )
    attempt = _Attempt(runtime, relay, arguments)
    try:
        attempt.call.wait(_looking(look_around, deadline_s, too_late))
    except BaseException:
        attempt.leave()
        raise


def find_devices(
    runtime: PrivateRuntime, relay: RelayProcess, deadline_s: float, look_around: Callable[[], None]
) -> None:
    """Have JAX find the devices of all ranks, on a thread as in `connect`.

    Raises CollectiveTimeout, what `look_around` raises, and what JAX raises; then JAX is as if it
    had never been formed, and what waits inside it is left there.
    """
    call = BlockingCall(make_backends, "jax-devices")
    too_late = "JAX has not found the devices of all ranks in time."
    try:
        call.wait(_looking(look_around, deadline_s, too_late))
    except BaseException:
        abandon_backends(call.thread)
        keep((runtime.take_client(), relay))
        raise


def _looking(
    look_around: Callable[[], None], deadline_s: float, too_late: str
) -> Callable[[], None]:
    """Return what raises CollectiveTimeout, too, when the time is over."""

    def look() -> None:
        look_around()
        if monotonic() > deadline_s:
            raise CollectiveTimeout(too_late)

    return look


class _Attempt:
    """A call of JAX's initialize; once it is left, nothing that it makes stays in JAX."""

    def __init__(
        self, runtime: PrivateRuntime, relay: RelayProcess, arguments: Mapping[str, object]
    ) -> None:
        self._runtime = runtime
        self._relay = relay
        self._arguments = arguments
        self._lock = threading.Lock()
        self._has_client = False
        self._is_left = False
        self._is_taken = False
        """Its client is out of JAX: for the rest of the call, it is only waiting."""
        self._is_replaced = False
        """What is in JAX's state now belongs to a later call."""
        self.call = BlockingCall(self._call, "jax-connect")

    def _call(self) -> None:
        try:
            self._runtime.connect(self._arguments, self._relay.address, self._on_client)
        finally:
            with self._lock:
                if self._is_left and not self._is_replaced:
                    self._take()

    def _on_client(self, client: object) -> None:
        with self._lock:
            self._has_client = True
            if self._is_left:
                keep((client, self._relay))
                raise FrameworkError("this connection of JAX is no longer awaited")

    def _take(self) -> None:
        client = self._runtime.take_client()
        self._is_taken |= client is not None
        keep((client, self._relay))

    def leave(self) -> None:
        """Leave it inside, with the connection that it waits on."""
        with self._lock:
            self._is_left = True
            self._take()
        _LEFT.append(self)
        end_s = monotonic() + _LEAVING_TIMEOUT_S
        # One that is made goes into JAX's state at once.
        while self._has_client and not self._is_taken and monotonic() < end_s:
            if self.call.has_ended(_MOMENT_S):
                return
            with self._lock:
                self._take()

    def replace(self, deadline_s: float) -> None:
        """Wait until it touches JAX's state no more; raises FrameworkError."""
        while not self._is_taken and not self.call.has_ended(_SLICE_S):
            if monotonic() > deadline_s:
                raise FrameworkError(
                    "an earlier call of jax.distributed.initialize() was left, and is still on its "
                    "way in JAX. Try again in a moment; %dist_heal with this rank replaces it."
                )
        with self._lock:
            self._is_replaced = True


def _await_left() -> None:
    """Let no call that was left interfere with the next one; raises FrameworkError."""
    deadline_s = monotonic() + _LEFT_TIMEOUT_S
    while _LEFT:
        _LEFT[-1].replace(deadline_s)
        _LEFT.pop()


def say_goodbye(client: Client, relay: RelayProcess | None) -> None:
    """Shut a client down; one that cannot is kept for ever, because its end ends the process."""
    if relay is not None and relay.why_gone:
        keep((client, relay))
        return
    goodbye = BlockingCall(client.shut_down, "jax-goodbye")
    if not goodbye.has_ended(_GOODBYE_TIMEOUT_S) or goodbye.has_failed:
        keep((client, relay))  # the service may have ended meanwhile
    elif relay is not None:
        relay.close()


_LEFT: list[_Attempt] = []
"""Calls that were left, since the last one that was not."""
