"""What starts a program once on each node of an allocation, and the environment it needs."""

import shlex
import shutil
import sysconfig
from collections.abc import Mapping, Sequence

from jupyter_dist.launch.batch.allocation import Allocation
from jupyter_dist.launch.batch.commands import Run, run_query
from jupyter_dist.model.spec.batch import VARIABLES_OF_MPI

_ON_EACH_HOST = """\
trap 'trap - TERM; kill 0' TERM
for host in "$@"; do {start} "$host" {agent} & done
wait
"""
REMOTE_SHELLS = {"pbs": "pbs_tmrsh", "lsf": "blaunch", "sge": "qrsh"}
"""Start a program on a named node of an allocation; one after the other, so that each gets one."""
_WORDS_BEFORE_HOST = {"sge": ["-inherit", "-nostdin", "-V"]}
_AROUND = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def srun_words(
    job_id: str, nodes: int, arguments: Sequence[str], agent: Sequence[str]
) -> list[str]:
    """Return the words that run an agent on so many nodes of a Slurm job.

    They share the nodes with whatever else the job runs, a lost node takes none of the others
    with it, and each agent has all the cores that the job has there.
    """
    counts = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    manner = ["--overlap", "--no-kill", "--kill-on-bad-exit=0", "--mpi=none", "--cpu-bind=none"]
    return ["srun", f"--jobid={job_id}", *counts, *manner, *arguments, *agent]


def loop_words(allocation: Allocation, nodes: int, agent: Sequence[str]) -> list[str]:
    """Return the words that run an agent on each of the first nodes of a PBS, LSF or SGE job."""
    system = allocation.system
    start = shlex.join([REMOTE_SHELLS[system], *_WORDS_BEFORE_HOST.get(system, [])])
    script = _ON_EACH_HOST.format(start=start, agent=shlex.join(agent))
    return ["sh", "-c", script, "sh", *allocation.hosts[:nodes]]


def find_mpiexec() -> str:
    """Return the mpiexec on PATH, else the one of the environment that this Python is of; or "".

    A notebook of an environment that was never activated has only the second.
    """
    name = "mpiexec"
    if shutil.which(name):
        return name
    return shutil.which(name, path=sysconfig.get_path("scripts")) or ""


def mpiexec_options(run: Run = run_query) -> list[str]:
    """Return the options with which this machine's mpiexec starts one agent on each node.

    Agents are no MPI programs, and their engines use all cores.
    """
    said = run([find_mpiexec(), "--version"])
    text = said.output + said.error
    if "Intel(R) MPI" in text or "HYDRA" in text:
        return ["-ppn", "1"]
    if any(name in text for name in ("Open MPI", "OpenRTE", "PRRTE", "prte")):
        return ["--map-by", "node", "--bind-to", "none"]
    return []


def environment_for_mpiexec(environ: Mapping[str, str]) -> dict[str, str]:
    """Leave out what an MPI program around us has: a new one would take itself for a part of it."""
    foreign = VARIABLES_OF_MPI if any(name in environ for name in _AROUND) else ()
    kept = {name: value for name, value in environ.items() if not name.startswith(foreign)}
    return {**kept, "I_MPI_PIN": environ.get("I_MPI_PIN", "0")}
