"""From an order to a submitted script, with ipyparallel's launchers; no command is run."""

import importlib.metadata
import shutil
from pathlib import Path

import pytest

from jupyter_dist.errors import StartFailed, UsageError
from jupyter_dist.launch.batch import commands as batch_commands
from jupyter_dist.launch.batch import jobs, launchers
from jupyter_dist.launch.batch.commands import CommandOutput
from jupyter_dist.launch.batch.files import make_job_dir
from jupyter_dist.launch.batch.job_status import FORGOTTEN, SlurmQuestion
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.batch.submission import check_available, submit
from jupyter_dist.model.spec.batch import (
    BATCH_TITLES,
    BatchSpec,
    JobCause,
    JobSeen,
    JobState,
    ended,
)

ACCEPTED = {
    "slurm": "Submitted batch job 12\n",
    "pbs": "12.pbs01\n",
    "sge": 'Your job-array 12.1-2:1 ("jupyter-dist-fit") has been submitted\n',
    "lsf": "Job <12> is submitted to default queue <normal>.\n",
    "htcondor": "Submitting job(s)..\n2 job(s) submitted to cluster 12.\n",
}
FAILED = ended(JobCause.FAILED, "FAILED (signal 53)")
CANCELLED = ended(JobCause.CANCELLED)


class Commands:
    """Notes every command, and answers all of them alike."""

    def __init__(self, answer):
        self.answer = answer
        self.calls = []

    def __call__(self, words, timeout_s, *, environ=None, stdin_path=None):
        path = Path(stdin_path or words[-1])
        text = path.read_text() if path.is_file() else ""
        self.calls.append((list(words), dict(environ or {}), text))
        return self.answer


@pytest.fixture
def answer(monkeypatch):
    """Let the submit command answer this."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")

    def arrange(said):
        commands = Commands(said)
        monkeypatch.setattr(launchers, "run_command", commands)
        monkeypatch.setattr(jobs, "run_command", commands)
        return commands

    return arrange


@pytest.fixture
def submitted(answer, tmp_path, monkeypatch):
    """Submit a job that is taken with these words, and seen like this; give it, and the commands."""

    def arrange(system="slurm", said="", seen=None, **options):
        commands = answer(CommandOutput(0, said or ACCEPTED[system]))
        if seen is not None:
            monkeypatch.setattr(SlurmQuestion, "ask", lambda _self: seen)
        return submit(order(tmp_path, system, **options)), commands

    return arrange


def order(folder, system="slurm", slots=8, **options):
    return BatchOrder(
        cluster="fit",
        spec=BatchSpec(system=system, nodes=2, **options),
        join_path=make_job_dir(folder, "fit") / "fit.join",
        slots=slots,
        directory=folder,
        log_dir=folder,
    )


@pytest.mark.parametrize(
    ("system", "parts"),
    [
        ("slurm", ["#SBATCH --nodes=2\n", "exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1"]),
        ("pbs", ["#PBS -l select=2:ncpus=8:mpiprocs=1\n", 'pbs_tmrsh "$host" sh /']),
        ("sge", ["#$ -t 1-2\n", "exec sh /"]),
        ("lsf", ["#BSUB -n 16\n", '#BSUB -R "span[ptile=8]"\n', "tr '\\n' ' ')\" sh /"]),
        ("htcondor", ['arguments = "sh /', "request_cpus = 8\n", "NumJobStarts > 0)\nqueue 2\n"]),
    ],
)
def test_a_job_has_its_schedulers_number_and_runs_one_agent_on_each_node(
    submitted, tmp_path, system, parts
):
    job, commands = submitted(system)
    assert job.label == f"{BATCH_TITLES[system]} job 12"
    ((_, _, script),) = commands.calls
    assert [part for part in parts if part not in script] == []
    (agent,) = tmp_path.glob("*/*.agent.sh")
    assert str(agent) in script
    assert "jupyter_dist.agent" in agent.read_text()


def test_lsf_reads_the_script_on_stdin_and_knows_nothing_of_a_job_around_it(submitted, monkeypatch):
    monkeypatch.setenv("LSB_JOBID", "3")
    _, commands = submitted("lsf")
    ((words, environ, script),) = commands.calls
    assert words[0] == "bsub"
    assert not any(word.endswith(".job") for word in words)
    assert script.startswith("#!/bin/sh\n#BSUB")
    assert "LSB_JOBID" not in environ
    assert environ["LSB_STDOUT_DIRECT"] == "Y"


def test_a_users_template_is_filled_in(submitted, tmp_path):
    template = (
        "#!/bin/bash\n#SBATCH -N {n} -J {cluster_id}\nsrun {program_and_args} # ${{HOME}}\n"
        "executable = {program}\narguments={program_args}\n"
    )
    _, commands = submitted(template=template, queue="gpu")
    ((words, _, script),) = commands.calls
    (agent,) = tmp_path.glob("*/*.agent.sh")
    assert script == (
        f"#!/bin/bash\n#SBATCH -N 2 -J fit\nsrun sh {agent} # ${{HOME}}\n"
        f"executable = sh\narguments={agent}\n"
    )
    assert "--partition=gpu" in words


@pytest.mark.parametrize(
    ("template", "told"),
    [("srun python", r"[{]agent[}]"), ("#SBATCH -n {nodes // slots}\nsrun {agent}", "line 1: ")],
)
def test_a_template_that_cannot_be_filled_in_is_refused_before_anything_is_written(
    answer, tmp_path, template, told
):
    commands = answer(CommandOutput(0, ACCEPTED["slurm"]))
    with pytest.raises(UsageError, match=told):
        submit(order(tmp_path, slots=0, template=template))
    assert commands.calls == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            CommandOutput(1, error="sbatch: error: Invalid account"),
            "Invalid account. See with --acc",
        ),
        (CommandOutput(0, "come back later\n"), "come back later"),
        (CommandOutput(124, error="sbatch has not answered within 60 s"), "'jupyter-dist-fit'"),
    ],
    ids=["refused", "without a number", "too slow to say whether"],
)
def test_a_job_that_is_not_known_to_be_taken_is_told_in_the_schedulers_words_and_leaves_nothing(
    answer, tmp_path, said, told
):
    answer(said)
    with pytest.raises(StartFailed) as caught:
        submit(order(tmp_path))
    assert told in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_grid_engine_takes_with_a_warning_is_taken(answer, tmp_path):
    said = """Unable to run job: warning: root's job is not allowed to run in any queue
