"""What one rank asks of jax.distributed.initialize: its arguments, or the variables behind them."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.addresses import split_address
from jupyter_dist.model.hosts.rank import RankInfo

OWN_METHOD = "jupyter-dist"
DEFAULT_TIMEOUT_S = 300.0
"""JAX's own."""

_PLACE_VARIABLES = (
    "JAX_COORDINATOR_ADDRESS",
    "JAX_COORDINATOR_BIND_ADDRESS",
    "JAX_COORDINATOR_PORT",
)

Detected = tuple[str | None, int | None, int | None, Sequence[int] | None]
Detect = Callable[[str | None, int | None, int | None, Sequence[int] | None, str, int], Detected]
"""JAX's detection: address, count, id and devices as given, the method, a time-out in seconds."""


class InitializeRequest(msgspec.Struct, frozen=True):
    """Which process of how many this rank is to be, and where the coordination service is."""

    process_id: int
    num_processes: int
    coordinator_address: str = ""
    """Empty: one that is found for it."""
    bind_address: str = ""
    port: str = ""
    """For an address that is found, any port if empty."""
    local_device_ids: tuple[int, ...] | None = None
    partition_index: int | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S

    def agrees_with(self, stands: "InitializeRequest") -> bool:
        """Return whether what stands is what is asked for; what is left out agrees with all."""
        by_choice = (
            (stands.coordinator_address, self.coordinator_address),
            (stands.local_device_ids, self.local_device_ids),
            (stands.partition_index, self.partition_index),
        )
        agrees = all(new in {"", None, old} for old, new in by_choice)
        ids = (self.process_id, self.num_processes)
        return agrees and ids == (stands.process_id, stands.num_processes)


def read_wish(
    given: Mapping[str, Any], environ: Mapping[str, str], info: RankInfo, detect: Detect
) -> InitializeRequest:
    """Read the arguments as JAX does, and fill in what is left out; raises UsageError.

    `given` has the arguments by the names that JAX has for them.
    """
    timeout_s = float(given.get("initialization_timeout") or DEFAULT_TIMEOUT_S)
    address = given.get("coordinator_address") or environ.get("JAX_COORDINATOR_ADDRESS") or None
    devices: Sequence[int] | None = _read_devices(given.get("local_device_ids"), environ)
    count, process_id = given.get("num_processes"), given.get("process_id")
    method = given.get("cluster_detection_method")
    if method == "deactivate":
        _refuse_gaps(coordinator_address=address, num_processes=count, process_id=process_id)
    elif method not in {None, OWN_METHOD}:
        address, count, process_id, devices = detect(
            address, count, process_id, devices, str(method), int(timeout_s)
        )
    return InitializeRequest(
        process_id=info.rank if process_id is None else _read_int("process_id", process_id),
        num_processes=info.world_size if count is None else _read_int("num_processes", count),
        coordinator_address=_read_address("coordinator_address", address),
        bind_address=_read_address(
            "coordinator_bind_address",
            given.get("coordinator_bind_address") or environ.get("JAX_COORDINATOR_BIND_ADDRESS"),
        ),
        port=_read_port(environ.get("JAX_COORDINATOR_PORT", "")),
        local_device_ids=None if devices is None else tuple(devices),
        partition_index=_read_partition(given, environ),
        timeout_s=timeout_s,
    )


def complete(given: Mapping[str, Any], wish: InitializeRequest, address: str) -> dict[str, Any]:
    """Return JAX's initialize all that it would otherwise look for; what it alone knows stays."""
    devices = wish.local_device_ids
    return {
        **given,
        "coordinator_address": address,
        "num_processes": wish.num_processes,
        "process_id": wish.process_id,
        "cluster_detection_method": "deactivate",
        **({} if devices is None else {"local_device_ids": list(devices)}),
    }


def explain_place(bind: str, environ: Mapping[str, str]) -> str:
    """Return which variables a place comes from that cannot be used; empty: from none."""
    port = bind.rpartition(":")[2].lstrip("0")
    said = [
        f"{name}={environ[name]!r}"
        for name in _PLACE_VARIABLES
        if port and environ.get(name, "").rpartition(":")[2].lstrip("0") == port
    ]
    if not said:
        return ""
    names = " and ".join(said)
    return f" {names} in os.environ says so; os.environ.pop takes it out, in a cell on all ranks."


def _refuse_gaps(**values: object) -> None:
    if missing := [name for name, value in values.items() if value is None]:
        raise UsageError(
            f"{' and '.join(missing)} must be given with cluster_detection_method='deactivate'. "
            "Leave that out: then all of them are found."
        )


def _read_int(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(
            f"{name} is {value!r}, a {type(value).__name__}; accepted is an int."
        ) from None


def _read_address(name: str, address: object) -> str:
    if not address:
        return ""
    try:
        split_address(str(address))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    return str(address)


def _read_port(port: str) -> str:
    if port and not (port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise UsageError(f"JAX_COORDINATOR_PORT is {port!r}; accepted is a port, 0-65535.")
    return port


def _read_devices(given: Any, environ: Mapping[str, str]) -> tuple[int, ...] | None:
    text = environ.get("JAX_LOCAL_DEVICE_IDS")
    try:
        if given is None:
            return tuple(int(part) for part in text.split(",")) if text else None
        if isinstance(given, Sequence) and not isinstance(given, str):
            return tuple(operator.index(one) for one in given)
        return (operator.index(given),)
    except (TypeError, ValueError):
        what = f"JAX_LOCAL_DEVICE_IDS is {text!r}" if given is None else f"{given!r}"
        raise UsageError(
            f"local_device_ids: {what}; accepted are an int or a list of ints, as 0 or [0, 1]."
        ) from None


def _read_partition(given: Mapping[str, Any], environ: Mapping[str, str]) -> int | None:
    for name in ("partition_index", "slice_index"):
        if given.get(name) is not None:
            return _read_int(name, given[name])
    for name in ("JAX_PARTITION_INDEX", "JAX_SLICE_INDEX"):
        text = environ.get(name)
        if text is not None:
            if not text.isdecimal():
                raise UsageError(f"{name} is {text!r}; accepted is a number, 0 or more.")
            return int(text)
    return None
