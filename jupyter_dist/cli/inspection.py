"""Commands that look at a cluster, its ranks and what they call; none of them disturbs a cell."""

import argparse

from jupyter_dist.cli.command import Command, visit, write
from jupyter_dist.options.command_options import (
    OptionParser,
    add_collectives_options,
    add_name,
    add_native_option,
    add_ranks,
    add_timeline_options,
)
from jupyter_dist.text.lists import name_interrupt


def _add_only(parser: OptionParser) -> None:
    parser.add_argument(
        "--only", nargs="+", metavar="PATTERN", default=(), help="names to list, as loss or 'w*'"
    )


def show_status(options: argparse.Namespace) -> int:
    """Show the ranks of a cluster."""
    cluster = visit(options)
    write(_without_button(f"{cluster.status()}\n", cluster.name))
    return 0


def _without_button(text: str, name: str) -> str:
    return name_interrupt(text, f"`jupyter dist interrupt {name}`")


def who(options: argparse.Namespace) -> int:
    """Show the variables of ranks, and what differs."""
    from jupyter_dist.views.tables.variables_table import names_text

    write(names_text(visit(options).who(options.only, options.ranks)))
    return 0


def stacks(options: argparse.Namespace) -> int:
    """Show what every rank is doing, also when stuck."""
    from jupyter_dist.views.tables.stacks_table import stacks_text

    found = visit(options).stacks(options.ranks, native=options.native)
    write(stacks_text(found))
    return 0


def explain(options: argparse.Namespace) -> int:
    """Say what is the matter, and what can be done."""
    cluster = visit(options)
    write(_without_button(f"{cluster.explain()}\n", cluster.name))
    return 0


def collectives(options: argparse.Namespace) -> int:
    """Show what ranks have called last."""
    from jupyter_dist.views.tables.collectives_table import collectives_text

    log = visit(options).collectives(options.last)
    write(collectives_text(log.table(options.last)))
    return 0


def timeline(options: argparse.Namespace) -> int:
    """Write a trace that Perfetto opens."""
    write(f"{visit(options).timeline(options.file, force=options.force)}\n")
    return 0


COMMANDS: tuple[Command, ...] = (
    (show_status, "status demo", add_name),
    (who, "who demo --ranks 0-1", add_name, _add_only, add_ranks),
    (stacks, "stacks demo", add_name, add_native_option, add_ranks),
    (explain, "explain demo", add_name),
    (collectives, "collectives demo --last 50", add_name, add_collectives_options),
    (timeline, "timeline trace.json demo", add_timeline_options, add_name),
)
