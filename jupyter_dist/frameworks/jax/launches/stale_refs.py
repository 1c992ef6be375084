"""Variables of users that belong to a mesh of before: named, with what to do about them."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from jupyter_dist.text.plurals import fit

_MOST_NAMES = 12
_MOST_VALUES = 2000
_MOST_DEPTH = 6


def describe_stale(namespace: Mapping[str, object], devices: Collection[Any]) -> tuple[str, ...]:
    """Return which variables belong to devices that are not these any more; nothing: none do."""
    arrays, places = find_stale(namespace, devices)
    found = []
    if arrays:
        one = arrays[0]
        found.append(
            f"{list_names(arrays)} {_belong(arrays)} to the mesh of before, which is gone. "
            f"np.asarray(w.addressable_data(0)), with {one} or an array in it as w, reads the "
            "part of this rank; arrays of one rank only go on to work."
        )
    if places:
        found.append(
            f"{list_names(places)} {_belong(places)} to devices of before. Make the mesh and its "
            "shardings again, with jax.make_mesh for example."
        )
    return tuple(found)


def find_stale(
    namespace: Mapping[str, object], devices: Collection[Any]
) -> tuple[list[str], list[str]]:
    """Name the variables with arrays, and with meshes or the like, of other devices than these.

    One that cannot be looked into (a file that is closed, say) is passed over.
    """
    arrays, places = [], []
    for name, value in sorted(namespace.items()):
        try:
            kinds = {_judge(part, devices) for part in _walk(value)}
        except BaseException:  # noqa: BLE001, S112  (looking into a variable runs code of users)
            continue
        if "array" in kinds:
            arrays.append(name)
        elif "place" in kinds:
            places.append(name)
    return arrays, places


def _judge(value: object, devices: Collection[Any]) -> str:
    """Return what a value is that belongs to other devices: array or place; empty: it does not."""
    import jax

    match value:
        case jax.Array():
            # Of arrays, those of this rank alone stay good, whatever they were made on.
            is_global = not value.is_fully_addressable
            return "array" if is_global and _is_elsewhere(value.sharding, devices) else ""
        case jax.sharding.Mesh():
            return "place" if set(value.devices.flat) - set(devices) else ""
        case jax.sharding.Sharding():
            return "place" if _is_elsewhere(value, devices) else ""
        case jax.Device():
            return "" if value in devices else "place"
        case _:
            return ""


def _is_elsewhere(sharding: Any, devices: Collection[Any]) -> bool:
    try:
        return bool(set(sharding.device_set) - set(devices))
    except (AttributeError, NotImplementedError, ValueError):
        return False  # it has no devices of its own, as that of an abstract mesh


def _walk(value: object) -> Iterator[object]:
    """Yield a value and what it holds, down to a bound."""
    waiting = [(value, 0)]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        one, depth = waiting.pop()
        yield one
        if depth < _MOST_DEPTH:
            waiting += [(part, depth + 1) for part in _look_inside(one)]


def _look_inside(value: object) -> list[object]:
    import jax

    if value is None or isinstance(value, str | bytes | int | float | complex | type | jax.Array):
        return []
    if isinstance(value, Mapping):
        return list(islice(value.values(), _MOST_VALUES))
    if isinstance(value, list | tuple | set | frozenset):
        return list(islice(value, _MOST_VALUES))
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    if jax.tree_util.all_leaves([value]):
        return []
    return list(islice(jax.tree_util.tree_leaves(value), _MOST_VALUES))


def list_names(names: list[str]) -> str:
    """Write names as in a sentence, the first of many."""
    shown, more = names[:_MOST_NAMES], len(names) - _MOST_NAMES
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _belong(names: list[str]) -> str:
    return fit(names, "belongs", "belong")
