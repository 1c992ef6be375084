"""What can be said of who starts the agents of a cluster, and of the job that does."""

import argparse
from typing import Any

from jupyter_dist.model.batch import BATCH_SYSTEMS
from jupyter_dist.model.command_options import read_duration_s

START_LAUNCHERS = ("auto", "local", "ssh", *BATCH_SYSTEMS)
"""Who may start the agents of a whole cluster."""
_TEXTS = (
    ("--launcher-arg", "launcher_args", "ARG", "one argument for it as it stands, repeatable"),
    ("--template", "template", "FILE", "a job script of your own, with our fields in it"),
    ("--queue", "queue", "NAME", "partition or queue of the job (default: the scheduler's)"),
    ("--account", "account", "NAME", "whom the scheduler charges"),
    ("--job-name", "job_name", "NAME", "name of the job (default: jupyter-dist-CLUSTER)"),
    ("--job-dir", "job_dir", "DIR", "a directory that all nodes see (default: Jupyter's)"),
)


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """Add who starts the agents and, where a batch system does, what is asked of it."""
    parser.add_argument(
        "--launcher",
        choices=START_LAUNCHERS,
        help="who starts the agents: a batch system in a job, or ssh; auto: the allocation that "
        "we are in, if there is one",
    )
    parser.add_argument(
        "--nodes",
        type=_read_number,
        metavar="N",
        help="nodes of the job, each with one agent (in an allocation default: all)",
    )
    parser.add_argument(
        "--slots",
        type=_read_number,
        metavar="N",
        help="ranks on each node (default: one for each GPU)",
    )
    parser.add_argument(
        "--time-limit",
        dest="time_limit_s",
        type=read_duration_s,
        metavar="DURATION",
        help="after which the scheduler ends the job, as 2h (default: that of the queue)",
    )
    for flag, dest, metavar, text in _TEXTS:
        action = "append" if dest == "launcher_args" else "store"
        parser.add_argument(flag, dest=dest, action=action, metavar=metavar, help=text)


def batch_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn these options into arguments of `Cluster.start`."""
    names = ["launcher", "nodes", "slots", "time_limit_s", *(dest for _, dest, _, _ in _TEXTS)]
    return {name: getattr(options, name) for name in names}


def _read_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, 1 or more")
    return int(text)
