"""Commands that look at a cluster, its ranks and what they call; none of them disturbs a cell."""

import argparse
from collections.abc import Callable
from typing import TypeAlias

from jupyter_dist.cli.command import add_name, write
from jupyter_dist.model.command_options import (
    OptionParser,
    add_collectives_options,
    add_native_option,
    add_timeline_options,
)
from jupyter_dist.model.text import name_interrupt

Call: TypeAlias = Callable[[argparse.Namespace], int]
Add: TypeAlias = Callable[[Call, str, str], OptionParser]
"""Makes the parser of a command: what to call, what it does, an example that begins with it."""


def add_looking_commands(add: Add) -> None:
    """Describe every command of this file."""
    add_name(add(show_status, "Show the ranks of a cluster.", "status demo"))
    names = add(who, "Show the variables of ranks, and what differs.", "who demo --ranks 0-1")
    add_name(names)
    names.add_argument(
        "--only", nargs="+", metavar="PATTERN", default=(), help="names to list, as loss or 'w*'"
    )
    seen = add(stacks, "Show what every rank is doing, also when stuck.", "stacks demo")
    add_name(seen)
    add_native_option(seen)
    for parser in (names, seen):
        parser.add_argument("--ranks", metavar="RANKS", help="only these ranks, as 0,2-3")
    add_name(add(explain, "Say what is the matter, and what can be done.", "explain demo"))
    calls = add(collectives, "Show what ranks have called last.", "collectives demo --last 50")
    add_name(calls)
    add_collectives_options(calls)
    trace = add(timeline, "Write a trace that Perfetto opens.", "timeline trace.json demo")
    add_timeline_options(trace)
    add_name(trace)


def show_status(options: argparse.Namespace) -> int:
    """Write the table of one cluster."""
    from jupyter_dist.cluster.cluster import Cluster

    cluster = Cluster.visit(options.name)
    write(_without_button(f"{cluster.status()}\n", cluster.name))
    return 0


def _without_button(text: str, name: str) -> str:
    return name_interrupt(text, f"`jupyter dist interrupt {name}`")


def who(options: argparse.Namespace) -> int:
    """Write the variables of ranks, busy or not, and what differs."""
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.names_table import names_text

    write(names_text(Cluster.visit(options.name).who(options.only, options.ranks)))
    return 0


def stacks(options: argparse.Namespace) -> int:
    """Write what ranks are doing, those with the same stack together."""
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.stacks_table import stacks_text

    found = Cluster.visit(options.name).stacks(options.ranks, native=options.native)
    write(stacks_text(found))
    return 0


def explain(options: argparse.Namespace) -> int:
    """Write who waits for whom, how ranks were lost, and what can be done."""
    from jupyter_dist.cluster.cluster import Cluster

    cluster = Cluster.visit(options.name)
    write(_without_button(f"{cluster.explain()}\n", cluster.name))
    return 0


def collectives(options: argparse.Namespace) -> int:
    """Write the last collectives of every rank, and where ranks went apart."""
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.collectives_table import collectives_text

    log = Cluster.visit(options.name).collectives(options.last)
    write(collectives_text(log.table(options.last)))
    return 0


def timeline(options: argparse.Namespace) -> int:
    """Write the cells and collectives of all ranks as a trace."""
    from jupyter_dist.cluster.cluster import Cluster

    write(f"{Cluster.visit(options.name).timeline(options.file, force=options.force)}\n")
    return 0
