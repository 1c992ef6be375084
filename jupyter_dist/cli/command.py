"""What commands of the terminal have in common: which cluster is meant, and what they write."""

import argparse
import sys
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from jupyter_dist.errors import UsageError
from jupyter_dist.options.command_options import OptionParser

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

USAGE = 2
"""Exit status of a command that cannot be meant."""
Call: TypeAlias = Callable[[argparse.Namespace], int]
"""Carries out a command, as its docstring says in the help; gives its status."""
Command: TypeAlias = tuple[Call, str, *tuple[Callable[[OptionParser], None], ...]]
"""What to call, an example that begins with the name of the command, and what adds its options."""


def add_name_option(parser: argparse.ArgumentParser) -> None:
    """Let a command name its cluster where its words are something else."""
    parser.add_argument("--name", metavar="NAME", help="which cluster, when several run")


def visit(options: argparse.Namespace) -> "Cluster":
    """Connect to the cluster that is named, or to the only one."""
    from jupyter_dist.cluster.cluster import Cluster

    return Cluster.visit(options.name)


def write(text: str) -> None:
    """Write to stdout at once, also where that is a pipe."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_problem(problem: str, status: int) -> int:
    """Write what went wrong to stderr, and return the exit status."""
    sys.stderr.write(f"jupyter dist: {tell_problem(problem, status)}\n")
    return status


def tell_problem(problem: str, status: int) -> str:
    """Return what went wrong: mistakes are one line, failures have what programs said below."""
    text = problem.removeprefix("jupyter dist").lstrip(": ")
    return " ".join(text.split()) if status == USAGE else text


def start_shown(arguments: dict[str, Any]) -> "Cluster":
    """Start a cluster, and show how far it is on stderr. Raise as `Cluster.start` does."""
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.cell.terminal import Terminal
    from jupyter_dist.views.stages.start_progress import StartProgressView, ready_text

    view = StartProgressView(display=Terminal(sys.stderr.write, is_tty=sys.stderr.isatty()))
    started_s = monotonic()
    try:
        cluster = Cluster.start(**arguments, on_progress=view.on_progress)
    except UsageError:
        raise
    except BaseException:
        view.fail("not started")
        raise
    ready_s = monotonic() - started_s
    name, ranks = cluster.name, cluster.world_size
    view.finish(ready_text(name, ranks, ready_s, cluster.notes, view.passed_s))
    return cluster
