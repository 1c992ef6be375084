"""Which variables of the user belong to a group that is gone, and what to do with them."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class _Kind(NamedTuple):
    module: str
    name: str
    said: str
    remedy: str
    """What to do with the variable `{}`."""


_DTENSOR = _Kind(
    "torch.distributed.tensor",
    "DTensor",
    "DTensor",
    "this rank still has its part, {0}.to_local()",
)
_KINDS = (
    _Kind(
        "torch.nn.parallel.distributed",
        "DistributedDataParallel",
        "DDP",
        "{0} = DistributedDataParallel({0}.module)",
    ),
    _Kind(
        "torch.distributed.fsdp",
        "FullyShardedDataParallel",
        "FSDP",
        "make the module again, wrap it, and load a checkpoint: parts of {0} were on lost ranks",
    ),
    _Kind(
        "torch.distributed.fsdp",
        "FSDPModule",
        "FSDP",
        "make the module again, call fully_shard on it, and load a checkpoint: parts of {0} were "
        "on lost ranks",
    ),
    _Kind(
        "torch.distributed.device_mesh",
        "DeviceMesh",
        "DeviceMesh",
        "{0} = init_device_mesh(…) once more",
    ),
    _DTENSOR,
    _Kind(
        "torch.distributed.distributed_c10d",
        "ProcessGroup",
        "group",
        "{0} = dist.new_group(…) once more, or dist.group.WORLD",
    ),
)
_OPTIMIZER = _DTENSOR._replace(
    said="optimizer", remedy="make it again for the parameters of the new module"
)
_MOST = 8
"""Variables that are named; the rest is counted."""


def name_belongings(variables: Mapping[str, object]) -> str:
    """Name the variables that hold something of a group; empty: none does."""
    found = [
        f"{name} ({kind.said}): {kind.remedy.format(name)}"
        for name, value in sorted(variables.items())
        if (kind := _kind_or_none(value)) is not None
    ]
    if not found:
        return ""
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return "; ".join(found[:_MOST] + more)


def _kind_or_none(value: object) -> _Kind | None:
    try:
        return _kind_of(value)
    except BaseException:  # noqa: BLE001  (attributes of the user's own objects may raise anything)
        return None


def _kind_of(value: object) -> _Kind | None:
    """Find what a variable holds, itself or in a list, tuple, dict, or as an optimizer."""
    kinds = _known_kinds()
    for each in (value, *_contents(value)):
        for kind, its_class in kinds:
            if isinstance(each, its_class):
                return kind
    tensors = tuple(its_class for kind, its_class in kinds if kind.name == _OPTIMIZER.name)
    return _OPTIMIZER if any(isinstance(each, tensors) for each in _parameters(value)) else None


def _known_kinds() -> list[tuple[_Kind, type]]:
    """Return the kinds whose modules are loaded: there is nothing of the others."""
    found = []
    for kind in _KINDS:
        its_class = getattr(sys.modules.get(kind.module), kind.name, None)
        if isinstance(its_class, type):
            found.append((kind, its_class))
    return found


def _contents(value: object) -> Sequence[object]:
    if isinstance(value, list | tuple | set):
        return tuple(value)
    if isinstance(value, dict):
        return tuple(value.values())
    return ()


def _parameters(value: object) -> Iterable[object]:
    """Return the parameters of an optimizer; nothing for anything else."""
    groups: Any = getattr(value, "param_groups", None)
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict):
            yield from group.get("params", ())
