"""Commands for a cluster in trouble: stop what runs, replace lost ranks, go on without them."""

import argparse

from jupyter_dist.cli.answers import add_json, answer, place_for, write_object
from jupyter_dist.cli.checkpoints import resume
from jupyter_dist.cli.command import Command, visit, write
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.options.checkpoint_options import add_heal_resume
from jupyter_dist.options.command_options import add_name, add_ranks, add_replaced_ranks


def interrupt(options: argparse.Namespace) -> int:
    """Interrupt the cell that runs, as ■ does."""
    cluster = visit(options)
    ranks = cluster.interrupt(cluster.select(options.ranks, options.on))
    said = f"interrupted {name_ranks(ranks)}\n" if ranks else "nothing was running\n"
    return answer(options, {"ranks": ranks}, lambda: said)


def heal(options: argparse.Namespace) -> int:
    """Replace lost ranks; the others keep what they have."""
    from jupyter_dist.views.stages.stage_view import StageView

    cluster = visit(options)
    with StageView(display=place_for(options)) as view:
        healed = cluster.heal(options.ranks, on_stage=view.on_stage)
    if not options.json:
        write(f"{healed}\n")
    if options.resume is not None:
        resume(cluster, options.resume, place_for(options))
    if options.json:
        write_object(healed)
    return 0


def shrink(options: argparse.Namespace) -> int:
    """Go on without lost ranks."""
    from jupyter_dist.views.stages.stage_view import StageView

    cluster = visit(options)
    with StageView(display=place_for(options)) as view:
        shrunken = cluster.shrink(on_stage=view.on_stage)
    return answer(options, shrunken, lambda: f"{shrunken}\n")


COMMANDS: tuple[Command, ...] = (
    (interrupt, "interrupt demo --ranks 2", add_name, add_ranks, add_json),
    (heal, "heal demo", add_name, add_replaced_ranks, add_heal_resume, add_json),
    (shrink, "shrink demo", add_name, add_json),
)
