"""Commands that save variables of all ranks, restore them, and list what there is."""

import argparse
import sys
from typing import TYPE_CHECKING

from jupyter_dist.cli.answers import add_json, answer, place_for
from jupyter_dist.cli.command import Command, add_name_option, visit
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
    from jupyter_dist.cluster.result import SpmdResult
    from jupyter_dist.protocol.messages import Command as RankCommand
    from jupyter_dist.views.cell.terminal import Terminal


def _add_seen_by(parser: OptionParser) -> None:
    parser.add_argument(
        "--name", metavar="NAME", help="as its hosts see it (default: as this machine sees it)"
    )


def checkpoint(options: argparse.Namespace) -> int:
    """Save variables of all ranks."""
    from jupyter_dist.checkpoint.commands import SAVE
    from jupyter_dist.checkpoint.report import merge_saved
    from jupyter_dist.cluster.checkpoints import saving
    from jupyter_dist.cluster.result import read_reports

    command = saving(**save_arguments(options))
    result = run_shown(visit(options), command, place_for(options))
    if options.json:
        answer(options, merge_saved(read_reports(SAVE, result)), str)
    return 0


def restore(options: argparse.Namespace) -> int:
    """Restore variables of all ranks."""
    from jupyter_dist.cluster.checkpoints import read_restored, restoring

    command = restoring(**restore_arguments(options))
    result = run_shown(visit(options), command, place_for(options))
    if options.json:
        answer(options, read_restored(result), str)
    return 0


def checkpoints(options: argparse.Namespace) -> int:
    """List the checkpoints of a directory."""
    from jupyter_dist.cluster.checkpoints import list_here

    look = list_here if options.name is None else visit(options).checkpoints
    table = look(options.directory)
    return answer(options, table, lambda: f"{table}\n")


def resume(cluster: "Cluster", directory: str, terminal: "Terminal | None" = None) -> None:
    """Restore the newest checkpoint of a directory (empty: where was saved last)."""
    from jupyter_dist.cluster.checkpoints import resuming

    run_shown(cluster, resuming(cluster, directory), terminal)


def resume_new(cluster: "Cluster", directory: str, terminal: "Terminal | None" = None) -> None:
    """Restore on a cluster that has just been started; should it fail, that runs all the same."""
    try:
        resume(cluster, directory, terminal)
    except BaseException:
        sys.stderr.write(
            f"jupyter dist: cluster {cluster.name} runs, and nothing was restored. `jupyter dist "
            f"restore --dir DIR --name {cluster.name}` tries again; to end it: jupyter dist stop "
            f"{cluster.name}\n"
        )
        raise


def restore_newest(cluster: "Cluster", directory: str) -> tuple[str, ...]:
    """Restore the newest checkpoint of a directory before a job; return what all ranks have now.

    Where it has none the job begins at its beginning, and stderr says so: the same command starts
    a job, and starts it again.
    """
    from jupyter_dist.cluster.checkpoints import read_restored, restoring
    from jupyter_dist.views.cell.terminal import Terminal

    if cluster.checkpoints(directory).newest is None:
        sys.stderr.write(
            f"jupyter dist: no checkpoint in {directory} yet: it begins at the start\n"
        )
        return ()
    terminal = Terminal(sys.stderr.write, is_tty=sys.stderr.isatty())
    result = run_shown(cluster, restoring(None, directory=directory), terminal)
    restored = read_restored(result)
    return tuple(name for name in restored.restored if name not in restored.not_restored)


def run_shown(
    cluster: "Cluster", order: "RankCommand", terminal: "Terminal | None" = None
) -> "SpmdResult":
    """Have ranks carry out a command, shown as a cell is (None: on stdout); return what came of it.

    Raise what went wrong.
    """
    from jupyter_dist.views.cell.cell_output import CellOutputView

    view = CellOutputView(world_size=cluster.world_size, display=terminal)
    try:
        result = cluster.run_command(order, watcher=view)
    except BaseException:
        view.finish(None)
        raise
    view.finish(result)
    result.raise_first()
    return result


COMMANDS: tuple[Command, ...] = (
    (
        checkpoint,
        "checkpoint run1 weights step --name demo",
        add_save_options,
        add_name_option,
        add_json,
    ),
    (restore, "restore run1 --name demo", add_restore_options, add_name_option, add_json),
    (checkpoints, "checkpoints --dir DIR", add_list_options, _add_seen_by, add_json),
)
