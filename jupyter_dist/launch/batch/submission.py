"""From an order to a job: checked, written, and handed to the batch system."""

import os
import re
import shlex
import shutil
from functools import partial

from jupyter_dist.errors import StartFailed, UsageError
from jupyter_dist.launch.batch.agent_script import agent_script, agent_words
from jupyter_dist.launch.batch.allocation import Allocation, check_room, find_allocation
from jupyter_dist.launch.batch.batch_errors import next_step
from jupyter_dist.launch.batch.commands import at_cluster, query_at
from jupyter_dist.launch.batch.files import JobFiles
from jupyter_dist.launch.batch.job_status import (
    Question,
    SgeQuestion,
    SlurmQuestion,
    ask_condor,
    ask_lsf,
    ask_pbs,
)
from jupyter_dist.launch.batch.jobs import BatchJob, StartedJob, SubmittedJob
from jupyter_dist.launch.batch.options import submit_words, time_limit
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.batch.programs import (
    REMOTE_SHELLS,
    environment_for_mpiexec,
    find_mpiexec,
    loop_words,
    mpiexec_options,
    srun_words,
)
from jupyter_dist.launch.batch.templates import check_template, template_for
from jupyter_dist.model.spec.batch import BATCH_TITLES

IPYPARALLEL = 9
"""Whose launchers are used, inside, too: of another one nobody has seen that."""
_PROGRAMS = {
    "slurm": "sbatch",
    "pbs": "qsub",
    "sge": "qsub",
    "lsf": "bsub",
    "htcondor": "condor_submit",
    "mpi": "mpiexec",
}


def submit(order: BatchOrder) -> BatchJob:
    """Have the batch system start the agents.

    Raises UsageError for what cannot be meant, and StartFailed with the scheduler's own words for
    what it does not take; nothing is left then.
    """
    system = order.spec.system
    is_ours = order.spec.is_within or system == "mpi"
    files = JobFiles(order.join_path.parent, order.cluster, order.log_dir if is_ours else None)
    try:
        check_available(system, is_within=order.spec.is_within)
        if order.spec.template:
            check_template(order.spec.template)
        return _start(order, files) if is_ours else _submit(order, files)
    except BaseException:
        files.remove()
        raise


def check_available(system: str, *, is_within: bool = False) -> None:
    """Raise UsageError when this machine has not what a start by this batch system needs."""
    _check_ipyparallel()
    program = _PROGRAMS[system]
    if is_within:
        program = {"slurm": "srun", **REMOTE_SHELLS}.get(system, "mpiexec")
        if system != "slurm" and find_mpiexec():
            return
    if find_mpiexec() if program == "mpiexec" else shutil.which(program):
        return
    if system == "mpi":
        raise UsageError(
            "mpiexec is not on PATH of this machine, nor in the environment of this Python. "
            "Install an MPI, for example with `pip install mpich`, or load your site's module "
            "before Jupyter is started."
        )
    where = (
        "It has to be on the node where Jupyter runs."
        if is_within
        else "Batch starts run where jobs are submitted, usually a login node."
    )
    raise UsageError(
        f"{program} is not on PATH of this machine, so {BATCH_TITLES[system]} cannot be asked. "
        f"{where} Start Jupyter there, or name hosts with --hosts."
    )


def _check_ipyparallel() -> None:
    import importlib.metadata  # takes a while, and ordinary starts import this module

    try:
        version = importlib.metadata.version("ipyparallel")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    major = re.match(r"\d+", version)
    if major is None or int(major[0]) != IPYPARALLEL:
        there = f"ipyparallel {version} is not the one that is known here"
        if not version:
            there = "ipyparallel is not installed"
        raise UsageError(
            f"{there}; starts by batch systems use its launchers, those of {IPYPARALLEL}. Install "
            f"it beside jupyter-dist: pip install 'ipyparallel>={IPYPARALLEL},<{IPYPARALLEL + 1}'."
        )


