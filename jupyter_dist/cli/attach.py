"""`jupyter dist attach`: the cell that runs, as if it had been sent from this terminal."""

import argparse
from typing import TYPE_CHECKING

from jupyter_dist.cli.answers import add_json
from jupyter_dist.cli.command import Command, write
from jupyter_dist.cli.jobs.json_events import JsonEvents, write_json
from jupyter_dist.errors import ClusterInUse
from jupyter_dist.options.command_options import add_attach_options, add_name
from jupyter_dist.options.option import given_options
from jupyter_dist.options.start_options import WayOptions, add_way_options

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.cell.cell_output import CellView


def attach(options: argparse.Namespace) -> int:
    """Show the cell that runs, answer what its ranks ask, interrupt it with Ctrl-C."""
    from jupyter_dist.views.cell.cell_output import CellOutputView

    cluster = _connect(options)
    cell = next(iter(cluster.outputs()[-1:]), None)
    if cell is None or not cell.is_running:
        return _end(options, f"no cell runs on {cluster.name}")
    view: CellView = (
        JsonEvents(write, cluster.name, cell.ranks)
        if options.json
        else CellOutputView(world_size=len(cell.ranks))
    )
    try:
        result = cluster.follow(view) or cluster.replay(cell.label).show(view)
    except BaseException:
        view.finish(None)
        raise
    view.finish(result)
    if result is not None:
        result.raise_first()
    return _end(options)


def _end(options: argparse.Namespace, said: str = "") -> int:
    if options.json:
        write_json(write, "ended", exit_status=0, problem=said)
    elif said:
        write(f"{said}\n")
    return 0


def _connect(options: argparse.Namespace) -> "Cluster":
    from jupyter_dist.cluster.cluster import Cluster

    try:
        return Cluster.attach(
            options.name,
            watch=options.watch,
            take_over=options.take_over,
            **given_options(options, WayOptions),
        )
    except ClusterInUse as problem:
        told = str(problem).replace("%dist_attach", "jupyter dist attach")
        raise ClusterInUse(told) from None


COMMANDS: tuple[Command, ...] = (
    (attach, "attach demo --take-over", add_name, add_attach_options, add_way_options, add_json),
)
