"""Commands for a cluster in trouble: stop what runs, replace lost ranks, go on without them."""

import argparse
from typing import TYPE_CHECKING

from jupyter_dist.cli.checkpoints import resume
from jupyter_dist.cli.command import add_name, write
from jupyter_dist.cli.looking import Add
from jupyter_dist.model.checkpoint_options import add_heal_resume
from jupyter_dist.model.rank import name_ranks, parse_ranks

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.stage_view import StageView


def add_mending_commands(add: Add) -> None:
    """Describe every command of this file."""
    stop = add(interrupt, "Interrupt the cell that runs, as ■ does.", "interrupt demo --ranks 2")
    replace = add(heal, "Replace lost ranks; the others keep what they have.", "heal demo")
    for parser, text in (
        (stop, "only these ranks, as 0,2-3"),
        (replace, "these ranks, as 2 or 0,2-3, though they may live"),
    ):
        add_name(parser)
        parser.add_argument("--ranks", metavar="RANKS", help=text)
    add_heal_resume(replace)
    add_name(add(shrink, "Go on without lost ranks.", "shrink demo"))


def interrupt(options: argparse.Namespace) -> int:
    """Interrupt what runs; the cell then says itself what came of it."""
    cluster = _visit(options)
    ranks = cluster.interrupt(_ranks_of(options, cluster))
    write(f"interrupted {name_ranks(ranks)}\n" if ranks else "nothing was running\n")
    return 0


def heal(options: argparse.Namespace) -> int:
    """Replace lost ranks, and say what they lack."""
    cluster = _visit(options)
    wanted = _ranks_of(options, cluster)
    with _stages() as view:
        healed = cluster.heal(wanted, on_stage=view.on_stage)
    write(f"{healed}\n")
    if options.resume is not None:
        resume(cluster, options.resume)
    return 0


def shrink(options: argparse.Namespace) -> int:
    """Leave lost ranks out for good."""
    cluster = _visit(options)
    with _stages() as view:
        shrunken = cluster.shrink(on_stage=view.on_stage)
    write(f"{shrunken}\n")
    return 0


def _stages() -> "StageView":
    from jupyter_dist.views.stage_view import StageView

    return StageView()


def _visit(options: argparse.Namespace) -> "Cluster":
    from jupyter_dist.cluster.cluster import Cluster

    return Cluster.visit(options.name)


def _ranks_of(options: argparse.Namespace, cluster: "Cluster") -> tuple[int, ...] | None:
    if options.ranks is None:
        return None
    return parse_ranks(options.ranks, cluster.world_size)