def _submit(order: BatchOrder, files: JobFiles) -> SubmittedJob:
    from jupyter_dist.launch.batch.launchers import delete_words

    system, answer = order.spec.system, _submit_script(order, files)
    job_id, _, cluster = answer.replace(" on cluster ", ";").partition(";")
    label = f"{BATCH_TITLES[system]} job {job_id.partition('.')[0]}"
    delete = at_cluster(delete_words(system, job_id), cluster)
    question = _question(system, job_id, files, cluster, order.spec.time_limit_s)
    return SubmittedJob(label, question, delete, files)


def _submit_script(order: BatchOrder, files: JobFiles) -> str:
    """Return the number of the job."""
    from jupyter_dist.launch.batch.launchers import Refused, submit_script

    spec = order.spec
    # Tasks that PBS starts on nodes write where nobody can look while they run.
    files.write_agent(agent_script(order, files.output if spec.system == "pbs" else None))
    agent = shlex.join(agent_words(order, files.agent))
    fields = {
        "template": spec.template or template_for(spec.system, is_on_first=order.has_coordinator),
        "agent": agent,
        "nodes": spec.nodes,
        "slots": order.slots,
        "cores": order.cores,
        "job_name": order.job_name,
        "queue": spec.queue,
        "account": spec.account,
        "time_limit": time_limit(order),
        "output_file": str(files.output),
        "directory": str(order.directory),
        "cluster_id": order.cluster,
    }
    try:
        return submit_script(spec.system, files.script, submit_words(order, files.output), fields)
    except Refused as error:
        if "has not answered within" in error.said:  # but it may have heard
            raise StartFailed(
                f"{BATCH_TITLES[spec.system]} does not say whether it has taken the job; "
                f"{error.said}. Look for a job named {order.job_name!r} in its queue, and cancel "
                "it, before you start again."
            ) from error
        raise StartFailed(
            f"{BATCH_TITLES[spec.system]} has not taken the job; {str(error).rstrip('.')}. "
            f"{next_step(spec.system, error.said)}"
        ) from error


def _question(
    system: str, job_id: str, files: JobFiles, cluster: str = "", limit_s: float = 0.0
) -> Question:
    match system:
        case "slurm":
            return SlurmQuestion(job_id, files.read_output, query_at(cluster)).ask
        case "pbs":
            return partial(ask_pbs, job_id)
        case "sge":
            return SgeQuestion(job_id, limit_s=limit_s).ask
        case "lsf":
            return partial(ask_lsf, job_id)
        case _:
            return partial(ask_condor, job_id, limit_s=limit_s)


def _start(order: BatchOrder, files: JobFiles) -> BatchJob:
    """Start the agents from here, within the allocation that we are in or by mpiexec alone."""
    spec, allocation = order.spec, find_allocation(os.environ)
    if spec.is_within:
        if allocation is None or allocation.system != spec.system:
            raise UsageError(
                f"this process is in no allocation of {BATCH_TITLES[spec.system]}. Start Jupyter "
                f"within one, or submit a job with --launcher {spec.system}."
            )
        check_room(allocation, spec.nodes, order.slots)
    return _start_program(order, files, allocation if spec.is_within else None)


def _start_program(order: BatchOrder, files: JobFiles, allocation: Allocation | None) -> StartedJob:
    spec, agent = order.spec, agent_words(order, files.agent)
    environ, is_mpi = dict(os.environ), False
    if allocation is not None and allocation.system == "slurm":
        words = srun_words(allocation.job_id, spec.nodes, spec.arguments, agent)
    elif allocation is not None and shutil.which(REMOTE_SHELLS.get(allocation.system, "")):
        words = loop_words(allocation, spec.nodes, agent)
    else:
        from jupyter_dist.launch.batch.launchers import mpiexec_words

        environ, is_mpi = environment_for_mpiexec(environ), True
        words = mpiexec_words(spec.nodes, [*mpiexec_options(), *spec.arguments], agent)
    files.write_agent(agent_script(order, hides_signals=is_mpi))
    label, question = "", None
    if allocation is not None and allocation.job_id:
        label = allocation.label
        question = _question(allocation.system, allocation.job_id, files)
    try:
        return StartedJob(words, environ, files, label, question)
    except OSError as error:
        raise StartFailed(f"{words[0]} could not be started: {error}.") from error
