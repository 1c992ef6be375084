"""JAX's connection to its service, and its devices: where nothing can hang or abort."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from time import monotonic

from jupyter_dist.errors import CollectiveTimeout, FrameworkError
from jupyter_dist.frameworks.jax.private_runtime import (
    Client,
    PrivateRuntime,
    abandon_backends,
    keep,
    make_backends,
)
from jupyter_dist.frameworks.jax.relay_process import RelayProcess

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
    attempt = _Attempt(runtime, relay, arguments)
    try:
        attempt.aside.wait(deadline_s, look_around, _too_late(arguments))
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
    aside = _Aside(make_backends, "jax-devices")
    try:
        aside.wait(deadline_s, look_around, "JAX has not found the devices of all ranks in time.")
    except BaseException:
        abandon_backends(aside.thread)
        keep((runtime.take_client(), relay))
        raise


class _Aside:
    """A call on a thread of its own, because it cannot be interrupted."""

    def __init__(self, call: Callable[[], None], name: str) -> None:
        self._call = call
        self.ended = threading.Event()
        self._errors: list[BaseException] = []
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001  (raised by who waits)
            self._errors.append(error)
        finally:
            self.ended.set()

    def wait(self, deadline_s: float, look_around: Callable[[], None], too_late: str) -> None:
        """Wait in slices; raises what the call and `look_around` raise, and CollectiveTimeout."""
        while not self.ended.wait(_SLICE_S):
            look_around()
            if monotonic() > deadline_s:
                raise CollectiveTimeout(too_late)
        if self._errors:
            raise self._errors[0]


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
        self.aside = _Aside(self._call, "jax-connect")

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
                raise FrameworkError("nobody waits for this connection of JAX any more")

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
            if self.aside.ended.wait(_MOMENT_S):
                return
            with self._lock:
                self._take()

    def replace(self, deadline_s: float) -> None:
        """Wait until it touches JAX's state no more; raises FrameworkError."""
        while not self._is_taken and not self.aside.ended.wait(_SLICE_S):
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
    ended = threading.Event()
    heard: list[bool] = []

    def shut_down() -> None:
        with contextlib.suppress(Exception):  # the service has ended meanwhile
            client.shut_down()
            heard.append(True)
        ended.set()

    threading.Thread(target=shut_down, name="jax-goodbye", daemon=True).start()
    ended.wait(_GOODBYE_TIMEOUT_S)
    if not heard:
        keep((client, relay))
    elif relay is not None:
        relay.close()


def _too_late(arguments: Mapping[str, object]) -> str:
    return (
        f"JAX's coordination service at {arguments['coordinator_address']} has not let all "
        "processes in within initialization_timeout. Give it more time, or see the service's log."
    )


_LEFT: list[_Attempt] = []
"""Calls that were left, since the last one that was not."""
