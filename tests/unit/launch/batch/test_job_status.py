"""Each batch system is asked with its own commands; here they are answered from a table."""

import pytest

from jupyter_dist.launch.batch import job_status as questions
from jupyter_dist.launch.batch.commands import CommandOutput
from jupyter_dist.launch.batch.job_status import (
    FORGOTTEN,
    SgeQuestion,
    SlurmQuestion,
    ask_condor,
    ask_lsf,
    ask_pbs,
)
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ending

INVALID = CommandOutput(1, error="slurm_load_jobs error: Invalid job id specified")
DISABLED = CommandOutput(1, error="Slurm accounting storage is disabled")
NOTICE = "slurmstepd: error: *** JOB 12 ON nodeA CANCELLED AT 2026-11-22T12:00:37 DUE TO TIME LIMIT"


class Scheduler:
    """Answers commands by how they begin, and notes which ones were given."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def __call__(self, words):
        self.asked.append(" ".join(words))
        answer = self.answers[words[0]]
        if isinstance(answer, dict):
            answer = answer[words[1]]
        return answer if isinstance(answer, CommandOutput) else CommandOutput(0, answer)


def job(state, nodes="nodeA,nodeB"):
    return (
        f"JobId=12 JobName=fit JobState={state} Reason=None ExitCode=0:15 "
        f"TimeLimit=UNLIMITED EndTime=Unknown NodeList={nodes}\n"
    )


def slurm(output="", **answers):
    scheduler = Scheduler(**{"sacct": DISABLED, "sinfo": "", **answers})
    return SlurmQuestion("12", lambda: output, scheduler), scheduler


def test_slurm_is_asked_about_the_job_and_then_about_its_nodes():
    question, scheduler = slurm(scontrol=job("RUNNING"))
    assert question.ask() == JobSeen(JobState.RUNNING, "RUNNING")
    first, second = scheduler.asked
    assert first.split() == ["scontrol", "--oneliner", "show", "job", "12"]
    assert second.startswith("sinfo --noheader --Node --nodes=nodeA,nodeB ")


def test_a_node_that_slurm_has_taken_from_the_job_is_remembered():
    question, scheduler = slurm(scontrol=job("RUNNING"))
    question.ask()
    scheduler.answers |= {
        "scontrol": job("RUNNING", "nodeA"),
        "sinfo": "nodeB|down*|Not responding",
    }
    assert question.ask().lost_nodes == ("nodeB",)
    assert "--nodes=nodeA,nodeB" in scheduler.asked[-1]


def test_accounting_says_who_has_cancelled_a_job(monkeypatch):
    monkeypatch.setattr(questions, "_name_user", {"1000": "ada"}.get)
    question, _ = slurm(scontrol=job("CANCELLED"), sacct="CANCELLED by 1000|0:0\n")
    assert question.ask().words.endswith(" ada")


@pytest.mark.parametrize(
    ("output", "answers", "seen"),
    [
        ("", {"scontrol": job("CANCELLED")}, ended(JobCause.CANCELLED)),
        ("", {"scontrol": job("CANCELLED"), "sacct": "RUNNING|0:0\n"}, ended(JobCause.CANCELLED)),
        (NOTICE, {"scontrol": job("COMPLETING")}, ending(JobCause.TIMEOUT)),
        ("", {"scontrol": INVALID, "sacct": "TIMEOUT|0:0\n"}, ended(JobCause.TIMEOUT)),
        (NOTICE, {"scontrol": INVALID}, ended(JobCause.TIMEOUT)),
        ("", {"scontrol": INVALID}, FORGOTTEN),
    ],
    ids=[
        *("no accounting", "accounting that lags behind", "a job that is ended says why"),
        *("accounting of a forgotten job", "output of a forgotten job", "nothing is known"),
    ],
)
def test_the_end_of_a_slurm_job_is_looked_up_where_it_may_be_known(output, answers, seen):
    question, _ = slurm(output, **answers)
    assert question.ask() == seen


def test_a_slurm_that_does_not_answer_leaves_a_job_unknown():
    words = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    question, scheduler = slurm(scontrol=CommandOutput(1, error=words))
    assert question.ask() == JobSeen(JobState.UNKNOWN, words)
    assert len(scheduler.asked) == 1, "another question would only take longer"


ASK = {
    "pbs": lambda run: ask_pbs("7", run),
    "sge": lambda run: SgeQuestion("5", run).ask(),
    "lsf": lambda run: ask_lsf("3", run, now_s=lambda: 1000.0),
    "htcondor": lambda run: ask_condor("9", run),
}
FINISHED = CommandOutput(35, error="qstat: 7.pbs01 Job has finished, use -x or -H to obtain it")
UNKNOWN = CommandOutput(153, error="qstat: Unknown Job Id Error 7.pbs01")
PAST = "Job Id: 7.pbs01\n    job_state = F\n    Exit_status = 0\n"
ROW = "      5 0.5 fit ada {state} 11/22/2026 10:00:00 all.q@nodeA 1 1\n"
NO_USER = {"-u": ROW.format(state="Eqw"), "-j": "error reason  1:  no such user\n"}
GOOD = "=====\nfailed       0\nexit_status  0\n"
DONE, RUNS = ended(JobCause.COMPLETED), JobSeen(JobState.RUNNING, "RUNNING")
NOT_FOUND = CommandOutput(255, error="Job <3> is not found")
HISTORY = "4\t2\t5000\t1\t0\tundefined\tundefined\tslot1@nodeA\n"


@pytest.mark.parametrize(
    ("system", "answers", "seen"),
    [
        ("pbs", {"qstat": {"-f": FINISHED, "-x": PAST}}, DONE),
        ("pbs", {"qstat": {"-f": "Job Id: 7.pbs01\n    job_state = R\n"}}, RUNS),
        ("pbs", {"qstat": {"-f": UNKNOWN, "-x": "<Data></Data>"}}, FORGOTTEN),
        ("sge", {"qstat": NO_USER}, ended(JobCause.ERROR, "Eqw: no such user")),
        ("sge", {"qstat": "", "qacct": GOOD}, DONE),
        ("sge", {"qstat": "", "qacct": CommandOutput(1)}, FORGOTTEN),
        ("lsf", {"bjobs": "RUN|-|-|0:10 L|-\n"}, JobSeen(JobState.RUNNING, "RUNNING", 1600.0)),
        ("lsf", {"bjobs": NOT_FOUND}, FORGOTTEN),
        ("htcondor", {"condor_q": "", "condor_history": HISTORY}, DONE),
        ("htcondor", {"condor_q": "", "condor_history": ""}, FORGOTTEN),
    ],
)
def test_a_job_is_asked_about_where_it_is_and_then_where_it_was(system, answers, seen):
    assert ASK[system](Scheduler(**answers)) == seen


def test_grid_engine_is_asked_only_about_jobs_of_who_asks(monkeypatch):
    monkeypatch.setattr(questions, "_name_user", lambda _number: "ada")
    scheduler = Scheduler(qstat=ROW.format(state="r"))
    seen = SgeQuestion("5", scheduler, limit_s=60.0).ask()
    assert scheduler.asked == ["qstat -u ada"]
    assert seen.state is JobState.RUNNING
    assert seen.ends_at_s > 60


def test_a_job_of_grid_engine_that_was_seen_being_deleted_is_cancelled():
    scheduler = Scheduler(qstat=ROW.format(state="dr"), qacct=CommandOutput(1))
    question = SgeQuestion("5", scheduler)
    assert question.ask() == ending(JobCause.CANCELLED, "deleted")
    scheduler.answers["qstat"] = ""
    assert question.ask() == ended(JobCause.CANCELLED)


def test_lsf_is_asked_about_ended_jobs_too():
    scheduler = Scheduler(bjobs=NOT_FOUND)
    ASK["lsf"](scheduler)
    assert scheduler.asked[0].startswith("bjobs -a ")


@pytest.mark.parametrize(
    ("system", "program"),
    [("sge", "qstat"), ("pbs", "qstat"), ("lsf", "bjobs"), ("htcondor", "condor_q")],
)
def test_a_scheduler_that_is_away_leaves_a_job_unknown(system, program):
    error = f"Connection refused\n{program}: cannot connect"
    run = Scheduler(**{program: CommandOutput(111, error=error)})
    assert ASK[system](run) == JobSeen(JobState.UNKNOWN, error.replace("\n", "; "))
