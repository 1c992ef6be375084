"""Who is who: ranks over hosts, and sets of ranks as people write them."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from jupyter_dist.errors import UnknownRanks
from jupyter_dist.model.spec.cluster_spec import MOST_DEFAULT_SLOTS, HostSpec
from jupyter_dist.model.spec.devices import ALL
from jupyter_dist.text.plurals import fit

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


NAMES_OF_RANKS = ("rank", "world_size", "local_rank", "local_world_size", "comm")
"""What each rank has from the cluster under these names, in every cell.

`checkpoint` is none of them: people call so what they have loaded.
"""


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


def assign_ranks(hosts: Sequence[HostSpec]) -> tuple[RankInfo, ...]:
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
    if devices_per_engine == ALL:
        return 1
    return device_count // devices_per_engine or max(1, min(cpu_count, MOST_DEFAULT_SLOTS))


def parse_ranks(text: str, world_size: int) -> tuple[int, ...]:
    """Read `0,2-3` as a sorted tuple of ranks; raises UnknownRanks."""
    ranks: set[int] = set()
    for part in (piece.strip() for piece in text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise UnknownRanks(text, world_size)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last >= world_size:
            raise UnknownRanks(text, world_size)
        ranks.update(range(first, last + 1))
    return tuple(sorted(ranks))


def format_ranks(ranks: Iterable[int]) -> str:
    """Write a set of ranks the short way: `0,2-3,7`."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def name_ranks(ranks: Iterable[int]) -> str:
    """Name ranks inside a sentence: `rank 2`, `ranks 0-3,5`."""
    ranks = tuple(ranks)
    return f"rank{fit(set(ranks), '', 's')} {format_ranks(ranks)}"
