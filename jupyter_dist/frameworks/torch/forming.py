"""How the default group is formed: all ranks meet, compare what they want, and only then call."""

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from jupyter_dist.errors import DistError, FrameworkError, PeerFailed, UsageError
from jupyter_dist.frameworks.port_holders import find_holders, name_holders
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.frameworks.rank_facts import gather_facts
from jupyter_dist.frameworks.torch.private_c10d import C10d
from jupyter_dist.frameworks.torch.request import (
    CALL,
    ENV,
    FOREIGN,
    PLACE_VARIABLES,
    TCP,
    Arguments,
    GroupRequest,
    Place,
    check_place,
    check_wanted,
    have_own_ports,
    read_init_method,
)
from jupyter_dist.frameworks.torch.store import PortInUse, hang_up, open_store, reach_store
from jupyter_dist.model.hosts.addresses import join_address, split_address

MEET_TIMEOUT_S = 300.0
"""Loading torch from a cold disk may be part of it."""
BETWEEN_CELLS_S = 30.0
"""A generation that is formed has 60 s for all of it."""
CONNECTED_BETWEEN_CELLS_S = 20.0
"""Reaching the store takes less, or fails."""
DEFAULT_TIMEOUT_S = 1800.0
"""As long as torch's own groups wait."""
_RESERVE_S = 3600.0
"""A call under way cannot be given more time when a rank is stopped in the debugger."""

_NUMBER_VARIABLES = ("RANK", "WORLD_SIZE")
_EARLIEST = "before the first cell"


