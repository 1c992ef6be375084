"""Why a scheduler has not taken a job, and what the user can do."""

import re

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


def next_step(system: str, said: str) -> str:
    """Say what may help after the submit command has said this."""
    for pattern, systems, step in _STEPS:
        if (not systems or system in systems.split()) and re.search(pattern, said, re.IGNORECASE):
            return step
    return _OTHERWISE
