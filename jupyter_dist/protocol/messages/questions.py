"""What a rank can be asked while it runs a cell, and what it answers."""

import msgspec

from jupyter_dist.model.ranks.profiles import ProfileBegun, RankProfile
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.model.ranks.variable_facts import RankNames


class ListNames(msgspec.Struct, frozen=True, tag=True):
    """Tell which variables you have: those of these patterns (`w*`); none given: all."""

    patterns: tuple[str, ...] = ()
    with_values: bool = True
    """Look at the values as well; else names and types only."""


class CompleteCode(msgspec.Struct, frozen=True, tag=True):
    """Tell what can follow at this place of a cell."""

    code: str
    cursor: int
    """In characters of `code`."""


class InspectName(msgspec.Struct, frozen=True, tag=True):
    """Tell what the object with this (dotted) name is."""

    name: str
    detail: int = 0
    """1: its source as well."""


class ShowValue(msgspec.Struct, frozen=True, tag=True):
    """Show a part of a variable, as `w[:10]`, without running code of anyone."""

    place: str
    """See options/value_place.py."""
    most_characters: int = 2000


class ReadStacks(msgspec.Struct, frozen=True, tag=True):
    """Tell what your threads are doing; agents look at ranks that do not answer themselves."""

    is_native: bool = False
    """Show calls of C and C++ too, where py-spy is there and may look."""


class BeginProfile(msgspec.Struct, frozen=True, tag=True):
    """Take note of what you do from now on; at most one profile at a time."""

    profile_id: str
    kind: str
    """sampling, jax, torch or memory."""
    most_s: float
    """End it after this time without an order."""
    is_native: bool = False
    """See what C and C++ do too, where py-spy (for memory, memray) is there and may look."""


class EndProfile(msgspec.Struct, frozen=True, tag=True):
    """Tell what you have noted since this profile began."""

    profile_id: str


_Profiling = BeginProfile | EndProfile
About = ListNames | CompleteCode | InspectName | ShowValue | ReadStacks | _Profiling


class Completions(msgspec.Struct, frozen=True, tag=True):
    """What can stand between `start` and `end`."""

    matches: tuple[str, ...]
    start: int
    end: int


class Inspection(msgspec.Struct, frozen=True, tag=True):
    """A MIME bundle; empty: there is no such object."""

    data: dict[str, str]


class ValueShown(msgspec.Struct, frozen=True, tag=True):
    """What a value is, and as much of it as was asked for."""

    text: str


class NoAnswer(msgspec.Struct, frozen=True, tag=True):
    """The rank could not find out."""

    reason: str


_Profiled = ProfileBegun | RankProfile
Answer = RankNames | RankStacks | Completions | Inspection | ValueShown | _Profiled | NoAnswer
