"""What a person types after the commands that save, restore and list checkpoints."""

import argparse
from typing import Any

from jupyter_dist.options.checkpoint_request import DEFAULT_DIRECTORY
from jupyter_dist.options.command_options import number_reader


def add_save_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of variables that are to be saved."""
    parser.add_argument("checkpoint", metavar="NAME", help="what the checkpoint is called")
    _add_what(parser, "variables to save (default: those marked by checkpoint.mark)")
    parser.add_argument(
        "--all", dest="everything", action="store_true", help="all variables that can be saved"
    )
    parser.add_argument(
        "--keep-last",
        type=number_reader("a number of checkpoints"),
        metavar="N",
        help="remove older steps than the last N",
    )
    parser.add_argument(
        "--background",
        dest="wait",
        action="store_false",
        help="copy variables in memory only; ranks write them while the next cells run",
    )


def add_restore_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of variables that are to be restored."""
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="NAME",
        help="what the checkpoint is called; without it --dir is what has the steps",
    )
    _add_what(parser, "variables to restore (default: all that were saved)")
    parser.add_argument(
        "--step",
        type=number_reader("the number of a step", least=0),
        metavar="N",
        help="this one (default: the newest)",
    )
    parser.add_argument(
        "--objects",
        action="store_true",
        help="load objects that only pickle can read; they may run any code, so trust who saved",
    )


def save_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of `add_save_options` into arguments of `cluster.checkpoints.saving`."""
    return _arguments(options, "directory", "everything", "keep_last", "wait", "cache")


def restore_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of `add_restore_options` into arguments of `restoring` there."""
    return _arguments(options, "directory", "step", "objects", "cache")


def _arguments(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    found = {"name": options.checkpoint, "variables": " ".join(options.variables)}
    return found | {name: getattr(options, name) for name in names}


def add_start_resume(parser: argparse.ArgumentParser) -> None:
    """Let a start go on from a checkpoint."""
    parser.add_argument(
        "--resume",
        metavar="DIR",
        help="when it is ready, restore the newest checkpoint of this directory on all ranks",
    )


def add_heal_resume(parser: argparse.ArgumentParser) -> None:
    """Let a healing go on from a checkpoint."""
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="DIR",
        help="then restore the newest checkpoint of this directory on all ranks "
        "(default: where variables were saved last)",
    )


def _add_what(parser: argparse.ArgumentParser, variables: str) -> None:
    parser.add_argument("variables", nargs="*", metavar="VAR", help=variables)
    add_list_options(parser)
    parser.add_argument(
        "--cache", metavar="DIR", help="a directory on a disk of each host, for quick restarts"
    )


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """Add where checkpoints are."""
    parser.add_argument(
        "--dir",
        dest="directory",
        metavar="PATH",
        help=f"where checkpoints are, for all hosts (default: {DEFAULT_DIRECTORY}, here)",
    )
