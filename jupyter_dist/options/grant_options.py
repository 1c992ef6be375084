"""What a person says of what AI agents may do: the same words in a notebook and in a terminal."""

import argparse

from jupyter_dist.options.command_options import number_reader, read_duration_s

DEFAULT_ACTS = "run,interrupt,heal"
DEFAULT_S = 2 * 3600.0
_ALL = 0


def add_grant_options(parser: argparse.ArgumentParser) -> None:
    """Add to whom a grant is given, for what and for how long; or which is revoked."""
    parser.add_argument(
        "whom",
        nargs="?",
        choices=("agent",),
        help="AI agents that use the tools of jupyter-dist; without it grants are listed",
    )
    parser.add_argument(
        "--for",
        dest="for_s",
        type=read_duration_s,
        default=DEFAULT_S,
        metavar="TIME",
        help="until when, as 30m, 2h or 1d (default: 2h)",
    )
    parser.add_argument(
        "--may",
        default=DEFAULT_ACTS,
        metavar="ACTS",
        help=f"of run, interrupt, heal and checkpoint (default: {DEFAULT_ACTS})",
    )
    parser.add_argument(
        "--revoke",
        nargs="?",
        type=number_reader("the number of a grant"),
        const=_ALL,
        metavar="N",
        help="revoke this grant; without N all of them",
    )
