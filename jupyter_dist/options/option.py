"""Options written once: a typed dictionary whose fields say what a line of options may hold.

    class Limits(TypedDict, total=False):
        keep_s: Annotated[float | None, Option("how long it lives", metavar="DURATION")]

From it come the flag (`--keep`), how its value is read (by the type), the keyword argument, the
check of its type, and the help of all of them.
"""

import argparse
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from jupyter_dist.options.command_options import read_duration_s, read_variable


class Option:
    """The flags of a field, and what argparse is to know of them.

    Without `flags` it is the field's name, without `_s`. Of a field with several flags each has
    an Option of its own. `rules` go to `add_argument` and win over what the type implies.
    """

    def __init__(self, text: str, *flags: str, **rules: Any) -> None:
        self.text = text
        self.flags = flags
        self.rules = rules


class StoreVariables(argparse.Action):
    """Collect `K=V` of one or more flags in a dictionary."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        _flag: str | None = None,
    ) -> None:
        """Add the variables to those of flags before."""
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), **dict(values)})


def options_of(fields: type) -> Iterator[tuple[str, Any, tuple[Option, ...]]]:
    """Yield each field of a typed dictionary: its name, its type, and its options, if any."""
    for name, hint in typing.get_type_hints(fields, include_extras=True).items():
        kind, *marks = typing.get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        yield name, kind, tuple(mark for mark in marks if isinstance(mark, Option))


def add_options(
    parser: argparse.ArgumentParser, fields: type, *, without: Collection[str] = ()
) -> None:
    """Add a flag for each field that has an Option; what is not given reads as None."""
    for name, kind, options in options_of(fields):
        if name in without:
            continue
        place = parser if len(options) < 2 else parser.add_mutually_exclusive_group()
        for option in options:
            flags = option.flags or (f"--{name.removesuffix('_s').replace('_', '-')}",)
            implied = {} if "action" in option.rules else _implied(name, kind)
            rules = {"dest": name, "help": option.text, **implied, **option.rules}
            place.add_argument(*flags, **rules)


def given_options(options: argparse.Namespace, *several: type) -> dict[str, Any]:
    """Return those fields of typed dictionaries that a line of options holds."""
    names = [name for fields in several for name in typing.get_type_hints(fields)]
    found = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _implied(name: str, kind: Any) -> dict[str, Any]:
    """Return what argparse is to do with values of a type; numbers say how they are read."""
    kinds = {typing.get_origin(each) or each for each in typing.get_args(kind)}
    if bool in kinds:
        return {"action": "store_const", "const": True}
    if Mapping in kinds:
        return {"action": StoreVariables, "nargs": "+", "type": read_variable, "metavar": "K=V"}
    if Sequence in kinds and str not in kinds:
        return {"action": "append"}
    return {"type": read_duration_s, "metavar": "S"} if name.endswith("_s") else {}
