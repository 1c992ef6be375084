"""A tree of values taken apart: containers, and leaves as arrays, plain values and objects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from jupyter_dist.checkpoint.format.manifest import Branch, Node
from jupyter_dist.checkpoint.values.arrays import Held, look_at
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.user_errors import PASSED_ON, name_error

PLAIN_TYPES = (bool, int, float, str)
MOST_DEPTH = 200
"""Containers within containers; more than that is one within itself, or is not meant."""
ContainerKind = Literal["dict", "list", "tuple"]
_INTEGER_BITS = 63
_ACCEPTED = (
    ". Accepted: arrays, numbers, text, containers of them, objects with state_dict() and "
    "load_state_dict(), and what can be pickled."
)


class Plain(NamedTuple):
    """A number or text that stands in the manifest."""

    value: bool | int | float | str


class Pickled(NamedTuple):
    """Anything else."""

    type_name: str
    data: bytes


Content = Held | Plain | Pickled


class Leaf(NamedTuple):
    """One value of the tree on this rank."""

    path: str
    content: Content


class Taken(NamedTuple):
    """The tree of a rank, taken apart."""

    structure: Node
    """Its leaves are numbered by their place in `leaves`."""
    leaves: tuple[Leaf, ...]


class Unsaveable(UsageError):
    """A value that a checkpoint cannot hold; `reason` is why, without where it stands."""

    def __init__(self, path: str, reason: str, accepted: str = "") -> None:
        self.reason = reason
        super().__init__(f"{path or 'the tree'} cannot be saved: {reason}{accepted}")


def take_apart(tree: Any) -> Taken:
    """Find all leaves of a tree; raises Unsaveable.

    Objects with `state_dict()` and `load_state_dict()` are taken as what the first one gives.
    """
    taking = _Taking()
    structure = taking.walk(tree, "", 0)
    return Taken(structure, tuple(taking.leaves))


def take_apart_each(
    values: Mapping[str, Any], *, skips_bad: bool = False
) -> tuple[Taken, dict[str, str]]:
    """Take a dict of values apart; with `skips_bad` those that cannot be saved are left out.

    Gives why, too, by name. Raises as take_apart does.
    """
    taking = _Taking()
    nodes: dict[str, Node] = {}
    left_out: dict[str, str] = {}
    for name, value in values.items():
        before = len(taking.leaves)
        try:
            nodes[name] = taking.walk(value, f"[{name!r}]", 1)
        except Unsaveable as error:
            if not skips_bad:
                raise
            del taking.leaves[before:]
            left_out[name] = error.reason
    structure = Branch("dict", tuple(nodes.values()), tuple(nodes))
    return Taken(structure, tuple(taking.leaves)), left_out


def pickle_value(value: Any, path: str) -> Pickled:
    """Pickle a value, by cloudpickle so that what cells define can be kept."""
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value, protocol=5)
    except PASSED_ON:
        raise
    except BaseException as error:
        reason = f"{type_name(value)}: {name_error(error)}"
        raise Unsaveable(path, reason, _ACCEPTED) from error
    return Pickled(type_name(value), data)


def type_name(value: Any) -> str:
    """Name the type of a value, with its module unless that is a cell or Python itself."""
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


class _Taking:
    def __init__(self) -> None:
        self.leaves: list[Leaf] = []

    def walk(self, value: Any, path: str, depth: int) -> Node:
        if value is None:
            return None
        if depth > MOST_DEPTH:
            raise Unsaveable(
                path[:200],
                f"it lies within {MOST_DEPTH} containers. Accepted: fewer, and no container within "
                "itself.",
            )
        if (kind := _container_kind(value)) is not None:
            return self._walk_container(kind, value, path, depth + 1)
        if type(value) in PLAIN_TYPES:
            return self._keep(path, Plain(value))
        try:
            held = look_at(value)
        except UsageError as error:
            raise Unsaveable(path, str(error)) from error
        if held is not None:
            return self._keep(path, held)
        if has_state(value):
            state = self.walk(value.state_dict(), path, depth + 1)
            return Branch("state", (state,), type_name=type_name(value))
        return self._keep(path, pickle_value(value, path))

    def _keep(self, path: str, content: Content) -> Node:
        self.leaves.append(Leaf(path, content))
        return len(self.leaves) - 1

    def _walk_container(self, kind: ContainerKind, value: Any, path: str, depth: int) -> Node:
        items = [self.walk(child, path + step, depth) for step, child in children_of(value)]
        keys = tuple(value) if kind == "dict" else tuple(getattr(value, "_fields", ()))
        return Branch(
            kind, tuple(items), keys, type_name(value) if kind == "tuple" and keys else ""
        )


def children_of(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a container has, each with how it is reached."""
    if isinstance(tree, dict):
        yield from ((f"[{key!r}]", child) for key, child in tree.items())
    elif isinstance(tree, list | tuple):
        names: Sequence[str] = getattr(tree, "_fields", ())
        for at, child in enumerate(tree):
            yield f".{names[at]}" if names else f"[{at}]", child


def _container_kind(value: Any) -> ContainerKind | None:
    kind = type(value)
    if kind is list:
        return "list"
    if kind is tuple or _is_named_tuple(value):
        return "tuple"
    if isinstance(value, dict) and _is_plain_dict(value):
        return "dict"
    return None


def has_state(value: Any) -> bool:
    """Return whether an object can say its state, and take it back."""
    kind = type(value)
    return callable(getattr(kind, "state_dict", None)) and callable(
        getattr(kind, "load_state_dict", None)
    )


def _is_named_tuple(value: Any) -> bool:
    fields = getattr(value, "_fields", None)
    return isinstance(value, tuple) and isinstance(fields, tuple) and len(fields) == len(value)


def _is_plain_dict(value: Any) -> bool:
    """Return whether a dict, or one that only keeps an order, has keys that JSON can hold."""
    is_usual = type(value) is dict or type(value).__name__ == "OrderedDict"
    return is_usual and all(_is_key(key) for key in value)


def _is_key(key: Any) -> bool:
    if type(key) is int:
        return key.bit_length() <= _INTEGER_BITS
    return key is None or type(key) is bool or (type(key) is str and is_text(key))


def is_text(text: str) -> bool:
    """Return whether UTF-8 has all of it, which half of a surrogate pair is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
