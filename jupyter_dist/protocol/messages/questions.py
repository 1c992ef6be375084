"""What a rank can be asked while it runs a cell, and what it answers."""

import msgspec

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


class ReadStacks(msgspec.Struct, frozen=True, tag=True):
    """Tell what your threads are doing; agents look at ranks that do not answer themselves."""

    is_native: bool = False
    """Show calls of C and C++ too, where py-spy is there and may look."""


About = ListNames | CompleteCode | InspectName | ReadStacks


class Completions(msgspec.Struct, frozen=True, tag=True):
    """What can stand between `start` and `end`."""

    matches: tuple[str, ...]
    start: int
    end: int


class Inspection(msgspec.Struct, frozen=True, tag=True):
    """A MIME bundle; empty: there is no such object."""

    data: dict[str, str]


class NoAnswer(msgspec.Struct, frozen=True, tag=True):
    """The rank could not find out."""

    reason: str


Answer = RankNames | RankStacks | Completions | Inspection | NoAnswer
