"""Variables of a namespace as a checkpoint has them, put back on all ranks or on none."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from jupyter_dist.checkpoint.format.manifest import Branch, Manifest, Node
from jupyter_dist.checkpoint.format.structure import State
from jupyter_dist.checkpoint.rank_group import RankGroup
from jupyter_dist.checkpoint.restore.restore_templates import (
    Load,
    fill_in,
    find_likes,
    find_named_tuples,
)
from jupyter_dist.checkpoint.restore.restored_leaves import NotLoaded, NotRestored, structure_of
from jupyter_dist.checkpoint.restore.restoring import Likes, Restore, Restored, RestoreOptions
from jupyter_dist.checkpoint.values.arrays import Shard
from jupyter_dist.checkpoint.values.tree import children_of, has_state
from jupyter_dist.errors import CheckpointFailed, CheckpointNotFound

Report = dict[str, Any]


def restore_variables(
    rank_group: RankGroup,
    namespace: MutableMapping[str, Any],
    directory: str,
    names: Sequence[str] | None,
    asked: RestoreOptions,
) -> Report:
    """Restore these variables (None: all that were saved) once all ranks have all of theirs.

    Objects that have a state take it where a variable of that name is there. Gives `path` and
    `step` of the checkpoint, `nbytes` and `seconds` over all ranks, `restored` names,
    `not_restored` names with the reason, and `notes`. Raises as `restoring.restore` does, and
    CheckpointNotFound for a name that the checkpoint does not have; then no variable has changed.
    """
    running = Restore(rank_group, directory, asked)
    picked = _pick(running.manifest, names)
    likes: dict[str, Any] = {}

    def look() -> Likes:
        node = structure_of(running.manifest, rank_group.rank)
        likes.update(find_likes(asked.like))
        likes.update(_find_objects(node, namespace, picked))
        return likes

    restored = running.run(look, lambda node: _select(node, picked))
    values, reasons, loads = _sort_out(restored, likes, namespace)
    reasons |= {
        name: f"rank {rank_group.rank} had no such variable when it was saved"
        for name in picked
        if name not in values and name not in reasons
    }
    running.finish(loads, lambda: namespace.update(values))
    return {
        "path": restored.path,
        "step": restored.manifest.step,
        "nbytes": restored.nbytes,
        "seconds": restored.seconds,
        "restored": [name for name in picked if name in values],
        "not_restored": reasons,
        "notes": list(restored.notes),
    }


def _pick(manifest: Manifest, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names to restore; raises CheckpointNotFound for one that no rank has saved."""
    is_tree = any(not isinstance(node, Branch) for node in manifest.structure)
    if manifest.kind != "variables" or is_tree:
        raise CheckpointFailed(
            f"step {manifest.step} holds a tree that checkpoint.save was given, no variables. Get "
            "it with checkpoint.restore(directory)."
        )
    there = manifest.names
    lacking = [name for name in names or () if name not in there]
    if lacking:
        raise CheckpointNotFound(
            f"step {manifest.step} has no variable {', '.join(map(repr, lacking))}. Accepted: "
            f"{', '.join(there)}."
        )
    return there if names is None else tuple(dict.fromkeys(names))


def _select(node: Node, picked: Sequence[str]) -> Node:
    assert isinstance(node, Branch)
    pairs = [
        (key, child) for key, child in zip(node.keys, node.children, strict=True) if key in picked
    ]
    return Branch(
        kind="dict",
        keys=tuple(key for key, _ in pairs),
        children=tuple(child for _, child in pairs),
    )


def _find_objects(
    node: Node, namespace: Mapping[str, Any], picked: Sequence[str]
) -> dict[str, Any]:
    """Return the objects that are there for saved states, by path."""
    assert isinstance(node, Branch)
    found: dict[str, Any] = {}
    for key, child in zip(node.keys, node.children, strict=True):
        if key in picked and key in namespace and _has_states(child):
            for path, value in find_likes(namespace[str(key)]).items():
                if has_state(value):
                    found[f"[{key!r}]{path}"] = value
    return found


def _has_states(node: Node) -> bool:
    if not isinstance(node, Branch):
        return False
    return node.kind == "state" or any(map(_has_states, node.children))


def _sort_out(
    restored: Restored, likes: Mapping[str, Any], namespace: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str], list[Load]]:
    """Return the variables that can be put back, why others cannot, and what loads states."""
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    loads: list[Load] = []
    assert isinstance(restored.node, Branch)
    for key, child in zip(restored.node.keys, restored.node.children, strict=True):
        name, path = str(key), f"[{key!r}]"
        types = find_named_tuples(child, namespace.get(name), path)
        value, own_loads = fill_in(child, restored.tree[key], likes, types, path)
        problems = list(_problems(child, value))
        if problems:
            more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
            reasons[name] = f"{problems[0]}{more}"
            continue
        is_marked = restored.manifest.marks.get(name) is not None
        values[name] = value.array if is_marked and isinstance(value, Shard) else value
        loads += own_loads
    return values, reasons, loads


def _problems(node: Node, value: Any, within: str = "") -> Iterator[str]:
    """Yield what of a variable could not be given; `within` leads to the value from there."""
    where = f"{within} is " if within else ""
    if isinstance(value, NotRestored | NotLoaded):
        yield f"{within}: {value.reason}" if within else value.reason
    elif isinstance(value, State):
        yield (
            f"{where}the state of a {value.type_name}, and no object is there to take it: make it "
            "first, and restore again"
        )
    elif isinstance(node, Branch) and node.kind != "state":
        for child, (step, part) in zip(node.children, children_of(value), strict=True):
            yield from _problems(child, part, within + step)
