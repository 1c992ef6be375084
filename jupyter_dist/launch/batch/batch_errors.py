"""What schedulers say of a job that they do not take, and nodes where no agent comes to be."""

import re

from jupyter_dist.launch.launcher import Failure
from jupyter_dist.launch.ssh.ssh_errors import ErrorPattern
from jupyter_dist.text.said_lines import last_lines

_QUEUE = (
    r"(?:unknown|no such|invalid|illegal) [^;]{0,20}queue|queue [^;]{0,40}(?:unknown|not exist)"
)
_STEPS = (
    (r"partition", "slurm", "`sinfo` lists the partitions of this cluster; name one with --queue."),
    (_QUEUE, "pbs sge", "`qstat -Q` or `qconf -sql` lists the queues; name one with --queue."),
    (_QUEUE, "lsf", "`bqueues` lists the queues; name one with --queue."),
    (
        r"account|association|project",
        "",
        "See with --account whom the scheduler may charge; your site's pages name it.",
    ),
    (
        r"time.?limit|walltime|wall.?clock|run ?limit",
        "",
        "Give a --time-limit that the queue accepts, for example --time-limit 1h.",
    ),
    (
        r"node configuration|node count|more processors|too many|insufficient|exceed",
        "",
        "Ask for fewer --nodes or --slots, or for another --queue.",
    ),
    (
        r"contact|connect|communicat|refused|timed out|within \d+ s",
        "",
        "The scheduler's own server does not answer; try again, or ask its administrators.",
    ),
    (
        r"unrecogni|invalid option|unknown option|illegal|usage:",
        "",
        "See what was given with --launcher-arg, and in the template.",
    ),
)
_OTHERWISE = (
    "What this site wants can be given with --queue, --account, --time-limit, --launcher-arg or a "
    "--template of your own."
)
FROM_NODES = (
    ErrorPattern(
        r"No module named '?jupyter_dist",
        "a node of the job has no jupyter-dist for the Python that ran there",
        "Install it there, for example into an environment in a directory that all nodes see, and "
        "name its Python with --python.",
    ),
    ErrorPattern(
        r"No module named '?(?P<name>[\w.]+)",
        "Python on a node of the job finds no {name}",
        "Install jupyter-dist there with all that it needs, and name its Python with --python.",
    ),
    ErrorPattern(
        r"jupyter-dist: there is no Python at (?P<name>.+)",
        "a node of the job has no Python at {name}",
        "Name one that all nodes have with --python.",
    ),
    ErrorPattern(
        r"jupyter-dist: this setup command failed: (?P<name>.+)",
        "a setup command failed on a node of the job: {name}",
        "Try it by hand in a job of your own.",
    ),
    ErrorPattern(
        r"jupyter-dist: (?P<name>(?:join|order) file .+?) cannot be read",
        "a node of the job cannot read the {name}",
        "Give a directory that all nodes see with --job-dir.",
    ),
    ErrorPattern(
        r"(?:can't open|cannot open|Can't open) '?(?P<name>[^':]+\.agent\.sh)",
        "a node of the job does not see the script {name}",
        "Give a directory that all nodes see with --job-dir.",
    ),
    ErrorPattern(
        r"(?P<name>/\S+\.agent\.sh): No such file or directory",
        "a node of the job does not see the script {name}",
        "Give a directory that all nodes see with --job-dir.",
    ),
    ErrorPattern(
        r"jupyter-dist: (?P<name>no address of cluster .+)",
        "{name}",
        "Let the nodes reach this machine: see --interface and --ports.",
    ),
    ErrorPattern(
        r"jupyter-dist: (?P<name>this side speaks .+)",
        "{name}",
        "Install the same jupyter-dist there, or name its Python with --python.",
    ),
    ErrorPattern(
        r"(?P<name>srun: error: .*(?:has expired|Unable to|Invalid|Unspecified).*)",
        "{name}",
        "Try srun by hand in a job of your own.",
    ),
)


def next_step(system: str, said: str) -> str:
    """Return what may help after the submit command has said this."""
    for pattern, systems, step in _STEPS:
        if (not systems or system in systems.split()) and re.search(pattern, said, re.IGNORECASE):
            return step
    return _OTHERWISE


def explain_output(text: str) -> Failure | None:
    """Return why a node has no agent, as far as what its job wrote tells; None: it does not."""
    for pattern in FROM_NODES:
        match = re.search(pattern.said, text)
        if match is not None:
            words = {name: (value or "").rstrip(".") for name, value in match.groupdict().items()}
            reason = pattern.reason.format_map(words)
            return Failure(reason, pattern.next_step, last_lines(text))
    return None
