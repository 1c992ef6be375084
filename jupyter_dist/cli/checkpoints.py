"""Commands that save variables of all ranks, restore them, and list what there is."""

import argparse
import sys
from typing import TYPE_CHECKING

from jupyter_dist.cli.command import write
from jupyter_dist.cli.looking import Add
from jupyter_dist.model.checkpoint_options import (
    add_list_options,
    add_restore_options,
    add_save_options,
    restore_arguments,
    save_arguments,
)

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster


def add_checkpoint_commands(add: Add) -> None:
    """Describe every command of this file."""
    saving = add(
        checkpoint, "Save variables of all ranks.", "checkpoint run1 weights step --name demo"
    )
    restoring = add(restore, "Restore variables of all ranks.", "restore run1 --name demo")
    listing = add(checkpoints, "List the checkpoints of a directory.", "checkpoints --dir DIR")
    add_save_options(saving)
    add_restore_options(restoring)
    add_list_options(listing)
    for parser in (saving, restoring):
        parser.add_argument("--name", metavar="NAME", help="which cluster, when several run")
    listing.add_argument(
        "--name", metavar="NAME", help="as its hosts see it (default: as this machine sees it)"
    )


def checkpoint(options: argparse.Namespace) -> int:
    """Save variables, and show how that goes."""
    from jupyter_dist.cluster.checkpoints import save_cell, saving
    from jupyter_dist.cluster.cluster import Cluster

    request = saving(**save_arguments(options))
    run_shown(Cluster.visit(options.name), save_cell(request))
    return 0


def restore(options: argparse.Namespace) -> int:
    """Restore variables, and show how that goes."""
    from jupyter_dist.cluster.checkpoints import restore_cell, restoring
    from jupyter_dist.cluster.cluster import Cluster

    request = restoring(**restore_arguments(options))
    run_shown(Cluster.visit(options.name), restore_cell(request))
    return 0


def checkpoints(options: argparse.Namespace) -> int:
    """Write the table of a directory."""
    from jupyter_dist.cluster.checkpoints import list_here
    from jupyter_dist.cluster.cluster import Cluster

    if options.name is None:
        write(f"{list_here(options.dir)}\n")
    else:
        write(f"{Cluster.visit(options.name).checkpoints(options.dir)}\n")
    return 0


def resume(cluster: "Cluster", directory: str) -> None:
    """Restore the newest checkpoint of a directory (empty: where was saved last)."""
    from jupyter_dist.cluster.checkpoints import restore_cell, resuming

    run_shown(cluster, restore_cell(resuming(cluster, directory)))


def resume_new(cluster: "Cluster", directory: str) -> None:
    """Restore on a cluster that has just been started; should it fail, that runs all the same."""
    try:
        resume(cluster, directory)
    except BaseException:
        sys.stderr.write(
            f"jupyter dist: cluster {cluster.name} runs, and nothing was restored. `jupyter dist "
            f"restore --dir DIR --name {cluster.name}` tries again; to end it: jupyter dist stop "
            f"{cluster.name}\n"
        )
        raise


def run_shown(cluster: "Cluster", code: str) -> None:
    """Run a cell of ours and show it as any cell; what went wrong is raised."""
    from jupyter_dist.views.cell_output import CellOutputView

    view = CellOutputView(world_size=cluster.world_size)
    try:
        result = cluster.run(code, watcher=view)
    except BaseException:
        view.finish(None)
        raise
    view.finish(result)
    result.raise_first()
