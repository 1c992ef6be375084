"""Commands for a cluster in trouble: stop what runs, replace lost ranks, go on without them."""

import argparse

from jupyter_dist.cli.checkpoints import resume
from jupyter_dist.cli.command import Command, visit, write
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.options.checkpoint_options import add_heal_resume
from jupyter_dist.options.command_options import add_name, add_ranks, add_replaced_ranks


def interrupt(options: argparse.Namespace) -> int:
    """Interrupt the cell that runs, as ■ does."""
    ranks = visit(options).interrupt(options.ranks)
    write(f"interrupted {name_ranks(ranks)}\n" if ranks else "nothing was running\n")
    return 0


def heal(options: argparse.Namespace) -> int:
    """Replace lost ranks; the others keep what they have."""
    from jupyter_dist.views.stages.stage_view import StageView

    cluster = visit(options)
    with StageView() as view:
        healed = cluster.heal(options.ranks, on_stage=view.on_stage)
    write(f"{healed}\n")
    if options.resume is not None:
        resume(cluster, options.resume)
    return 0


def shrink(options: argparse.Namespace) -> int:
    """Go on without lost ranks."""
    from jupyter_dist.views.stages.stage_view import StageView

    cluster = visit(options)
    with StageView() as view:
        shrunken = cluster.shrink(on_stage=view.on_stage)
    write(f"{shrunken}\n")
    return 0


COMMANDS: tuple[Command, ...] = (
    (interrupt, "interrupt demo --ranks 2", add_name, add_ranks),
    (heal, "heal demo", add_name, add_replaced_ranks, add_heal_resume),
    (shrink, "shrink demo", add_name),
)
