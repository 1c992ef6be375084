"""What commands of the terminal have in common: which cluster is meant, and what they write."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from jupyter_dist.options.command_options import OptionParser

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

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
