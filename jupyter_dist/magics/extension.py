"""`%load_ext jupyter_dist` and `%unload_ext jupyter_dist`."""

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from jupyter_dist.cluster.asking.front_end import JOB_VARIABLE
from jupyter_dist.magics import inspection
from jupyter_dist.magics.attach import AttachMagics
from jupyter_dist.magics.axes import AxesMagics
from jupyter_dist.magics.checkpoints import CheckpointMagics
from jupyter_dist.magics.command import CurrentCluster, Shell
from jupyter_dist.magics.debugging import DebugMagics
from jupyter_dist.magics.dist import ClusterMagics
from jupyter_dist.magics.grants import GrantMagics
from jupyter_dist.magics.parallel import ParallelMagics
from jupyter_dist.magics.profiling import ProfileMagics
from jupyter_dist.magics.recovery import RecoveryMagics
from jupyter_dist.magics.shell import completion, hints
from jupyter_dist.magics.spmd import AUTO_CELL, AutoSpmd, SpmdMagics

# By shell, so that the cluster is still known after %reload_ext.
_CURRENT: WeakKeyDictionary[Shell, CurrentCluster] = WeakKeyDictionary()

_GROUPS = (
    ClusterMagics,
    AttachMagics,
    AxesMagics,
    RecoveryMagics,
    CheckpointMagics,
    DebugMagics,
    ParallelMagics,
    ProfileMagics,
    GrantMagics,
)
_LINE_MAGIC = "dist_"
"""How the names of methods begin that are line magics."""


def load(shell: Shell) -> None:
    """Register the magics, their completion and `%dist_auto`; loading twice is harmless."""
    unload(shell)
    auto = AutoSpmd()
    current = _CURRENT.setdefault(shell, CurrentCluster())
    if JOB_VARIABLE in os.environ:
        from jupyter_dist.magics.job import find_job

        current.job = find_job()
    current.note_auto(auto.is_on)  # it was on, perhaps, before %reload_ext
    for kind, name, method in _magics(shell, current, auto):
        shell.register_magic_function(method, kind, name)
    shell.input_transformers_cleanup.append(auto)
    completion.install(shell, current, auto)
    inspection.install(shell, current)
    hints.install(shell)


def unload(shell: Shell) -> None:
    """Take the magics away; the cluster goes on."""
    registered = shell.magics_manager.magics
    for kind, name, _ in _magics(shell, CurrentCluster(), AutoSpmd()):
        registered[kind].pop(name, None)
    transformers = shell.input_transformers_cleanup
    transformers[:] = [kept for kept in transformers if not isinstance(kept, AutoSpmd)]
    completion.remove(shell)
    inspection.remove(shell)
    hints.remove(shell)


def _magics(
    shell: Shell, current: CurrentCluster, auto: AutoSpmd
) -> list[tuple[str, str, Callable[..., Any]]]:
    """List every magic as (kind, name, what to call)."""
    spmd = SpmdMagics(shell, current, auto)
    groups = (spmd, *(group(shell, current) for group in _GROUPS))
    return [
        *(
            ("line", name, getattr(group, name))
            for group in groups
            for name in dir(group)
            if name.startswith(_LINE_MAGIC)
        ),
        ("cell", AUTO_CELL, spmd.auto_cell),
        ("cell", "spmd", spmd.spmd),
        ("cell", "local", spmd.local),
    ]
