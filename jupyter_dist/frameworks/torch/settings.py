"""How a default group was formed, as ranks that join later form it again."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from jupyter_dist.frameworks.torch.wanted import ENV, Place

Arguments = Mapping[str, Any]
"""Those of init_process_group, by name."""


class Settings(msgspec.Struct, frozen=True):
    """How a group was formed; who joins later does it like that."""

    backend: str | None = None
    timeout_s: float | None = None
    device_id: str = ""
    way: str = ENV
    host: str = ""
    """Where the user wanted the store; empty: anywhere."""
    port: int = 0

    @property
    def place(self) -> Place:
        """Where it is to be again, if it can."""
        return Place(self.way, self.host, self.port)


def settings_of(arguments: Arguments, place: Place) -> Settings:
    """Keep what a later rank needs to make the same call."""
    backend, timeout = arguments.get("backend"), arguments.get("timeout")
    device = arguments.get("device_id")
    return Settings(
        None if backend is None else str(backend).lower(),
        timeout.total_seconds() if isinstance(timeout, timedelta) else None,
        "" if device is None else str(device),
        place.way,
        place.host,
        place.port,
    )


def arguments_of(settings: Settings) -> dict[str, Any]:
    """Return the arguments of a call like the one before; torch is loaded."""
    import torch

    arguments: dict[str, Any] = {"backend": settings.backend}
    if settings.timeout_s is not None:
        arguments["timeout"] = timedelta(seconds=settings.timeout_s)
    if settings.device_id:
        device = settings.device_id
        arguments["device_id"] = int(device) if device.isdecimal() else torch.device(device)
    return arguments
