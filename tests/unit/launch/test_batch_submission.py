"""From an order to a submitted script, with ipyparallel's launchers; no command is run."""

import importlib.metadata
import shutil
from pathlib import Path

import pytest

from jupyter_dist.errors import StartFailed, UsageError
from jupyter_dist.launch.batch import commands as batch_commands
from jupyter_dist.launch.batch import launchers, submitted
from jupyter_dist.launch.batch.commands import Said
from jupyter_dist.launch.batch.files import make_job_dir
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.batch.questions import FORGOTTEN, SlurmQuestion
from jupyter_dist.launch.batch.submission import check_available, submit
from jupyter_dist.model.batch import BatchSpec, JobSeen, JobState

ACCEPTED = {
    "slurm": "Submitted batch job 12\n",
    "pbs": "12.pbs01\n",
    "sge": 'Your job-array 12.1-2:1 ("jupyter-dist-fit") has been submitted\n',
    "lsf": "Job <12> is submitted to default queue <normal>.\n",
    "htcondor": "Submitting job(s)..\n2 job(s) submitted to cluster 12.\n",
}
FAILED = JobSeen(JobState.ENDED, "FAILED (signal 53)")
CANCELLED = JobSeen(JobState.ENDED, "CANCELLED")
TITLES = {"slurm": "Slurm", "pbs": "PBS", "sge": "SGE", "lsf": "LSF", "htcondor": "HTCondor"}


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
        monkeypatch.setattr(submitted, "run_command", commands)
        return commands

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


@pytest.mark.parametrize("system", sorted(ACCEPTED))
def test_a_job_has_the_number_that_its_scheduler_gives(answer, tmp_path, system):
    answer(Said(0, ACCEPTED[system]))
    assert submit(order(tmp_path, system)).label == f"{TITLES[system]} job 12"


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
def test_its_script_runs_one_agent_on_each_node(answer, tmp_path, system, parts):
    commands = answer(Said(0, ACCEPTED[system]))
    submit(order(tmp_path, system))
    ((_, _, script),) = commands.calls
    for part in parts:
        assert part in script
    (agent,) = tmp_path.glob("*/*.agent.sh")
    assert str(agent) in script
    assert "jupyter_dist.agent" in agent.read_text()


def test_no_script_can_be_read_by_others(answer, tmp_path):
    answer(Said(0, ACCEPTED["slurm"]))
    submit(order(tmp_path))
    (own_dir,) = tmp_path.iterdir()
    assert own_dir.stat().st_mode & 0o777 == 0o700


def test_lsf_reads_the_script_on_stdin(answer, tmp_path):
    commands = answer(Said(0, ACCEPTED["lsf"]))
    submit(order(tmp_path, "lsf"))
    ((words, environ, script),) = commands.calls
    assert words[0] == "bsub"
    assert not any(word.endswith(".job") for word in words)
    assert script.startswith("#!/bin/sh\n#BSUB")
    assert environ["LSB_STDOUT_DIRECT"] == "Y"


def test_a_job_that_is_submitted_from_within_another_of_lsf_writes_while_it_runs_too(
    answer, tmp_path, monkeypatch
):
    monkeypatch.setenv("LSB_JOBID", "3")
    commands = answer(Said(0, ACCEPTED["lsf"]))
    submit(order(tmp_path, "lsf"))
    ((_, environ, _),) = commands.calls
    assert "LSB_JOBID" not in environ
    assert environ["LSB_STDOUT_DIRECT"] == "Y"


def test_a_template_that_needs_what_was_not_asked_for_is_refused(answer, tmp_path):
    commands = answer(Said(0, ACCEPTED["slurm"]))
    with pytest.raises(UsageError, match=r"line 1: .* cannot be filled in"):
        submit(order(tmp_path, slots=0, template="#SBATCH -n {nodes // slots}\nsrun {agent}"))
    assert commands.calls == []
    assert list(tmp_path.iterdir()) == []


def test_a_users_template_is_filled_in(answer, tmp_path):
    commands = answer(Said(0, ACCEPTED["slurm"]))
    template = "#!/bin/bash\n#SBATCH -N {n} -J {cluster_id}\nsrun {program_and_args} # ${{HOME}}\n"
    submit(order(tmp_path, template=template, queue="gpu"))
    ((words, _, script),) = commands.calls
    (agent,) = tmp_path.glob("*/*.agent.sh")
    assert script == f"#!/bin/bash\n#SBATCH -N 2 -J fit\nsrun sh {agent} # ${{HOME}}\n"
    assert "--partition=gpu" in words


def test_programs_name_and_arguments_may_stand_apart(answer, tmp_path):
    commands = answer(Said(0, ACCEPTED["htcondor"]))
    submit(order(tmp_path, "htcondor", template="executable = {program}\narguments={program_args}"))
    (agent,) = tmp_path.glob("*/*.agent.sh")
    assert commands.calls[0][2] == f"executable = sh\narguments={agent}"


