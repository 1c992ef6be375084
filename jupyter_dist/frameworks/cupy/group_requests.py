"""What ranks say when they call init_process_group, and what does not go together. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from jupyter_dist.frameworks.rank_facts import group_ranks
from jupyter_dist.model.hosts.rank import name_ranks

CLAIM = "cupyx.distributed.init_process_group()"


class GroupRequest(msgspec.Struct, frozen=True):
    """What one rank was called with, and what it has."""

    n_devices: str
    """Numbers as they were written: they may be no numbers."""
    rank: str
    backend: str
    use_mpi: bool
    cupy: str
    nccl: int
    """As 22903; 0: there is none."""
    problem: str = ""
    """What the rank lacks, as `no GPU`."""
    formed: str = ""
    """The variables that have a process group already, or what stands for them."""
    number: int = 0
    """How many groups the rank has made in its life."""


def find_problem(claims: Mapping[int, GroupRequest]) -> tuple[str, bool]:
    """Return why these ranks cannot form a group, and whether it is the caller's mistake."""
    size = len(claims)
    for wrong in (
        {
            rank: f"n_devices is {one.n_devices}, and the cluster has {size} ranks: pass "
            "world_size. For some ranks only, use comm.split()"
            for rank, one in claims.items()
            if one.n_devices != str(size)
        },
        {
            rank: f"the rank given is {one.rank}: pass rank"
            for rank, one in claims.items()
            if one.rank != str(rank)
        },
        {
            rank: f"backend is {one.backend!r}; CuPy has 'nccl' only"
            for rank, one in claims.items()
            if one.backend != "nccl"
        },
        {
            rank: f"there is a process group already ({one.formed}): go on with it, or call its "
            "stop() on all ranks first"
            for rank, one in claims.items()
            if one.formed
        },
    ):
        if wrong:
            return f"{CLAIM} on {name_ranks(wrong)}: {next(iter(wrong.values()))}.", True
    if lacking := [rank for rank, one in claims.items() if one.problem]:
        return f"{CLAIM} on {name_ranks(lacking)}: {claims[lacking[0]].problem}", False
    if len({one.use_mpi for one in claims.values()}) > 1:
        some = name_ranks(rank for rank, one in claims.items() if one.use_mpi)
        return f"{CLAIM}: use_mpi=True on {some} only. Pass the same everywhere.", True
    return _find_different_nccl(claims), False


def _find_different_nccl(claims: Mapping[int, GroupRequest]) -> str:
    versions = group_ranks({rank: one.nccl for rank, one in claims.items()})
    if len(versions) == 1:
        return ""
    which = "; ".join(
        f"{name_ranks(who)}: NCCL {write_version(version)} with CuPy {claims[who[0]].cupy}"
        for version, who in sorted(versions.items())
    )
    return f"ranks have different versions of NCCL ({which}). Install the same one on all hosts."


def write_version(number: int) -> str:
    """Write NCCL's version number, 22903, as 2.29.3."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def write_number(value: Any) -> str:
    """Write a whole number of any type, also numpy's; others as they are, so that they differ."""
    try:
        return str(value.__index__())
    except AttributeError:
        return repr(value)
