"""What a start can be told of hosts that are taken away, as options of a command and as checks."""

import argparse

from jupyter_dist.errors import UsageError


def add_preempt_options(parser: argparse.ArgumentParser) -> None:
    """Add what is done, and who is asked, before a host is taken away."""
    parser.add_argument(
        "--save-on-preempt",
        metavar="DIR",
        help="save the variables named by checkpoint.mark() there before a host is taken away",
    )
    parser.add_argument(
        "--preempt-command",
        metavar="COMMAND",
        help="asked on each host every few seconds; that it succeeds means: this host will be "
        "taken away, and its first line says why",
    )


def preempt_arguments(options: argparse.Namespace) -> dict[str, str | None]:
    """Turn these options into arguments of `Cluster.start`; None where nothing was said."""
    return {
        "save_on_preempt": options.save_on_preempt,
        "preempt_command": options.preempt_command,
    }


def check_preemption(directory: str, command: str) -> None:
    """Raise UsageError for a directory or a command that cannot be meant; empty: none."""
    if (directory and not directory.startswith("/")) or "\0" in directory:
        raise UsageError(
            f"save on preempt {directory!r} is not accepted. Give the whole path of a directory "
            "that all hosts can write to, for example /scratch/alice/checkpoints."
        )
    if "\0" in command or (command and not command.strip()):
        raise UsageError(
            f"preempt command {command!r} is not accepted. Give what a shell can run, for example "
            "'curl -sf http://169.254.169.254/latest/meta-data/spot/instance-action'."
        )
