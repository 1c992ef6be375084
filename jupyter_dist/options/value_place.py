"""Which part of a variable is meant, as `state["loss"][-10:]`: written as Python, never run."""

import ast
from typing import Any

import msgspec

from jupyter_dist.errors import UsageError

MOST_STEPS = 16
_MOST_LENGTH = 400
_ACCEPTED = (
    "a name, and behind it attributes, numbers, texts and slices, as w[:10], state['loss'][-1] or "
    "model.config['lr']"
)


class Attribute(msgspec.Struct, frozen=True):
    """What follows a dot."""

    name: str


class Index(msgspec.Struct, frozen=True):
    """What stands in brackets: numbers, a text, slices, or several of these for an array."""

    value: Any


class ValuePlace(msgspec.Struct, frozen=True):
    """A variable, and the way from it to a part of it."""

    name: str
    steps: tuple[Attribute | Index, ...] = ()


def read_place(text: str) -> ValuePlace:
    """Read a place; raise UsageError for anything else, as calls and sums are."""
    if len(text) > _MOST_LENGTH:
        raise UsageError(f"a place of {len(text)} characters is too long. Accepted: {_ACCEPTED}.")
    try:
        node = ast.parse(text.strip(), "<place>", "eval").body
        steps: list[Attribute | Index] = []
        while not isinstance(node, ast.Name):
            if len(steps) == MOST_STEPS:
                raise ValueError(f"more than {MOST_STEPS} steps")
            step, node = _read_step(node)
            steps.append(step)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        reason = getattr(problem, "msg", problem)
        raise UsageError(f"{text!r} is not accepted ({reason}). Accepted: {_ACCEPTED}.") from None
    return ValuePlace(node.id, tuple(reversed(steps)))


def _read_step(node: ast.expr) -> tuple[Attribute | Index, ast.expr]:
    match node:
        case ast.Attribute(value=inner, attr=name):
            return Attribute(name), inner
        case ast.Subscript(value=inner, slice=index):
            return Index(_read_index(index)), inner
        case _:
            raise ValueError(f"it has a {type(node).__name__}")


def _read_index(node: ast.expr) -> Any:
    match node:
        case ast.Tuple(elts=parts):
            return tuple(_read_index(part) for part in parts)
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(each and _read_number(each) for each in (lower, upper, step)))
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant(value=value) if value is None or value is ...:
            return value
        case _:
            return _read_number(node)


def _read_number(node: ast.expr) -> int:
    value = ast.literal_eval(node)
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value
