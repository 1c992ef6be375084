"""What can be said of a job: what is run, how long, what becomes of it, and what is written."""

import argparse
from pathlib import Path

from jupyter_dist.options.command_options import (
    add_timeout,
    number_reader,
    read_identifier,
    read_span_s,
)

LOSS_POLICIES = ("stop", "heal", "shrink")
DEFAULT_RESTARTS = 3


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of a program or a notebook that runs as a job."""
    parser.add_argument(
        "--name", metavar="NAME", help="a cluster that runs (default: it starts and stops its own)"
    )
    add_timeout(parser, "it")
    parser.add_argument(
        "--start-timeout",
        dest="start_timeout_s",
        type=read_span_s,
        metavar="S",
        help="give up when its own cluster is not ready after this time (default: as for start)",
    )
    _add_losses(parser)
    _add_results(parser)
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="FILE is a module, as after python -m"
    )
    _add_notebook_options(parser)
    parser.add_argument(
        "file", metavar="FILE", help="a program or a notebook; - reads a program from stdin"
    )
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="ARGUMENT",
        help="the program's own; options of this command stand before FILE, of a notebook anywhere",
    )


def _add_losses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-loss",
        choices=LOSS_POLICIES,
        help="when a rank is lost, the job ends (stop, default), or begins again with new ranks "
        "(heal) or with fewer (shrink)",
    )
    parser.add_argument(
        "--restarts",
        type=number_reader("a number of times"),
        metavar="N",
        help=f"begin again at most this many times (default: {DEFAULT_RESTARTS})",
    )
    parser.add_argument(
        "--resume",
        metavar="DIR",
        help="first restore the newest checkpoint of this directory, if it has one; each time",
    )


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="write each event as a line of JSON, for programs"
    )
    parser.add_argument(
        "--junit",
        type=Path,
        metavar="FILE",
        help="write a report for CI: a test case for each rank, or each cell of a notebook",
    )


def _add_notebook_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-p",
        "--parameter",
        dest="parameters",
        nargs=2,
        action=_Parameter,
        default=(),
        metavar=("NAME", "VALUE"),
        help="a parameter of a notebook, repeatable; VALUE is a literal of Python, or text",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the notebook there with its outputs, while it runs and whatever ends it",
    )
    parser.add_argument(
        "--kernel", metavar="NAME", help="which kernel runs the notebook (default: its own)"
    )


class _Parameter(argparse.Action):
    """Collect pairs of a name and a value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Add one to those before."""
        assert isinstance(values, list)
        name, value = values
        try:
            pair = read_identifier(name), value
        except argparse.ArgumentTypeError as problem:
            raise argparse.ArgumentError(self, str(problem)) from None
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), pair))
