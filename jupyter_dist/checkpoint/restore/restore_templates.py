"""A tree that says how a restored one shall look: arrays to be laid out like, objects to fill."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from jupyter_dist.checkpoint.format.manifest import Branch, Node
from jupyter_dist.checkpoint.format.structure import State, steps_of
from jupyter_dist.checkpoint.restore.placement import is_array_like
from jupyter_dist.checkpoint.values.tree import children_of, has_state
from jupyter_dist.errors import CheckpointFailed
from jupyter_dist.text.lists import name_some

Load = Callable[[], object]
"""Lets an object take its state."""


def find_likes(like: Any) -> dict[str, Any]:
    """Return the arrays and the objects with a state in a tree, by path as `['params']['w'][0]`."""
    return dict(_walk(like, ""))


def _walk(like: Any, path: str) -> Iterator[tuple[str, Any]]:
    if is_array_like(like) or has_state(like):
        yield path, like
    else:
        for step, child in children_of(like):
            yield from _walk(child, path + step)


def find_named_tuples(node: Node, like: Any, path: str = "") -> dict[str, type]:
    """Return the types that `like` has for the tuples of a saved tree, by path."""
    if not isinstance(node, Branch):
        return {}
    found: dict[str, type] = {}
    if node.kind == "tuple" and _is_type_of(node, like):
        found[path] = type(like)
    there = dict(children_of(like))
    for step, child in zip(steps_of(node), node.children, strict=True):
        if step in there:
            found |= find_named_tuples(child, there[step], path + step)
    return found


def _is_type_of(node: Branch, like: Any) -> bool:
    """Return whether a named tuple has the fields of the saved tuple, which may be none."""
    fields = getattr(like, "_fields", None)
    return isinstance(like, tuple) and fields == node.keys and len(like) == len(node.children)


def check_likes(likes: Mapping[str, Any], saved: Sequence[str]) -> None:
    """Raise CheckpointFailed for an array at a path that the checkpoint does not have."""
    known = set(saved)
    for path, like in likes.items():
        if path not in known and not has_state(like):
            raise CheckpointFailed(
                f"{path or 'the tree'} in `like` is not in the checkpoint. Accepted: "
                f"{name_some(saved)}."
            )


def fill_in(
    node: Node, tree: Any, likes: Mapping[str, Any], types: Mapping[str, type], path: str = ""
) -> tuple[Any, list[Load]]:
    """Put the objects that `likes` has for them in place of saved states; make tuples of `types`.

    `node` made the tree, which stands at `path` in a larger one. Gives the tree, and what lets
    each of these objects take its state; nothing has changed before that is called. States
    without an object stay as they are.
    """
    loads: list[Load] = []

    def walk(node: Node, value: Any, path: str) -> Any:
        if not isinstance(node, Branch):
            return value
        if isinstance(value, State):
            found = likes.get(path)
            if found is None or not has_state(found):
                return value
            loads.append(partial(found.load_state_dict, value.value))
            return found
        children = [
            walk(child, part, path + step)
            for child, (step, part) in zip(node.children, children_of(value), strict=True)
        ]
        if node.kind == "dict":
            return dict(zip(node.keys, children, strict=True))
        if node.kind == "list":
            return children
        kind: Any = types.get(path, type(value))
        return kind._make(children) if hasattr(kind, "_make") else tuple(children)

    return walk(node, tree, path), loads
