"""`%load_ext jupyter_dist` and `%unload_ext jupyter_dist`."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from jupyter_dist.magics import completion, inspection
from jupyter_dist.magics.attaching import AttachingMagics
from jupyter_dist.magics.checkpoints import CheckpointMagics
from jupyter_dist.magics.command import CurrentCluster, Shell
from jupyter_dist.magics.dist import ClusterMagics
from jupyter_dist.magics.looking import LookingMagics
from jupyter_dist.magics.mending import MendingMagics
from jupyter_dist.magics.parallel import ParallelMagics
from jupyter_dist.magics.spmd import AUTO_CELL, AutoSpmd, SpmdMagics

# By shell, so that the cluster is still known after %reload_ext.
_CURRENT: WeakKeyDictionary[Shell, CurrentCluster] = WeakKeyDictionary()

_LINE_MAGICS = (
    "dist_check",
    "dist_start",
    "dist_status",
    "dist_topology",
    "dist_interrupt",
    "dist_push",
    "dist_pull",
    "dist_sync",
    "dist_bench",
    "dist_collectives",
    "dist_timeline",
    "dist_stop",
)
_ATTACHING_MAGICS = ("dist_attach", "dist_output")
_MENDING_MAGICS = ("dist_heal", "dist_shrink")
_CHECKPOINT_MAGICS = ("dist_checkpoint", "dist_restore", "dist_checkpoints")
_LOOKING_MAGICS = ("dist_who", "dist_stacks", "dist_explain")


def load(shell: Shell) -> None:
    """Register the magics, their completion and `%dist_auto`; loading twice is harmless."""
    unload(shell)
    auto = AutoSpmd()
    current = _CURRENT.setdefault(shell, CurrentCluster())
    for kind, name, method in _magics(shell, current, auto):
        shell.register_magic_function(method, kind, name)
    shell.input_transformers_cleanup.append(auto)
    completion.install(shell, current, auto)
    inspection.install(shell, current)


def unload(shell: Shell) -> None:
    """Take the magics away; the cluster goes on."""
    registered = shell.magics_manager.magics
    for kind, name, _ in _magics(shell, CurrentCluster(), AutoSpmd()):
        registered[kind].pop(name, None)
    transformers = shell.input_transformers_cleanup
    transformers[:] = [kept for kept in transformers if not isinstance(kept, AutoSpmd)]
    completion.remove(shell)
    inspection.remove(shell)


def _magics(
    shell: Shell, current: CurrentCluster, auto: AutoSpmd
) -> list[tuple[str, str, Callable[..., Any]]]:
    """List every magic as (kind, name, what to call)."""
    cluster, spmd = ClusterMagics(shell, current), SpmdMagics(shell, current, auto)
    attaching, looking = AttachingMagics(shell, current), LookingMagics(shell, current)
    mending, checkpoints = MendingMagics(shell, current), CheckpointMagics(shell, current)
    return [
        *(("line", name, getattr(cluster, name)) for name in _LINE_MAGICS),
        *(("line", name, getattr(attaching, name)) for name in _ATTACHING_MAGICS),
        *(("line", name, getattr(looking, name)) for name in _LOOKING_MAGICS),
        *(("line", name, getattr(mending, name)) for name in _MENDING_MAGICS),
        *(("line", name, getattr(checkpoints, name)) for name in _CHECKPOINT_MAGICS),
        ("line", "dist_ipyparallel", ParallelMagics(shell, current).dist_ipyparallel),
        ("line", "dist_auto", spmd.dist_auto),
        ("cell", AUTO_CELL, spmd.auto_cell),
        ("cell", "spmd", spmd.spmd),
        ("cell", "local", spmd.local),
    ]
