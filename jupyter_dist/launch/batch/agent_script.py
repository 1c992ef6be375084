"""The shell script that turns a node into a host: it runs one agent, in the foreground.

It is a file of its own, so that every way to start a program on a node passes on two plain words:
some of them split or join what they are given.
"""

import shlex
from pathlib import Path

from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.own_agent import start_words
from jupyter_dist.launch.ssh.remote_command import python_script, shell_for
from jupyter_dist.model.spec.batch import VARIABLES_OF_MPI
from jupyter_dist.model.spec.cluster_spec import HostSpec

_HIDING = """\
(
{program}
) &
agent=$!
trap 'kill -TERM "$agent"' TERM INT HUP
wait "$agent"; status=$?
while kill -0 "$agent" 2>/dev/null; do wait "$agent"; status=$?; done
if [ "$status" -gt 128 ]; then
    echo "jupyter-dist: signal $((status - 128)) has ended the agent on $(hostname)" >&2
    exit 0
fi
exit "$status\""""


def agent_words(order: BatchOrder, script: Path) -> list[str]:
    """Return the words that run the script, as `sh /shared/x.agent.sh`."""
    return [*shell_for(_node(order))[:-1], str(script)]


def agent_script(
    order: BatchOrder, output: Path | None = None, *, hides_signals: bool = False
) -> str:
    """Write the script.

    With an output, each node writes what it says into a file beside it. One that hides signals
    ends well when its agent was killed: mpiexec would end all others, too.
    """
    forget = " ".join(
        f"-e 's/^\\({prefix}[A-Za-z0-9_]*\\)=.*/\\1/p'" for prefix in VARIABLES_OF_MPI
    )
    # Ranks are no part of what mpiexec or srun have started.
    lines = [
        "#!/bin/sh",
        "# A process of jupyter-dist; written for a batch job, and removed at its end.",
        f'for name in $(env | sed -n {forget}); do unset "$name"; done',
    ]
    if output is not None:
        lines.insert(2, f'exec >>{shlex.quote(str(output))}."$(hostname)" 2>&1')
    program = python_script(_node(order), _arguments(order))
    return "\n".join([*lines, _HIDING.format(program=program) if hides_signals else program, ""])


def _arguments(order: BatchOrder) -> list[str]:
    if order.has_coordinator:
        return ["-P", "-m", "jupyter_dist.coordinator.in_job", str(order.join_path)]
    words = ["-P", "-m", "jupyter_dist.agent", "--join", str(order.join_path)]
    if order.slots:
        words += ["--slots", str(order.slots)]
    return words + start_words(order.start_method)


def _node(order: BatchOrder) -> HostSpec:
    return HostSpec(name="node", python=order.python, setup=order.setup)
