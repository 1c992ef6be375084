"""Who is who: ranks over hosts, and sets of ranks as people write them."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

from jupyter_dist.errors import UnknownRanks
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.spec.devices import ALL
from jupyter_dist.text.plurals import fit

if TYPE_CHECKING:
    from jupyter_dist.model.spec.cluster_spec import HostSpec

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")

NAMES_OF_RANKS = ("rank", "world_size", "local_rank", "local_world_size", "comm")
"""What each rank has from the cluster under these names, in every cell.

`checkpoint` is none of them: people call so what they have loaded.
"""


class _Naming:
    """Along which axes sentences name ranks."""

    own: Axes | None = None
    """Of the cluster that this process belongs to."""
    spoken_of: ContextVar[Axes | None] = ContextVar("spoken_of", default=None)
    """Of the one that a client speaks of at the moment."""


class RankInfo(msgspec.Struct, frozen=True):
    """The place of one engine, in the words of MPI and torch."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    host_rank: int
    host: str
    device: str = ""
    """Its CUDA devices, as CUDA_VISIBLE_DEVICES has them (`3`, `0,1`); empty: none of its own."""


def assign_ranks(hosts: "Sequence[HostSpec]") -> tuple[RankInfo, ...]:
    """Number the slots of all hosts densely, host by host."""
    world_size = sum(host.slots for host in hosts)
    infos: list[RankInfo] = []
    for host_rank, host in enumerate(hosts):
        for local_rank in range(host.slots):
            infos.append(
                RankInfo(len(infos), world_size, local_rank, host.slots, host_rank, host.name)
            )
    return tuple(infos)


def default_slots(device_count: int, cpu_count: int, devices_per_engine: int = 1) -> int:
    """Return how many engines a host takes when nobody says: one for each share of its devices.

    Without devices a few, by its cores; with all devices for each engine one in any case.
    """
    from jupyter_dist.model.spec.cluster_spec import MOST_DEFAULT_SLOTS  # no rank needs it

    if devices_per_engine == ALL:
        return 1
    return device_count // devices_per_engine or max(1, min(cpu_count, MOST_DEFAULT_SLOTS))


def parse_ranks(text: str, world_size: int) -> tuple[int, ...]:
    """Read `0,2-3` as a sorted tuple of ranks; raises UnknownRanks."""
    ranks = parse_numbers(text, world_size)
    if ranks is None:
        raise UnknownRanks(text, world_size)
    return ranks


def parse_numbers(text: str, end: int) -> tuple[int, ...] | None:
    """Read `0,2-3` as a sorted tuple of numbers below `end`; None: they are no such numbers."""
    numbers: set[int] = set()
    for part in (piece.strip() for piece in text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last >= end:
            return None
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


def format_ranks(ranks: Iterable[int]) -> str:
    """Write a set of ranks the short way: `0,2-3,7`."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def tell_coordinates(ranks: Collection[int]) -> str:
    """Return what stands behind ranks in a sentence: ` (data=2, model=1)`, or nothing.

    Coordinates are along the axes of `name_along` and `naming_along`.
    """
    axes = _Naming.spoken_of.get() or _Naming.own
    return "" if axes is None else axes.tell(ranks)


def name_rank(rank: int) -> str:
    """Name one rank inside a sentence: `rank 2`, `rank 5 (data=2, model=1)`."""
    return f"rank {rank}{tell_coordinates((rank,))}"


def name_ranks(ranks: Iterable[int]) -> str:
    """Name ranks inside a sentence: `rank 2`, `ranks 0-3,5`, `ranks 4-5 (data=2)`."""
    found = set(ranks)
    return f"rank{fit(found, '', 's')} {format_ranks(found)}{tell_coordinates(found)}"


def number_ranks(ranks: Iterable[int]) -> str:
    """Name ranks of another communicator, or another cluster, by their numbers alone."""
    found = set(ranks)
    return f"rank{fit(found, '', 's')} {format_ranks(found)}"


def name_along(axes: Axes) -> None:
    """Name ranks by their coordinates as well from now on, in each sentence of this process.

    For coordinators and ranks, which belong to one cluster; clients may speak to several.
    """
    _Naming.own = axes or None


@contextmanager
def naming_along(axes: Axes) -> Iterator[None]:
    """Name ranks by their coordinates along these axes in here: for a client."""
    before = _Naming.spoken_of.set(axes or None)
    try:
        yield
    finally:
        _Naming.spoken_of.reset(before)
