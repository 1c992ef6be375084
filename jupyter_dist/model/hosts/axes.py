"""Axes over the ranks, as those of a mesh: their names and sizes, and where each rank is."""

import keyword
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.text.columns import align

FOLLOWS = -1
"""In place of one size: it follows from the number of ranks."""
MOST_AXES = 16
Coordinates = Mapping[str, Collection[int]]
"""Along some axes, which coordinates are meant."""


class Axes(msgspec.Struct, frozen=True, array_like=True):
    """The axes of a cluster, which may have none; `str()` is a table of which rank is where."""

    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    """The rank at each place, the last axis fastest; empty: 0, 1, 2, …"""
    version: int = 0
    """Grows in a cluster each time that axes are named or dropped."""

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def shape(self) -> dict[str, int]:
        """The size of each axis."""
        return dict(zip(self.names, self.sizes, strict=True))

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return where a rank is: its coordinate along each axis."""
        place = self.order.index(rank) if self.order else rank
        found = []
        for size in reversed(self.sizes):
            place, coordinate = divmod(place, size)
            found.append(coordinate)
        return dict(zip(self.names, reversed(found), strict=True))

    def select(self, wanted: Coordinates) -> tuple[int, ...]:
        """Return the ranks with these coordinates, in the order of places; of other axes all."""
        places = [0]
        for name, size in self.shape.items():
            chosen = sorted(set(wanted.get(name, range(size))))
            places = [place * size + coordinate for place in places for coordinate in chosen]
        return tuple(self.order[place] for place in places) if self.order else tuple(places)

    def along(self, rank: int, names: Iterable[str]) -> tuple[int, ...]:
        """Return the ranks that differ from this one in these axes only, itself among them."""
        fixed = {name: (at,) for name, at in self.coordinates(rank).items() if name not in names}
        return self.select(fixed)

    def tell(self, ranks: Collection[int]) -> str:
        """Return what ranks have in common, as ` (data=2, model=1)`; empty: nothing."""
        size = prod(self.sizes)
        if not self or not ranks or min(ranks) < 0 or max(ranks) >= size:
            return ""  # of the cluster before it shrank
        if 1 < len(ranks) > size // 2:
            return ""  # more than a half share no coordinate
        shared = self.coordinates(next(iter(ranks)))
        for rank in ranks:
            shared = dict(shared.items() & self.coordinates(rank).items())
        told = [f"{name}={shared[name]}" for name in self.names if name in shared]
        return f" ({', '.join(told)})" if told else ""

    def has_all(self, ranks: Collection[int]) -> bool:
        """Return whether these are the ranks that the axes are named over."""
        if len(self.names) != len(self.sizes) or min(self.sizes, default=1) < 1:
            return False
        return prod(self.sizes) == len(ranks) and sorted(self.select({})) == sorted(ranks)

    def table(self, across: str, tell: Callable[[int], str]) -> list[list[str]]:
        """Return rows of text, heads first: where a row is along the other axes, then its ranks.

        `tell` writes what stands for a rank.
        """
        down = [name for name in self.names if name != across]
        rows: dict[tuple[str, ...], list[str]] = {}
        for rank in self.select({}):
            at = self.coordinates(rank)
            rows.setdefault(tuple(str(at[name]) for name in down), []).append(tell(rank))
        heads = [*down, *(f"{across}={at}" for at in range(self.shape[across]))]
        return [heads, *([*place, *cells] for place, cells in rows.items())]

    def __str__(self) -> str:
        if not self:
            return "no axes are named; %dist_axes data=4,model=2 names them"
        rows = self.table(self.names[-1], lambda rank: f"rank {rank}")
        return "\n".join(align(rows, right=range(len(self.names) - 1)))


NO_AXES = Axes()


def write_sizes(sizes: Mapping[str, int]) -> str:
    """Write names and sizes as people type them: `data=4,model=2`."""
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def read_sizes(text: str) -> tuple[tuple[str, int], ...]:
    """Read `data=4,model=-1`; raise UsageError for what is not that."""
    found = []
    for part in text.split(","):
        name, equals, size = (piece.strip() for piece in part.partition("="))
        is_number = size.removeprefix("-").isdecimal() and size.isascii() and len(size) < 10
        if not equals or not is_number:
            raise _refuse(text, f"{part.strip()!r} is not NAME=SIZE")
        found.append((name, int(size)))
    return tuple(found)


def lay_out(
    given: Sequence[tuple[str, int]],
    world_size: int,
    hosts: Collection[str] = (),
    order: Sequence[int] = (),
) -> Axes:
    """Return the axes over so many ranks; raise UsageError where they do not fit them."""
    text = ",".join(f"{name}={size}" for name, size in given)
    names = [name for name, _size in given]
    _check_names(text, names, hosts)
    sizes = _fill(text, [size for _name, size in given], world_size)
    if order and sorted(order) != list(range(world_size)):
        raise _refuse(text, f"it must have each of ranks 0-{world_size - 1} once")
    is_plain = tuple(order) == tuple(range(world_size))
    return Axes(tuple(names), sizes, () if is_plain else tuple(order))


def _check_names(text: str, names: Sequence[str], hosts: Collection[str]) -> None:
    if not 0 < len(names) <= MOST_AXES:
        raise _refuse(text, f"these are {len(names)} axes")
    for index, name in enumerate(names):
        if not name.isidentifier() or keyword.iskeyword(name):
            raise _refuse(text, f"{name!r} is not a name that Python can use")
        if name in names[:index]:
            raise _refuse(text, f"{name} is named twice")
        if name in hosts:
            raise _refuse(text, f"{name} is a host of this cluster, which --on means by that name")


def _fill(text: str, sizes: Sequence[int], world_size: int) -> tuple[int, ...]:
    """Return the sizes, with the one that follows; raise UsageError where they do not fit."""
    known = prod(size for size in sizes if size != FOLLOWS)
    if any(size < 1 and size != FOLLOWS for size in sizes):
        raise _refuse(text, "a size is 1 or more, or -1 for one that follows from the others")
    if sizes.count(FOLLOWS) > 1:
        raise _refuse(text, "only one size can be -1")
    if FOLLOWS in sizes and world_size % known == 0:
        return tuple(world_size // known if size == FOLLOWS else size for size in sizes)
    if FOLLOWS in sizes:
        raise _refuse(text, f"{world_size} ranks cannot be divided by {known}")
    if known != world_size:
        product = " * ".join(map(str, sizes))
        told = f"{product} = {known}" if len(sizes) > 1 else product
        raise _refuse(text, f"{told}, but the cluster has {world_size} ranks")
    return tuple(sizes)


def _refuse(given: str, problem: str) -> UsageError:
    return UsageError(
        f"axes {given!r}: {problem}. Accepted: NAME=SIZE[,NAME=SIZE…], at most {MOST_AXES} axes, "
        "whose product is the number of ranks; one size may be -1, as in data=-1,model=2."
    )
