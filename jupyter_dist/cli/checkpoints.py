"""Commands that save variables of all ranks, restore them, and list what there is."""

import argparse
import sys
from typing import TYPE_CHECKING

from jupyter_dist.cli.command import Command, add_name_option, visit, write
from jupyter_dist.options.checkpoint_options import (
    add_list_options,
    add_restore_options,
    add_save_options,
    restore_arguments,
    save_arguments,
)
from jupyter_dist.options.command_options import OptionParser

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.protocol.messages import Command as RankCommand


def _add_seen_by(parser: OptionParser) -> None:
    parser.add_argument(
        "--name", metavar="NAME", help="as its hosts see it (default: as this machine sees it)"
    )


def checkpoint(options: argparse.Namespace) -> int:
    """Save variables of all ranks."""
    from jupyter_dist.cluster.checkpoints import saving

    command = saving(**save_arguments(options))
    run_shown(visit(options), command)
    return 0


def restore(options: argparse.Namespace) -> int:
    """Restore variables of all ranks."""
    from jupyter_dist.cluster.checkpoints import restoring

    command = restoring(**restore_arguments(options))
    run_shown(visit(options), command)
    return 0


def checkpoints(options: argparse.Namespace) -> int:
    """List the checkpoints of a directory."""
    from jupyter_dist.cluster.checkpoints import list_here

    if options.name is None:
        write(f"{list_here(options.directory)}\n")
    else:
        write(f"{visit(options).checkpoints(options.directory)}\n")
    return 0


def resume(cluster: "Cluster", directory: str) -> None:
    """Restore the newest checkpoint of a directory (empty: where was saved last)."""
    from jupyter_dist.cluster.checkpoints import resuming

    run_shown(cluster, resuming(cluster, directory))


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


def run_shown(cluster: "Cluster", order: "RankCommand") -> None:
    """Have ranks carry out a command, shown as a cell is; what went wrong is raised."""
    from jupyter_dist.views.cell.cell_output import CellOutputView

    view = CellOutputView(world_size=cluster.world_size)
    try:
        result = cluster.run_command(order, watcher=view)
    except BaseException:
        view.finish(None)
        raise
    view.finish(result)
    result.raise_first()


COMMANDS: tuple[Command, ...] = (
    (checkpoint, "checkpoint run1 weights step --name demo", add_save_options, add_name_option),
    (restore, "restore run1 --name demo", add_restore_options, add_name_option),
    (checkpoints, "checkpoints --dir DIR", add_list_options, _add_seen_by),
)