def test_a_template_that_cannot_be_filled_in_is_refused_before_anything_is_written(
    answer, tmp_path
):
    commands = answer(Said(0, ACCEPTED["slurm"]))
    with pytest.raises(UsageError, match=r"has no field [{]agent[}]"):
        submit(order(tmp_path, template="srun python"))
    assert commands.calls == []
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_is_not_taken_is_told_in_the_schedulers_words_and_leaves_nothing(
    answer, tmp_path
):
    answer(Said(1, error="sbatch: error: Batch job submission failed: Invalid account"))
    with pytest.raises(StartFailed) as caught:
        submit(order(tmp_path))
    assert str(caught.value).startswith(
        "Slurm has not taken the job; sbatch said: sbatch: error: Batch job submission failed: "
        "Invalid account. See with --account"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_answer_without_a_number_is_no_job(answer, tmp_path):
    answer(Said(0, "come back later\n"))
    with pytest.raises(StartFailed, match="come back later"):
        submit(order(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_grid_engine_takes_with_a_warning_is_taken(answer, tmp_path):
    said = """Unable to run job: warning: root's job is not allowed to run in any queue
Your job-array 12.1-2:1 ("jupyter-dist-fit") has been submitted
Exiting."""
    answer(Said(1, error=said))
    assert submit(order(tmp_path, "sge")).label == "SGE job 12"


def test_the_end_of_a_job_leaves_no_files_and_no_job(answer, tmp_path):
    commands = answer(Said(0, ACCEPTED["slurm"]))
    job = submit(order(tmp_path))
    log = next(tmp_path.glob("*/*.job")).with_suffix(".log")
    log.write_text("ModuleNotFoundError: No module named 'jupyter_dist'\n")
    failure = job.explain()
    assert failure is not None
    assert "has no jupyter-dist" in failure.reason
    assert job.last_lines() == "ModuleNotFoundError: No module named 'jupyter_dist'"
    job.end()
    assert commands.calls[-1][0] == ["scancel", "12"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("seen", "is_told"), [(FAILED, True), (CANCELLED, False)])
def test_a_job_that_has_failed_and_written_nothing_ran_where_nobody_sees_its_directory(
    answer, tmp_path, monkeypatch, seen, is_told
):
    answer(Said(0, ACCEPTED["slurm"]))
    job = submit(order(tmp_path))
    monkeypatch.setattr(SlurmQuestion, "ask", lambda _self: seen)
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
    answer, tmp_path, monkeypatch, said
):
    commands = answer(Said(0, said))
    asked = []

    def query(words):
        asked.append(list(words))
        return Said(0, "CLUSTER: serial\nJobId=12 JobState=RUNNING NodeList=a TimeLimit=UNLIMITED")

    monkeypatch.setattr(batch_commands, "run_query", query)
    job = submit(order(tmp_path, arguments=("--clusters=serial",)))
    assert job.label == "Slurm job 12"
    assert job.look().state is JobState.RUNNING
    assert asked
    assert all(words[1:3] == ["-M", "serial"] for words in asked)
    job.cancel()
    assert commands.calls[-1][0] == ["scancel", "-M", "serial", "12"]


def test_a_pbs_job_keeps_its_server(answer, tmp_path):
    commands = answer(Said(0, "12.server2\n"))
    job = submit(order(tmp_path, "pbs", queue="gpu@server2"))
    assert job.label == "PBS job 12"
    job.cancel()
    assert commands.calls[-1][0] == ["qdel", "12.server2"]


@pytest.mark.parametrize(("seen", "count"), [(FORGOTTEN, 1), (CANCELLED, 0)])
def test_a_job_that_its_scheduler_has_forgotten_is_cancelled_all_the_same(
    answer, tmp_path, monkeypatch, seen, count
):
    commands = answer(Said(0, ACCEPTED["slurm"]))
    monkeypatch.setattr(SlurmQuestion, "ask", lambda _self: seen)
    job = submit(order(tmp_path))
    job.look()
    job.end()
    assert [words for words, _, _ in commands.calls].count(["scancel", "12"]) == count


@pytest.mark.parametrize(
    ("seen", "is_told"), [(JobSeen(JobState.UNKNOWN, "away"), True), (FORGOTTEN, False)]
)
def test_a_job_that_cannot_be_cancelled_is_told_with_what_ends_it(
    answer, tmp_path, monkeypatch, seen, is_told
):
    commands = answer(Said(0, ACCEPTED["slurm"]))
    job = submit(order(tmp_path))
    commands.answer = Said(1, error="scancel: error: Unable to contact slurm controller")
    monkeypatch.setattr(SlurmQuestion, "ask", lambda _self: seen)
    job.look()
    told = (
        "Slurm job 12 could not be cancelled (scancel: error: Unable to contact slurm controller). "
        "End it with: scancel 12"
    )
    assert job.cancel() == told
    assert job.end() == (told if is_told else "")
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_that_was_too_slow_to_say_so_may_have_taken_the_job(answer, tmp_path):
    answer(Said(124, error="sbatch has not answered within 60 s"))
    with pytest.raises(StartFailed) as caught:
        submit(order(tmp_path))
    assert "does not say whether it has taken the job" in str(caught.value)
    assert "'jupyter-dist-fit'" in str(caught.value)


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
    what = f"{version} is not the one that is known here" if version else "is not installed"
    assert str(caught.value).startswith(f"ipyparallel {what}; ")
    assert "pip install 'ipyparallel>=9,<10'" in str(caught.value)


@pytest.mark.parametrize(
    ("system", "is_within", "words"),
    [
        ("slurm", False, "sbatch is not on PATH of this machine, so Slurm cannot be asked."),
        ("slurm", True, "srun is not on PATH of this machine"),
        ("lsf", False, "bsub is not on PATH"),
        ("pbs", True, "pbs_tmrsh is not on PATH"),
        ("mpi", False, "mpiexec is not on PATH of this machine, nor in"),
    ],
)
def test_a_missing_command_is_named(monkeypatch, system, is_within, words):
    monkeypatch.setattr(shutil, "which", lambda _name, **_where: None)
    with pytest.raises(UsageError) as caught:
        check_available(system, is_within=is_within)
    assert words in str(caught.value)


def test_a_job_within_no_allocation_is_refused(answer, tmp_path, monkeypatch):
    answer(Said(0))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(UsageError, match="in no allocation of Slurm"):
        submit(order(tmp_path, is_within=True))
