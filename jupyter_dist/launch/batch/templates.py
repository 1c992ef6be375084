"""Job scripts: ours for each batch system, and what a user's own has to have.

A template is text with fields in braces, as ipyparallel's launchers have it; a brace that is meant
for the shell is written twice, as in `${{HOME}}`. Fields:

    {agent}             runs one agent; to be run once on each node. Also {program_and_args},
                        or {program} and {program_args}
    {n}, {nodes}        how many nodes there shall be
    {slots}, {cores}    engines on each node (0: each agent finds out), and cores for them
    {job_name}, {queue}, {account}
    {time_limit}        as the scheduler reads it
    {output_file}       where the job's output is looked for
    {directory}         the directory that all nodes see
    {cluster_id}        name of the cluster
"""

import ast
import string
from collections.abc import Iterator, Mapping

from jupyter_dist.errors import UsageError

FIELDS = (
    *("agent", "program_and_args", "program", "program_args", "n", "nodes", "slots", "cores"),
    *("job_name", "queue", "account", "time_limit", "output_file", "directory", "cluster_id"),
)
_AGENT_FIELDS = ("agent", "program_and_args", "program_args")

NO_SECOND_START = "periodic_remove = (JobStatus == 1 && NumJobStarts > 0)"
"""In the words of HTCondor, which else starts a job again that it has taken from its node."""

# Nodes that are lost must not take the others with them, and a job that begins again would find
# nobody to join: hence no-kill, and no requeue, in every dialect.
TEMPLATES = {
    "slurm": """\
#!/bin/sh
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --no-kill
#SBATCH --no-requeue
[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
export SLURM_CPU_BIND=none
exec srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --no-kill \\
    --kill-on-bad-exit=0 --mpi=none {agent}
""",
    "pbs": """\
#!/bin/sh
#PBS -l select={nodes}:ncpus={cores}:mpiprocs=1
#PBS -l place=scatter
#PBS -r n
#PBS -V
#PBS -j oe
for host in $(sort -u "$PBS_NODEFILE"); do
    pbs_tmrsh "$host" {agent} &
done
wait
""",
    "sge": """\
#!/bin/sh
#$ -S /bin/sh
#$ -V
#$ -j y
#$ -r n
#$ -t 1-{nodes}
exec {agent}
""",
    "lsf": """\
#!/bin/sh
#BSUB -n {nodes * cores}
#BSUB -R "span[ptile={cores}]"
#BSUB -rn
exec blaunch -z "$(sort -u "$LSB_DJOB_HOSTFILE" | tr '\\n' ' ')" {agent}
""",
    "htcondor": f"""\
universe = vanilla
executable = /usr/bin/env
arguments = "{{agent}}"
transfer_executable = False
should_transfer_files = NO
getenv = True
request_cpus = {{cores}}
{NO_SECOND_START}
queue {{nodes}}
""",
}


_FROM_FIRST = {"slurm": "[ -z", "pbs": "for host", "lsf": "exec blaunch"}
"""Begins what starts agents on all nodes from the first one, which runs the script."""


def template_for(system: str, *, is_on_first: bool = False) -> str:
    """Return our script for a batch system; one that is on the first node runs nothing elsewhere.

    Of those alone in which the first node can start programs on the others (WITH_COORDINATOR).
    """
    whole = TEMPLATES[system]
    if not is_on_first:
        return whole
    return whole[: whole.index(f"\n{_FROM_FIRST[system]}")] + "\nexec {agent}\n"


_SAMPLE: dict[str, object] = {
    **dict.fromkeys(FIELDS, "x"),
    **dict.fromkeys(("n", "nodes", "slots", "cores"), 1),
}


def check_template(text: str, values: Mapping[str, object] | None = None) -> None:
    """Raise UsageError when a user's template cannot be filled in, or would start no agent.

    Without values of the fields it is tried with others.
    """
    names = set()
    for line, name in _fields(text):
        names.add(name)
        if name not in FIELDS:
            raise UsageError(
                f"template, line {line}: field {{{name}}} is unknown. Accepted: {_list(FIELDS)}. A "
                f"brace for the shell is written twice, as in ${{{{{name}}}}}."
            )
    if not names.intersection(_AGENT_FIELDS):
        raise UsageError(
            "template: it has no field {agent} (or {program_and_args}), so no agent would run. "
            "Have it run once on each node, for example with: srun --ntasks-per-node=1 {agent}"
        )
    _check_values(text, {**_SAMPLE, **(values or {})})


def _check_values(text: str, values: Mapping[str, object]) -> None:
    """Raise UsageError for an expression that has no value, as `{nodes // slots}` without slots."""
    from IPython.utils.text import EvalFormatter  # late: as ipyparallel does it, which brings it

    for number, line in enumerate(text.split("\n"), 1):
        try:
            EvalFormatter().format(line, **values)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise UsageError(
                f"template, line {number}: {line.strip()!r} cannot be filled in: {error}. Of the "
                "fields {n}, {nodes}, {slots} and {cores} are numbers, all others texts; slots "
                "that were not asked for are 0."
            ) from error


def _fields(text: str) -> Iterator[tuple[int, str]]:
    """Yield the names in braces, each with its line; raises UsageError for odd braces."""
    for number, line in enumerate(text.split("\n"), 1):
        try:
            found = [field for _, field, _, _ in string.Formatter().parse(line)]
        except ValueError as error:
            raise UsageError(
                f"template, line {number}: {error}: {line.strip()!r}. Fields stand in single "
                "braces on one line, as {agent}; a brace for the shell is written twice, as in "
                "${{HOME}}."
            ) from None
        for field in found:
            if field is not None:
                yield from ((number, name) for name in _names_in(field, number))


def _names_in(field: str, line: int) -> list[str]:
    """Return the names of an expression such as `nodes * slots`."""
    try:
        tree = ast.parse(field.strip(), mode="eval")
    except SyntaxError:
        raise UsageError(
            f"template, line {line}: {{{field}}} is no field. Accepted: {_list(FIELDS)}."
        ) from None
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
