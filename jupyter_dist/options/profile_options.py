"""What can be said of a profile, written once."""

import argparse

from jupyter_dist.model.ranks.profiles import MOST_PROFILE_S, PROFILE_KINDS
from jupyter_dist.options.command_options import read_duration_s

DEFAULT_S = 5.0


def read_profile_s(text: str) -> float:
    """Read how long a profile takes: more than 0 s, an hour at most."""
    seconds = read_duration_s(text)
    if seconds > MOST_PROFILE_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is too long: a profile takes an hour (60m) at most"
        )
    return seconds


def add_profile_options(parser: argparse.ArgumentParser) -> None:
    """Add everything that can be said of a profile but which ranks are meant."""
    parser.add_argument(
        "--with",
        dest="mode",
        choices=PROFILE_KINDS,
        default=PROFILE_KINDS[0],
        help=f"what to note (default: {PROFILE_KINDS[0]})",
    )
    parser.add_argument(
        "--native",
        action="store_true",
        help="see what C and C++ do too, by py-spy (memory: by memray) where it is installed",
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="write ranks side by side for https://ui.perfetto.dev"
    )
    parser.add_argument(
        "--speedscope", metavar="FILE", help="write the samples for https://www.speedscope.app"
    )
    parser.add_argument(
        "--force", action="store_true", help="overwrite files that are not of jupyter-dist"
    )
