"""Trees of a checkpoint made of their containers and leaves, and the paths of the leaves."""

from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jupyter_dist.checkpoint.format.manifest import Branch, Node


@dataclass(eq=False, repr=False)
class State:
    """The state of an object that was saved as its state dict, which is `value`."""

    type_name: str
    value: Any

    def __repr__(self) -> str:
        return f"State of {self.type_name}"


def build(node: Node, leaf: Callable[[int], Any]) -> Any:
    """Make the tree, with what `leaf` gives for each leaf.

    Named tuples are of types of ours with their names and fields; states of objects are State.
    """
    if node is None:
        return None
    if isinstance(node, int):
        return leaf(node)
    children = [build(child, leaf) for child in node.children]
    match node.kind:
        case "dict":
            return dict(zip(node.keys, children, strict=True))
        case "list":
            return children
        case "tuple" if node.keys:
            fields = tuple(str(key) for key in node.keys)
            return _named_tuple(node.type_name.rpartition(".")[2], fields)(*children)
        case "tuple":
            return tuple(children)
        case "state":
            return State(node.type_name, children[0])


def find_paths(node: Node, path: str = "") -> Iterator[tuple[int, str]]:
    """Yield each leaf with its path, as `['params']['w'][0]`."""
    if isinstance(node, int):
        yield node, path
    elif node is not None:
        for step, child in zip(steps_of(node), node.children, strict=True):
            yield from find_paths(child, path + step)


def steps_of(branch: Branch) -> list[str]:
    """Return how each child is reached."""
    if branch.kind == "state":
        return [""]
    if branch.kind == "dict":
        return [f"[{key!r}]" for key in branch.keys]
    if branch.keys:
        return [f".{field}" for field in branch.keys]
    return [f"[{at}]" for at in range(len(branch.children))]


@lru_cache(maxsize=256)
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """Return the type that stands for the one a saved named tuple had."""
    return namedtuple(name, fields, rename=True)  # noqa: PYI024  (made of what was saved)
