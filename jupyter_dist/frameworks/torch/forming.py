"""How the default group is formed: all ranks meet, compare what they want, and only then call."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from jupyter_dist.errors import DistError, PeerFailed, UsageError
from jupyter_dist.frameworks.surroundings import Surroundings
from jupyter_dist.frameworks.torch.private_c10d import C10d
from jupyter_dist.frameworks.torch.store import hang_up, open_store, parse_address, reach_store
from jupyter_dist.frameworks.torch.wanted import (
    CALL,
    FOREIGN,
    Place,
    Wanted,
    check_place,
    check_wanted,
    read_init_method,
)

MEET_TIMEOUT_S = 300.0
"""Loading torch from a cold disk may be part of it."""
BETWEEN_CELLS_S = 30.0
"""A generation that is formed has 60 s for all of it."""
CONNECTED_BETWEEN_CELLS_S = 20.0
"""Reaching the store takes less, or fails."""
DEFAULT_TIMEOUT_S = 1800.0
"""As long as torch's own groups wait."""

Arguments = Mapping[str, Any]
"""Those of init_process_group, by name."""


class Settings(msgspec.Struct, frozen=True):
    """How a group was formed; who joins later does it like that."""

    backend: str | None = None
    timeout_s: float | None = None
    device_id: str = ""


def settings_of(arguments: Arguments) -> Settings:
    """Keep what a later rank needs to make the same call."""
    backend, timeout = arguments.get("backend"), arguments.get("timeout")
    device = arguments.get("device_id")
    return Settings(
        None if backend is None else str(backend).lower(),
        timeout.total_seconds() if isinstance(timeout, timedelta) else None,
        "" if device is None else str(device),
    )


def arguments_of(settings: Settings) -> dict[str, Any]:
    """Give the arguments of a call like the one before; torch is loaded."""
    import torch

    arguments: dict[str, Any] = {"backend": settings.backend}
    if settings.timeout_s is not None:
        arguments["timeout"] = timedelta(seconds=settings.timeout_s)
    if settings.device_id:
        device = settings.device_id
        arguments["device_id"] = int(device) if device.isdecimal() else torch.device(device)
    return arguments


