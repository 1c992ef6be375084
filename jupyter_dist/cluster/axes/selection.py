"""Which ranks are meant: by their numbers, by their hosts, by their coordinates along axes."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from jupyter_dist.cluster.spec.checks import On, Ranks, WantedRanks, read_ranks
from jupyter_dist.cluster.spec.host_list import expand_hosts, split_hosts
from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.model.hosts.axes import Axes, Coordinates, write_sizes
from jupyter_dist.model.hosts.host_names import name_hosts
from jupyter_dist.model.hosts.rank import parse_numbers

_ACCEPTED = (
    "Accepted: hosts, as nodeA,nodeB or node[01-04], and coordinates along axes, as "
    "data=0,model=1-2."
)


class _Wanted(NamedTuple):
    hosts: list[str]
    coordinates: dict[str, str]


def select_ranks(
    ranks: Ranks, on: On, located: Mapping[str, Collection[int]], axes: Axes
) -> WantedRanks:
    """Return the ranks that all of it means, sorted; None: all.

    `located` has the ranks of each host. Raise UsageError for what there is not, and where no rank
    is left.
    """
    world_size = sum(map(len, located.values()))
    named = read_ranks(ranks, world_size)
    if on is None:
        return named
    hosts, coordinates = _read(on, axes)
    found = set(axes.select(coordinates)) if coordinates else set(range(world_size))
    if hosts:
        found &= set(_on_hosts(str(on), hosts, located))
    if named is not None:
        found &= set(named)
    if not found:
        beside = f" with ranks {ranks}" if named is not None else ""
        raise UsageError(f"on {_show(on)}{beside}: no rank is left. Name fewer of these together.")
    return tuple(sorted(found))


def _read(on: str | Mapping[str, Any], axes: Axes) -> tuple[list[str], Coordinates]:
    wanted = _split(on) if isinstance(on, str) else _Wanted([], _write(on))
    unknown = [name for name in wanted.coordinates if name not in axes.names]
    if unknown:
        known = f"the axes are {write_sizes(axes.shape)}" if axes else str(axes)
        raise UsageError(f"on {_show(on)}: there is no axis {', '.join(unknown)}; {known}.")
    chosen = {}
    for name, text in wanted.coordinates.items():
        size = axes.shape[name]
        numbers = parse_numbers(text, size)
        if numbers is None:
            raise UsageError(
                f"on {_show(on)}: {name} has coordinates 0-{size - 1}, not {text!r}. {_ACCEPTED}"
            )
        chosen[name] = numbers
    return wanted.hosts, chosen


def _split(text: str) -> _Wanted:
    """Split `nodeA,data=0,2-3` into hosts and coordinates: numbers go on with the axis before."""
    wanted, axis = _Wanted([], {}), ""
    for part in (piece.strip() for piece in split_hosts(text)):
        name, equals, numbers = (piece.strip() for piece in part.partition("="))
        if equals and name in wanted.coordinates:
            raise UsageError(f"on {text!r}: {name} is named twice. {_ACCEPTED}")
        if equals:
            axis = name
            wanted.coordinates[name] = numbers
        elif axis and part[:1].isdecimal():
            wanted.coordinates[axis] += f",{part}"
        else:
            wanted.hosts.append(part)
    return wanted


def _write(on: Mapping[str, Any]) -> dict[str, str]:
    """Return coordinates that a program has given as people type them."""

    def write(numbers: Any) -> str:
        is_list = isinstance(numbers, Iterable) and not isinstance(numbers, str)
        return ",".join(map(str, numbers)) if is_list else str(numbers)

    if not on:
        raise UsageError(f"on {{}} names neither a host nor a coordinate. {_ACCEPTED}")
    return {str(name): write(numbers) for name, numbers in on.items()}


def _on_hosts(text: str, given: list[str], located: Mapping[str, Collection[int]]) -> Iterable[int]:
    try:
        names = expand_hosts(",".join(given))
    except HostSpecError as error:
        raise UsageError(f"on {text!r}: {error.problem}. {_ACCEPTED}") from None
    unknown = [name for name in names if name not in located]
    if unknown:
        lower = {host.lower(): host for host in located}
        near = difflib.get_close_matches(unknown[0].lower(), lower, 1)
        meant = f" Did you mean {lower[near[0]]}?" if near else ""
        hosts = name_hosts(list(located))
        raise UsageError(
            f"on {text!r}: this cluster has no host {name_hosts(unknown)}; its hosts are {hosts}."
            f"{meant} {_ACCEPTED}"
        )
    return (rank for name in names for rank in located[name])


def _show(on: str | Mapping[str, Any]) -> str:
    return repr(on) if isinstance(on, str) else repr(dict(on))
