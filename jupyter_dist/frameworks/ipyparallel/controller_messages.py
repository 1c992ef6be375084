"""What the coordinator and the process of an ipyparallel controller say to each other.

One line of JSON each: orders come on its stdin, what it tells goes to its stdout.
"""

from typing import Any

import msgspec

LOOPBACK = "127.0.0.1"
EVERYWHERE = "*"
HEART_PERIOD_MS = 200
"""An engine counts as registered with its second beat, so this is half of what that takes;"""
HEART_PERIOD_PER_RANK_MS = 5
"""but hearts of very many ranks must leave the controller time for something else."""


class Open(msgspec.Struct, frozen=True, tag=True):
    """The first order: listen here."""

    directory: str
    """Where it may write; private, and removed by the coordinator."""
    engine_address: str = LOOPBACK
    """IPv4 address at which engines reach it, or EVERYWHERE; clients are on this machine."""
    ports: tuple[int, ...] = ()
    """For engines; empty: any."""
    heart_period_ms: int = HEART_PERIOD_MS


class Unregister(msgspec.Struct, frozen=True, tag=True):
    """These engines are gone: whoever waits for them learns it now."""

    ranks: tuple[int, ...]


class End(msgspec.Struct, frozen=True, tag=True):
    """Tell clients that it is over, and end."""


Order = Open | Unregister | End


class Serving(msgspec.Struct, frozen=True, tag=True):
    """It listens; these are ipyparallel's connection dictionaries, with their keys."""

    client: dict[str, Any]
    engine: dict[str, Any]


class Registered(msgspec.Struct, frozen=True, tag=True):
    """This engine's heart beats: clients see it."""

    rank: int


class Unregistered(msgspec.Struct, frozen=True, tag=True):
    """Those engines are not known any more: others may have their ids."""

    ranks: tuple[int, ...]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It cannot serve."""

    problem: str


Told = Serving | Registered | Unregistered | Failed


def heart_period_ms(world_size: int) -> int:
    """Choose how often engines of a cluster of this size are asked whether they live."""
    return max(HEART_PERIOD_MS, HEART_PERIOD_PER_RANK_MS * world_size)