class Origins:
    """Knows since which cell variables of the environment have their values.

    It looks now and then; a change belongs to the cell since the last look.
    """

    def __init__(self, names: Iterable[str], environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._seen = {name: environment.get(name) for name in names}
        self._since = dict.fromkeys(self._seen, _EARLIEST)
        self._label = _EARLIEST
        # What lies behind os.environ: to ask os.environ for what it lacks costs microseconds.
        self._look_up = getattr(environment, "_data", environment).get
        self._keys = tuple(map(getattr(environment, "encodekey", str), self._seen))
        self._raw = tuple(map(self._look_up, self._keys))

    def enter_cell(self, label: str) -> None:
        """Note that a cell begins, as `In[3]`."""
        if tuple(map(self._look_up, self._keys)) != self._raw:
            self._look()
        self._label = label

    def describe(self, names: Iterable[str]) -> str:
        """Return what these variables are and since when; empty: none of them is set."""
        self._look()
        return " and ".join(
            f"{name}={self._environment[name]!r} (in os.environ since {self._since[name]})"
            for name in names
            if name in self._environment
        )

    def _look(self) -> None:
        self._raw = tuple(map(self._look_up, self._keys))
        for name, before in self._seen.items():
            value = self._environment.get(name)
            if value != before:
                self._seen[name], self._since[name] = value, self._label


class Forming:
    """Forms the default group, in a cell or between two; the store lives as long as this does."""

    def __init__(self, context: RankContext, look_around: Callable[[], None]) -> None:
        self._context = context
        self._look_around = look_around
        """Raises what makes waiting for others useless."""
        self.store: Any = None
        """In which ranks have found each other; None before, and after the group's end."""
        self._ours: dict[str, str] = {}
        """Variables of the environment that have their values from us."""
        self._connecting_to = ""
        self._origins = Origins((*PLACE_VARIABLES, *_NUMBER_VARIABLES), os.environ)

    def enter_cell(self) -> None:
        """Note that a cell begins, which may set where to meet."""
        self._origins.enter_cell(self._context.cell_label)

    def form(
        self,
        c10d: C10d,
        original: Callable[..., None],
        arguments: Arguments,
        kept: Place | None = None,
    ) -> Place:
        """Meet all others, and form the group if all agree; else raise the same on all of them.

        `kept` is where a group was that is formed again. Return where the user wants it to be.
        Raise UsageError, FrameworkError, CommunicatorError.
        """
        self.let_go()
        wanted, store = self._want(c10d, arguments, kept)
        everyone = self._meet(wanted)
        first = everyone[min(everyone)]
        place = Place(first.way, first.host, first.port)
        c10d.number_anew()
        if wanted.way == FOREIGN:
            original(**arguments)
            return Place(ENV)
        store = self._connect(first, store, wanted.backends)
        if have_own_ports(everyone):
            place = self._take_one_port(first, everyone)
        self._init(original, arguments, store, first)
        return place

    def set_place(self, address: str) -> dict[str, str]:
        """Have the environment name a place that is not the user's wish; return its variables."""
        found = dict(zip(PLACE_VARIABLES, map(str, split_address(address)), strict=True))
        os.environ.update(found)
        self._ours.update(found)
        return found

    def refuse(self, obstacle: str) -> None:
        """Tell all others that this rank cannot form a group; raises what all of them raise."""
        self._meet(GroupRequest(obstacle=obstacle))

    def let_go(self) -> None:
        """Close the store: the group is gone."""
        self.store = None

    def hang_up(self) -> None:
        """End a wait for others inside of torch, from any thread."""
        if self._connecting_to:
            hang_up(self._connecting_to)

    # --- what this rank wants ------------------------------------------------------------------

    def _want(
        self, c10d: C10d, arguments: Arguments, kept: Place | None
    ) -> tuple[GroupRequest, Any]:
        """Return what this rank wants; on rank 0 with the store that it has opened."""
        import torch

        info = self._context.info
        wanted = GroupRequest(version=str(torch.__version__), on_host=info.host_rank)
        try:
            place = kept or self._read_named_place(arguments)
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
        try:
            store, address = self._open_store(place, is_kept=kept is not None)
        except Exception as error:  # noqa: BLE001  (whatever it is, the others must hear of it)
            return msgspec.structs.replace(wanted, obstacle=describe(error)), None
        return msgspec.structs.replace(wanted, store=address, key=secrets.token_hex(4)), store

    def _open_store(self, place: Place, *, is_kept: bool) -> tuple[Any, str]:
        """Open it where it is wanted; elsewhere if only this cluster is in the way there."""
        own, world_size = self._context.bind_host, self._context.info.world_size
        host = place.host or own
        try:
            return open_store(host, place.port, world_size, MEET_TIMEOUT_S)
        except PortInUse as error:
            holders = find_holders(place.port)
            of_cluster = [holder for holder in holders if holder.is_of_cluster]
            if not (is_kept or of_cluster):
                raise FrameworkError(
                    f"{error}, by {name_holders(holders)}. {self._advise(place)}"
                ) from error
            why = f"it is held by {name_holders(of_cluster or holders)}"
            if any(holder.is_this_process for holder in of_cluster):
                why = "something in this rank listens there still, as a store of yours"
        except FrameworkError as error:
            if not is_kept:
                advice = self._advise(place)
                raise FrameworkError(f"{error}. {advice}") from error
            host, why = own, str(error)
        found = open_store(host, 0, world_size, MEET_TIMEOUT_S)
        wanted = join_address(place.host or own, place.port)
        rest = "; MASTER_ADDR and MASTER_PORT stay as they are" if place.way == ENV else ""
        self._context.tell(
            f"torch: ranks did not meet at {wanted} but at {found[1]}: {why}. Nothing needs to be "
            f"done{rest}."
        )
        return found

    def _advise(self, place: Place) -> str:
        """Return what the place comes from, and how to have a free one."""
        if place.way == TCP:
            return "Leave init_method out: a free port is found then"
        said = self._origins.describe(PLACE_VARIABLES)
        if not said:
            return "%dist_check tells which networks this host has"
        return (
            f"The place is from {said}. `for name in ('MASTER_ADDR', 'MASTER_PORT'): "
            "os.environ.pop(name, None)` in a cell on all ranks: a free port is found then"
        )

    def _read_named_place(self, arguments: Arguments) -> Place:
        """Read it; a UsageError tells since when variables that it names have their values."""
        try:
            return self._read_place(arguments)
        except UsageError as error:
            names = (*PLACE_VARIABLES, *_NUMBER_VARIABLES)
            said = self._origins.describe(name for name in names if f"{name}=" in str(error))
            raise UsageError(f"{error} {said}." if said else str(error)) from None

    def _read_place(self, arguments: Arguments) -> Place:
        """Find where the call wants to meet; raises UsageError for wrong numbers, too."""
        info = self._context.info
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
        """Return how long to wait for others: between cells, they must hear in time what failed."""
        return MEET_TIMEOUT_S if self._context.cell_ranks else between_cells_s

    def _meet(self, wanted: GroupRequest) -> dict[int, GroupRequest]:
        timeout_s = self._timeout_s(BETWEEN_CELLS_S)
        everyone = gather_facts(self._context, CALL, wanted, timeout_s)
        check_wanted(everyone)
        return everyone

    def _connect(self, first: GroupRequest, store: Any, backends: str) -> Any:
        """Connect to the store, and learn whether all others can: torch cannot be stopped later."""
        obstacle = ""
        try:
            if store is None:
                store = reach_store(first.store, self._context.info.world_size, self._look_around)
            self._tell_where(first)
            _settle_device(backends)
        except PeerFailed:
            raise  # everybody is told
        except Exception as error:  # noqa: BLE001  (whatever it is, the others must hear of it)
            obstacle = describe(error)
        claim, timeout_s = f"{CALL}, connected", self._timeout_s(CONNECTED_BETWEEN_CELLS_S)
        facts = self._context.agree(claim, obstacle.encode(), timeout_s)
        check_wanted({rank: GroupRequest(obstacle=each.decode()) for rank, each in facts.items()})
        return store

    def _tell_where(self, first: GroupRequest) -> None:
        """Set what other libraries look for; what the user has set agrees with it already."""
        host, port = split_address(first.store)
        found = {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
        chosen = {"MASTER_ADDR": first.host, "MASTER_PORT": str(first.port or "")}
        for name in PLACE_VARIABLES:
            if name in os.environ and os.environ[name] != self._ours.get(name):
                continue
            if first.way == ENV and chosen[name]:
                # A wish of the user, which a rank that is new has not heard of.
                os.environ[name] = chosen[name]
                self._ours.pop(name, None)
            else:
                os.environ[name] = self._ours[name] = found[name]

    def _take_one_port(self, first: GroupRequest, everyone: Mapping[int, GroupRequest]) -> Place:
        """Set the port of rank 0 on all ranks; from now on it is not a wish of the user."""
        found = self.set_place(first.store)
        if self._context.info.rank == min(everyone):
            self._context.tell(
                f"torch: MASTER_PORT was another one on each rank, as Lightning chooses them: "
                f"ranks met at {first.store}, and it is {found['MASTER_PORT']} on all of them now."
            )
        return Place(ENV)

    def _init(
        self, original: Callable[..., None], arguments: Arguments, store: Any, first: GroupRequest
    ) -> None:
        from torch.distributed import PrefixStore

        info, timeout = self._context.info, arguments.get("timeout")
        if timeout is None and "nccl" not in first.backends:
            wait = timedelta(seconds=DEFAULT_TIMEOUT_S + _RESERVE_S)
            arguments = {**arguments, "timeout": wait}
        store.set_timeout(timeout or timedelta(seconds=DEFAULT_TIMEOUT_S))
        self.store = store
        self._connecting_to = first.store
        try:
            original(
                **{
                    **{name: arguments[name] for name in arguments if name != "init_method"},
                    "rank": info.rank,
                    "world_size": info.world_size,
                    "store": PrefixStore(f"default_pg/{first.key}", store),
                }
            )
        finally:
            self._connecting_to = ""


def describe(error: Exception) -> str:
    """Return what has failed, for people on other ranks."""
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
