"""Variables of the user as a tree to be saved."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from jupyter_dist.checkpoint.values.arrays import Shard
from jupyter_dist.checkpoint.values.tree import Taken, take_apart_each
from jupyter_dist.errors import CheckpointFailed, UsageError
from jupyter_dist.text.lists import name_some


class Chosen(NamedTuple):
    """What of the variables is saved."""

    taken: Taken
    saved: tuple[str, ...]
    left_out: dict[str, str]
    """Names that could not be saved, and why."""


def choose_variables(
    variables: Mapping[str, Any], names: Iterable[str] | None, marks: Mapping[str, int | None]
) -> Chosen:
    """Take these variables apart; without names all that can be saved, the others are left out.

    Those marked with an axis are this rank's block of an array over all ranks. Raises
    CheckpointFailed for a name that is not there, UsageError for a value that cannot be saved.
    """
    wanted = _present(variables) if names is None else _named(variables, names)
    values = {name: _as_marked(value, marks.get(name)) for name, value in wanted.items()}
    taken, left_out = take_apart_each(values, skips_bad=names is None)
    saved = tuple(name for name in values if name not in left_out)
    return Chosen(taken, saved, left_out)


def check_names(names: object) -> list[str] | None:
    """Return names of variables as a list; raises UsageError for what are none."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UsageError(f"names={names!r}. Accepted: a list of names, or None for all variables.")
    listed = list(names)
    for name in listed:
        if not (isinstance(name, str) and name.isidentifier()):
            raise UsageError(f"names has {name!r}. Accepted: names of variables.")
    return list(dict.fromkeys(listed))


def _present(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in sorted(variables.items())
        if not (name.startswith("_") or _is_imported(value))
    }


def _is_imported(value: Any) -> bool:
    """Return whether this is a module, or a function or class of one; cells import them again."""
    is_code = isinstance(value, type | FunctionType | BuiltinFunctionType)
    return isinstance(value, ModuleType) or (is_code and value.__module__ != "__main__")


def _named(variables: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    listed = list(names)
    for name in listed:
        if name not in variables:
            raise CheckpointFailed(
                f"there is no variable {name!r} here. {_what_is_there(variables, name)}"
            )
    return {name: variables[name] for name in sorted(listed)}


def _what_is_there(variables: Mapping[str, Any], name: str) -> str:
    present = list(_present(variables))
    if not present:
        return "There are none at all; define it first."
    near = get_close_matches(name, present, n=1)
    others = [each for each in present if each not in near]
    return f"Accepted: {name_some([*near, *others])}."


def _as_marked(value: Any, axis: int | None) -> Any:
    return value if axis is None or isinstance(value, Shard) else Shard(value, axis)
