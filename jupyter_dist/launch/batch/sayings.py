"""What nodes say when no agent comes to be there, and what can be done."""

import re
from typing import NamedTuple

from jupyter_dist.launch.base import Failure
from jupyter_dist.launch.ssh_failures import last_lines

_LINES = 12


class _Saying(NamedTuple):
    said: str
    reason: str
    next_step: str


_SAYINGS = (
    _Saying(
        r"No module named '?jupyter_dist",
        "a node of the job has no jupyter-dist for the Python that ran there",
        "Install it there, for example into an environment in a directory that all nodes see, and "
        "name its Python with --python.",
    ),
    _Saying(
        r"No module named '?(?P<name>[\w.]+)",
        "Python on a node of the job finds no {name}",
        "Install jupyter-dist there with all that it needs, and name its Python with --python.",
    ),
    _Saying(
        r"jupyter-dist: there is no Python at (?P<name>.+)",
        "a node of the job has no Python at {name}",
        "Name one that all nodes have with --python.",
    ),
    _Saying(
        r"jupyter-dist: this setup command failed: (?P<name>.+)",
        "a setup command failed on a node of the job: {name}",
        "Try it by hand in a job of your own.",
    ),
    _Saying(
        r"jupyter-dist: join file (?P<name>.+?) cannot be read",
        "a node of the job cannot read the join file {name}",
        "Give a directory that all nodes see with --job-dir.",
    ),
    _Saying(
        r"(?:can't open|cannot open|Can't open) '?(?P<name>[^':]+\.agent\.sh)",
        "a node of the job does not see the script {name}",
        "Give a directory that all nodes see with --job-dir.",
    ),
    _Saying(
        r"(?P<name>/\S+\.agent\.sh): No such file or directory",
        "a node of the job does not see the script {name}",
        "Give a directory that all nodes see with --job-dir.",
    ),
    _Saying(
        r"jupyter-dist: (?P<name>no address of cluster .+)",
        "{name}",
        "Let the nodes reach this machine: see --interface and --ports.",
    ),
    _Saying(
        r"jupyter-dist: (?P<name>this side speaks .+)",
        "{name}",
        "Install the same jupyter-dist there, or name its Python with --python.",
    ),
    _Saying(
        r"(?P<name>srun: error: .*(?:has expired|Unable to|Invalid|Unspecified).*)",
        "{name}",
        "Try srun by hand in a job of your own.",
    ),
)


def explain_output(text: str) -> Failure | None:
    """Say why a node has no agent, as far as what its job wrote tells; None: it does not."""
    for saying in _SAYINGS:
        match = re.search(saying.said, text)
        if match is not None:
            words = {name: (value or "").rstrip(".") for name, value in match.groupdict().items()}
            reason = saying.reason.format_map(words)
            return Failure(reason, saying.next_step, last_lines(text, _LINES))
    return None
