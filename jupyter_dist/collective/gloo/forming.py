"""How a gloo communicator is formed: ranks tell each other over the control channel where they are.

This module loads torch; it is imported when a communicator is formed and not before.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from torch.distributed import ProcessGroupGloo, Store

from jupyter_dist.collective.control import Control
from jupyter_dist.collective.group import Group
from jupyter_dist.errors import CollectiveTimeout, CommunicatorError

SLICE_S = 0.2


class _Told(NamedTuple):
    key: str
    value: bytes


class _Asked(NamedTuple):
    key: str
    answer: "queue.SimpleQueue[bytes]"


class _Formed(NamedTuple):
    gloo: Any
    error: Exception | None


class _Desk(Store):  # type: ignore[misc]  # torch is not looked into
    """What gloo tells and asks while it is formed, for the thread that may talk to others."""

    def __init__(self) -> None:
        super().__init__()
        self.said: queue.SimpleQueue[_Told | _Asked | _Formed] = queue.SimpleQueue()
        self.is_closed = False

    def set(self, key: str, value: bytes) -> None:
        """Let the others know a value."""
        self.said.put(_Told(key, bytes(value)))

    def get(self, key: str) -> bytes:
        """Wait until another rank has told a value."""
        answer: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.said.put(_Asked(key, answer))
        while not self.is_closed:
            with suppress(queue.Empty):
                return answer.get(timeout=SLICE_S)
        raise RuntimeError("nobody waits for this communicator any more")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:  # noqa: ARG002
        """Wait until others have told all of these; the one who answers watches the time."""
        for key in keys:
            self.get(key)


def form(
    group: Group, host: str, control: Control, timeout_s: float, look_around: Callable[[], None]
) -> Any:
    """Form gloo with all members of the group, on this host's address; they all must come.

    `look_around` is called now and then and may raise. Raises CommunicatorError.
    """
    desk = _Desk()
    ends_at = time.monotonic() + timeout_s
    # Gloo connects inside a call that nothing can interrupt, so it gets a thread of its own.
    threading.Thread(
        target=_connect, args=(desk, group, host, timeout_s), name="gloo", daemon=True
    ).start()
    try:
        while (remaining_s := ends_at - time.monotonic()) > 0:
            look_around()
            try:
                step = desk.said.get(timeout=min(SLICE_S, remaining_s))
            except queue.Empty:
                continue
            if isinstance(step, _Formed):
                return _formed(step)
            with suppress(CollectiveTimeout):
                _attend(step, group, control, remaining_s)
    finally:
        desk.is_closed = True
    raise CollectiveTimeout(
        f"gloo could not be formed within {timeout_s:g} s: not all other ranks have come, or rank "
        f"{group.world_rank} cannot connect to them. Check that no firewall is between the hosts, "
        "or choose another network (GLOO_SOCKET_IFNAME)."
    )


def _attend(step: _Told | _Asked, group: Group, control: Control, timeout_s: float) -> None:
    key = " ".join(filter(None, ("gloo", group.label, step.key)))
    if isinstance(step, _Told):
        control.put(key, step.value)
    else:
        step.answer.put(control.get(key, timeout_s))


def _formed(step: _Formed) -> Any:
    if step.error is not None:
        raise CommunicatorError(f"gloo could not be formed: {step.error}") from step.error
    return step.gloo


def _connect(desk: _Desk, group: Group, host: str, timeout_s: float) -> None:
    try:
        options = ProcessGroupGloo._Options()  # noqa: SLF001  (torch exports no other name)
        options._devices = _devices(host)  # noqa: SLF001
        options._timeout = timedelta(seconds=timeout_s)  # noqa: SLF001
        options._threads = 1  # noqa: SLF001  (there is one call at a time)
        gloo = ProcessGroupGloo(desk, group.rank, group.size, options)
    except Exception as error:  # noqa: BLE001  (handed to the thread that waits)
        # Its frames hold what gloo has opened.
        desk.said.put(_Formed(None, error.with_traceback(None)))
    else:
        if not desk.is_closed:
            desk.said.put(_Formed(gloo, None))


def _devices(host: str) -> list[Any]:
    interfaces = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if not interfaces:
        return [ProcessGroupGloo.create_device(hostname=host)]
    return [ProcessGroupGloo.create_device(interface=name) for name in interfaces.split(",")]