class Forming:
    """Forms the default group, in a cell or between two; the store lives as long as this does."""

    def __init__(self, surroundings: Surroundings, look_around: Callable[[], None]) -> None:
        self._surroundings = surroundings
        self._look_around = look_around
        """Raises what makes waiting for others useless."""
        self._store: Any = None
        self._ours: dict[str, str] = {}
        """What we have set in the environment, which is not the user's wish."""
        self._connecting_to = ""

    def form(self, c10d: C10d, original: Callable[..., None], arguments: Arguments) -> None:
        """Meet all others, and form the group if all agree; else raise the same on all of them.

        Raises UsageError, FrameworkError, CommunicatorError.
        """
        wanted, store = self._want(c10d, arguments)
        everyone = self._meet(wanted)
        first = everyone[min(everyone)]
        c10d.number_anew()
        if wanted.way == FOREIGN:
            original(**arguments)
            return
        store = self._connect(first.store, store, wanted.backends)
        self._init(original, arguments, store, first.store)

    def refuse(self, obstacle: str) -> None:
        """Tell all others that this rank cannot form a group; raises what all of them raise."""
        self._meet(Wanted(obstacle=obstacle))

    def let_go(self) -> None:
        """Close the store: the group is gone."""
        self._store = None

    def hang_up(self) -> None:
        """End a wait for others inside of torch, from any thread."""
        if self._connecting_to:
            hang_up(self._connecting_to)

    # --- what this rank wants ------------------------------------------------------------------

    def _want(self, c10d: C10d, arguments: Arguments) -> tuple[Wanted, Any]:
        """Say what this rank wants; on rank 0 with the store that it has opened."""
        import torch

        info = self._surroundings.info
        wanted = Wanted(version=str(torch.__version__), on_host=info.host_rank)
        try:
            place = self._read_place(arguments)
            wanted = msgspec.structs.replace(
                wanted, way=place.way, host=place.host, port=place.port
            )
            backends = c10d.resolve_backends(arguments.get("backend"), arguments.get("device_id"))
            wanted = msgspec.structs.replace(
                wanted, backends=backends, mistake=c10d.explain_unusable(backends)
            )
        except (ValueError, KeyError) as error:
            return msgspec.structs.replace(wanted, mistake=_said(error)), None
        except Exception as error:  # noqa: BLE001  (whatever it is, the others must hear of it)
            return msgspec.structs.replace(wanted, obstacle=describe(error)), None
        if info.rank or wanted.mistake or wanted.way == FOREIGN:
            return wanted, None
        return self._open_store(wanted, place)

    def _open_store(self, wanted: Wanted, place: Place) -> tuple[Wanted, Any]:
        host, world_size = place.host or self._surroundings.bind_host, self._world_size
        try:
            store, address = open_store(host, place.port, world_size, MEET_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001  (whatever it is, the others must hear of it)
            return msgspec.structs.replace(wanted, obstacle=describe(error)), None
        return msgspec.structs.replace(wanted, store=address), store

    @property
    def _world_size(self) -> int:
        return self._surroundings.info.world_size

    def _read_place(self, arguments: Arguments) -> Place:
        """Find where the call wants to meet; raises UsageError for wrong numbers, too."""
        info = self._surroundings.info
        environment = {
            name: value for name, value in os.environ.items() if self._ours.get(name) != value
        }
        given = [(name, arguments.get(name, -1)) for name in ("rank", "world_size")]
        if arguments.get("store") is not None:
            place = Place(FOREIGN)
        else:
            place = read_init_method(arguments.get("init_method"), environment)
        named = [(name, None if number == -1 else number) for name, number in given]
        named += [("RANK", place.rank), ("WORLD_SIZE", place.world_size)]
        if mistake := check_place(info.rank, info.world_size, named):
            raise UsageError(mistake)
        return place

    # --- together with the others --------------------------------------------------------------

    def _timeout_s(self, between_cells_s: float) -> float:
        """Give how long to wait for others: between cells, they must hear in time what failed."""
        return MEET_TIMEOUT_S if self._surroundings.cell_ranks else between_cells_s

    def _meet(self, wanted: Wanted) -> dict[int, Wanted]:
        timeout_s = self._timeout_s(BETWEEN_CELLS_S)
        facts = self._surroundings.agree(CALL, msgspec.msgpack.encode(wanted), timeout_s)
        everyone = {rank: msgspec.msgpack.decode(each, type=Wanted) for rank, each in facts.items()}
        check_wanted(everyone)
        return everyone

    def _connect(self, address: str, store: Any, backends: str) -> Any:
        """Connect to the store, and learn whether all others can: torch cannot be stopped later."""
        obstacle = ""
        try:
            if store is None:
                store = reach_store(address, self._world_size, self._look_around)
            self._tell_where(address)
            _settle_device(backends)
        except PeerFailed:
            raise  # everybody is told
        except Exception as error:  # noqa: BLE001  (whatever it is, the others must hear of it)
            obstacle = describe(error)
        claim, timeout_s = f"{CALL}, connected", self._timeout_s(CONNECTED_BETWEEN_CELLS_S)
        facts = self._surroundings.agree(claim, obstacle.encode(), timeout_s)
        check_wanted({rank: Wanted(obstacle=each.decode()) for rank, each in facts.items()})
        return store

    def _tell_where(self, address: str) -> None:
        """Set what other libraries look for; what the user has set agrees with it already."""
        host, port = parse_address(address)
        for name, value in (("MASTER_ADDR", host), ("MASTER_PORT", str(port))):
            if name not in os.environ or os.environ[name] == self._ours.get(name):
                os.environ[name] = self._ours[name] = value

    def _init(
        self, original: Callable[..., None], arguments: Arguments, store: Any, address: str
    ) -> None:
        from torch.distributed import PrefixStore

        info, timeout = self._surroundings.info, arguments.get("timeout")
        store.set_timeout(timeout or timedelta(seconds=DEFAULT_TIMEOUT_S))
        self._store = store
        self._connecting_to = address
        try:
            original(
                **{
                    **{name: arguments[name] for name in arguments if name != "init_method"},
                    "rank": info.rank,
                    "world_size": info.world_size,
                    "store": PrefixStore("default_pg", store),
                }
            )
        finally:
            self._connecting_to = ""


def describe(error: Exception) -> str:
    """Say what has failed, for people on other ranks."""
    said = _said(error)
    return said if isinstance(error, DistError) else f"{type(error).__name__}: {said}".rstrip(": ")


def _said(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")  # torch's are long and indented


def _settle_device(backends: str) -> None:
    """Make the only GPU that this rank sees the current one.

    Else torch's DeviceMesh would take LOCAL_RANK for its number.
    """
    import torch

    if "nccl" in backends and torch.cuda.device_count() == 1:
        with suppress(RuntimeError):  # the call that follows says it better
            torch.cuda.init()
