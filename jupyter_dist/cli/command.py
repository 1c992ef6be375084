"""What commands of the terminal have in common: which cluster is meant, and what they write."""

import argparse
import sys


def add_name(parser: argparse._ActionsContainer) -> None:
    """Let a command name its cluster."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="which one, when several run")


def write(text: str) -> None:
    """Write to stdout at once, also where that is a pipe."""
    sys.stdout.write(text)
    sys.stdout.flush()
