"""What one rank did while it was profiled, as it tells it itself."""

from typing import Literal, get_args

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.stacks import Frame

ProfileKind = Literal["sampling", "jax", "torch", "memory"]
PROFILE_KINDS: tuple[str, ...] = get_args(ProfileKind)
NATIVE_KINDS = ("sampling", "memory")
"""In which py-spy or memray can show what C and C++ do."""
MOST_PROFILE_S = 3600.0
"""A rank ends a profile after this time: the client that has begun it may be gone."""


class Allocation(msgspec.Struct, frozen=True, array_like=True):
    """Memory that one line has allocated during a profile, and still holds at its end."""

    site: str
    code: str
    nbytes: int
    count: int
    """In so many blocks."""


class RankProfile(msgspec.Struct, frozen=True, tag=True):
    """One rank's share of a profile; times are of its host's CLOCK_MONOTONIC."""

    kind: str
    began_ns: int
    ended_ns: int
    frames: tuple[Frame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ()
    """Each as indexes of frames, the outermost call first; empty: the rank was idle."""
    times_us: tuple[int, ...] = ()
    """When each sample was taken, since the beginning."""
    samples: tuple[int, ...] = ()
    """Which stack was seen in each."""
    cost_ns: int = 0
    """CPU time that taking samples has used."""
    allocations: tuple[Allocation, ...] = ()
    """Largest first."""
    held_bytes: int = 0
    """By all lines together."""
    trace: bytes = b""
    """Events as Chrome has them, as gzip of JSON; times are microseconds of CLOCK_MONOTONIC."""
    note: str = ""
    """What to know about it; one sentence."""


class ProfileBegun(msgspec.Struct, frozen=True, tag=True):
    """A rank is being profiled from this moment on."""

    began_ns: int


def read_kind(kind: str) -> str:
    """Return a kind of profile; raise UsageError naming those that there are."""
    if kind not in PROFILE_KINDS:
        raise UsageError(
            f"a profile with {kind!r} is not accepted. Accepted: {', '.join(PROFILE_KINDS)}."
        )
    return kind