Your job-array 12.1-2:1 ("jupyter-dist-fit") has been submitted
Exiting."""
    answer(CommandOutput(1, error=said))
    assert submit(order(tmp_path, "sge")).label == "SGE job 12"


def test_the_end_of_a_job_leaves_no_files_and_no_job(submitted, tmp_path):
    job, commands = submitted()
    log = next(tmp_path.glob("*/*.job")).with_suffix(".log")
    said = "ModuleNotFoundError: No module named 'jupyter_dist'"
    log.write_text(f"{said}\n")
    assert "--python" in job.explain().next_step
    assert job.last_lines() == said
    job.end()
    assert commands.calls[-1][0] == ["scancel", "12"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("seen", "is_told"), [(FAILED, True), (CANCELLED, False)])
def test_a_job_that_has_failed_and_written_nothing_ran_where_nobody_sees_its_directory(
    submitted, tmp_path, seen, is_told
):
    job, _ = submitted(seen=seen)
    assert job.explain() is None
    job.look()
    failure = job.explain()
    assert (failure is not None) == is_told
    if failure is not None:
        assert str(tmp_path) in failure.reason
        assert "--job-dir" in failure.next_step
    next(tmp_path.glob("*/*.job")).with_suffix(".log").touch()
    assert job.explain() is None


# --- a job of another cluster or server than commands ask by default ---


@pytest.mark.parametrize(
    "said", ["Submitted batch job 12 on cluster serial\n", "12;serial\n"], ids=["words", "parsable"]
)
def test_a_job_of_another_slurm_cluster_is_asked_about_and_ended_there(
    submitted, monkeypatch, said
):
    asked = []

    def query(words):
        asked.append(list(words))
        return CommandOutput(
            0, "CLUSTER: serial\nJobId=12 JobState=RUNNING NodeList=a TimeLimit=UNLIMITED"
        )

    monkeypatch.setattr(batch_commands, "run_query", query)
    job, commands = submitted(said=said, arguments=("--clusters=serial",))
    assert job.label == "Slurm job 12"
    assert job.look().state is JobState.RUNNING
    assert asked
    assert all(words[1:3] == ["-M", "serial"] for words in asked)
    job.cancel()
    assert commands.calls[-1][0] == ["scancel", "-M", "serial", "12"]


def test_a_pbs_job_keeps_its_server(submitted):
    job, commands = submitted("pbs", "12.server2\n", queue="gpu@server2")
    assert job.label == "PBS job 12"
    job.cancel()
    assert commands.calls[-1][0] == ["qdel", "12.server2"]


@pytest.mark.parametrize(("seen", "count"), [(FORGOTTEN, 1), (CANCELLED, 0)])
def test_a_job_that_its_scheduler_has_forgotten_is_cancelled_all_the_same(submitted, seen, count):
    job, commands = submitted(seen=seen)
    job.look()
    job.end()
    assert [words for words, _, _ in commands.calls].count(["scancel", "12"]) == count


@pytest.mark.parametrize(
    ("seen", "is_told"), [(JobSeen(JobState.UNKNOWN, "away"), True), (FORGOTTEN, False)]
)
def test_a_job_that_cannot_be_cancelled_is_told_with_what_ends_it(
    submitted, tmp_path, seen, is_told
):
    job, commands = submitted(seen=seen)
    commands.answer = CommandOutput(1, error="scancel: error: Unable to contact slurm controller")
    job.look()
    told = job.cancel()
    for fact in ("Slurm job 12", commands.answer.error, ": scancel 12"):
        assert fact in told
    assert job.end() == (told if is_told else "")
    assert list(tmp_path.iterdir()) == []


# --- what has to be there ---


@pytest.mark.parametrize("version", ["8.8.0", "10.0.1", None])
def test_another_ipyparallel_or_none_is_told(monkeypatch, version):
    def find(_name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(importlib.metadata, "version", find)
    with pytest.raises(UsageError) as caught:
        check_available("slurm")
    assert str(caught.value).startswith(f"ipyparallel {version or ''}")
    assert "pip install 'ipyparallel>=9,<10'" in str(caught.value)


@pytest.mark.parametrize(
    ("system", "is_within", "words"),
    [
        ("slurm", False, "sbatch .*Slurm"),
        ("slurm", True, "srun "),
        ("lsf", False, "bsub .*LSF"),
        ("pbs", True, "pbs_tmrsh "),
        ("mpi", False, "mpiexec "),
    ],
)
def test_a_missing_command_is_named(monkeypatch, system, is_within, words):
    monkeypatch.setattr(shutil, "which", lambda _name, **_where: None)
    with pytest.raises(UsageError, match=f"^{words}"):
        check_available(system, is_within=is_within)


def test_a_job_within_no_allocation_is_refused(answer, tmp_path, monkeypatch):
    answer(CommandOutput(0))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(UsageError, match=r" Slurm.* --launcher slurm"):
        submit(order(tmp_path, is_within=True))
