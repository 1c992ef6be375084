"""Commands that look at a cluster, its ranks and what they call; none of them disturbs a cell."""

import argparse

from jupyter_dist.cli.answers import add_json, answer
from jupyter_dist.cli.command import Command, visit
from jupyter_dist.options.command_options import (
    OptionParser,
    add_collectives_options,
    add_name,
    add_native_option,
    add_ranks,
    add_timeline_options,
)
from jupyter_dist.options.profile_options import DEFAULT_S, add_profile_options, read_profile_s
from jupyter_dist.text.lists import name_interrupt


def _add_only(parser: OptionParser) -> None:
    parser.add_argument(
        "--only", nargs="+", metavar="PATTERN", default=(), help="names to list, as loss or 'w*'"
    )


def _add_for(parser: OptionParser) -> None:
    parser.add_argument(
        "--for",
        dest="seconds",
        type=read_profile_s,
        default=DEFAULT_S,
        metavar="DURATION",
        help=f"how long, as 5, 5s or 2m (default: {DEFAULT_S:g} s)",
    )


def show_status(options: argparse.Namespace) -> int:
    """Show the ranks of a cluster."""
    cluster = visit(options)
    status = cluster.status()
    return answer(options, status.topology, lambda: _without_button(f"{status}\n", cluster.name))


def _without_button(text: str, name: str) -> str:
    return name_interrupt(text, f"`jupyter dist interrupt {name}`")


def who(options: argparse.Namespace) -> int:
    """Show the variables of ranks, and what differs."""
    from jupyter_dist.views.tables.variables_table import names_text

    cluster = visit(options)
    ranks = cluster.select(options.ranks, options.on)
    found = cluster.who(options.only, ranks)
    return answer(options, found, lambda: names_text(found))


def stacks(options: argparse.Namespace) -> int:
    """Show what every rank is doing, also when stuck."""
    from jupyter_dist.views.tables.stacks_table import stacks_text

    cluster = visit(options)
    ranks = cluster.select(options.ranks, options.on)
    found = cluster.stacks(ranks, native=options.native)
    return answer(options, {"ranks": found}, lambda: stacks_text(found))


def explain(options: argparse.Namespace) -> int:
    """Say what is the matter, and what can be done."""
    cluster = visit(options)
    said = _without_button(cluster.explain(), cluster.name)
    return answer(options, {"text": said}, lambda: f"{said}\n")


def collectives(options: argparse.Namespace) -> int:
    """Show what ranks have called last."""
    from jupyter_dist.views.tables.collectives_table import collectives_text

    table = visit(options).collectives(options.last).table(options.last)
    return answer(options, table, lambda: collectives_text(table))


def timeline(options: argparse.Namespace) -> int:
    """Write a trace that Perfetto opens."""
    written = visit(options).timeline(options.file, force=options.force)
    return answer(options, written, lambda: f"{written}\n")


def profile(options: argparse.Namespace) -> int:
    """Look at what ranks do for a while: who is slow, and where."""
    from jupyter_dist.cluster.profiling.files import check_files, write_files
    from jupyter_dist.cluster.profiling.report import report_profile
    from jupyter_dist.views.profiles.profile_view import profile_text

    check_files(options)
    cluster = visit(options)
    ranks = cluster.select(options.ranks, options.on)
    found = cluster.profile(options.seconds, ranks, mode=options.mode, native=options.native)
    files = list(write_files(found, options))
    return answer(
        options,
        report_profile(found),
        lambda: "".join([profile_text(found), *(f"{line}\n" for line in files)]),
    )


COMMANDS: tuple[Command, ...] = (
    (show_status, "status demo", add_name, add_json),
    (who, "who demo --ranks 0-1", add_name, _add_only, add_ranks, add_json),
    (stacks, "stacks demo", add_name, add_native_option, add_ranks, add_json),
    (explain, "explain demo", add_name, add_json),
    (collectives, "collectives demo --last 50", add_name, add_collectives_options, add_json),
    (
        profile,
        "profile demo --for 5s --json",
        add_name,
        _add_for,
        add_profile_options,
        add_ranks,
        add_json,
    ),
    (timeline, "timeline trace.json demo", add_timeline_options, add_name, add_json),
)
