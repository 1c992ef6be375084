"""Each batch system is asked with its own commands; here they are answered from a table."""

import pytest

from jupyter_dist.launch.batch import questions
from jupyter_dist.launch.batch.commands import Said
from jupyter_dist.launch.batch.questions import (
    FORGOTTEN,
    CondorQuestion,
    LsfQuestion,
    PbsQuestion,
    SgeQuestion,
    SlurmQuestion,
)
from jupyter_dist.model.batch import JobSeen, JobState

INVALID = Said(1, error="slurm_load_jobs error: Invalid job id specified")
DISABLED = Said(1, error="Slurm accounting storage is disabled")
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
        return answer if isinstance(answer, Said) else Said(0, answer)


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
    assert first == "scontrol --oneliner show job 12"
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
    assert question.ask().words == "CANCELLED by ada"


def test_without_accounting_a_cancelled_job_is_just_cancelled():
    question, _ = slurm(scontrol=job("CANCELLED"))
    assert question.ask() == JobSeen(JobState.ENDED, "CANCELLED")


def test_accounting_that_lags_behind_is_not_believed():
    question, _ = slurm(scontrol=job("CANCELLED"), sacct="RUNNING|0:0\n")
    assert question.ask() == JobSeen(JobState.ENDED, "CANCELLED")


def test_a_job_that_is_being_ended_says_why_from_its_output():
    question, _ = slurm(NOTICE, scontrol=job("COMPLETING"))
    assert question.ask() == JobSeen(JobState.RUNNING, "COMPLETING: TIMEOUT")


def test_a_job_that_slurm_has_forgotten_is_looked_up_in_accounting():
    question, _ = slurm(scontrol=INVALID, sacct="TIMEOUT|0:0\n")
    assert question.ask() == JobSeen(JobState.ENDED, "TIMEOUT")


def test_and_then_in_its_output():
    question, _ = slurm(NOTICE, scontrol=INVALID)
    assert question.ask() == JobSeen(JobState.ENDED, "TIMEOUT")
    question, _ = slurm(scontrol=INVALID)
    assert question.ask() == FORGOTTEN


def test_a_slurm_that_does_not_answer_leaves_a_job_unknown():
    words = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    question, scheduler = slurm(scontrol=Said(1, error=words))
    assert question.ask() == JobSeen(JobState.UNKNOWN, words)
    assert len(scheduler.asked) == 1, "another question would only take longer"


def test_pbs_is_asked_about_finished_jobs_only_when_it_has_finished():
    finished = Said(35, error="qstat: 7.pbs01 Job has finished, use -x or -H to obtain it")
    past = "Job Id: 7.pbs01\n    job_state = F\n    Exit_status = 0\n"
    scheduler = Scheduler(qstat={"-f": finished, "-x": past})
    assert PbsQuestion("7", scheduler).ask() == JobSeen(JobState.ENDED, "COMPLETED")
    scheduler = Scheduler(qstat={"-f": "Job Id: 7.pbs01\n    job_state = R\n"})
    assert PbsQuestion("7", scheduler).ask() == JobSeen(JobState.RUNNING, "RUNNING")


def test_torque_has_forgotten_what_pbs_remembers():
    unknown = Said(153, error="qstat: Unknown Job Id Error 7.pbs01")
    scheduler = Scheduler(qstat={"-f": unknown, "-x": "<Data></Data>"})
    assert PbsQuestion("7", scheduler).ask() == FORGOTTEN


def test_a_pbs_that_does_not_answer_leaves_a_job_unknown():
    scheduler = Scheduler(qstat=Said(111, error="Connection refused\nqstat: cannot connect"))
    found = PbsQuestion("7", scheduler).ask()
    assert found == JobSeen(JobState.UNKNOWN, "Connection refused; qstat: cannot connect")


ROW = "      5 0.5 fit ada {state} 11/22/2026 10:00:00 all.q@nodeA 1 1\n"


def test_grid_engine_is_asked_why_a_job_cannot_start():
    answers = {"-u": ROW.format(state="Eqw"), "-j": "error reason  1:  no such user\n"}
    found = SgeQuestion("5", Scheduler(qstat=answers)).ask()
    assert found == JobSeen(JobState.ENDED, "Eqw: no such user")


def test_grid_engine_is_asked_only_about_jobs_of_who_asks(monkeypatch):
    monkeypatch.setattr(questions, "_name_user", lambda _number: "ada")
    scheduler = Scheduler(qstat=ROW.format(state="r"))
    seen = SgeQuestion("5", scheduler, limit_s=60.0).ask()
    assert scheduler.asked == ["qstat -u ada"]
    assert seen.state is JobState.RUNNING
    assert seen.ends_at_s > 60


def test_grid_engines_accounting_knows_jobs_that_are_gone():
    past = "=====\nfailed       0\nexit_status  0\n"
    assert SgeQuestion("5", Scheduler(qstat="", qacct=past)).ask().words == "COMPLETED"
    assert SgeQuestion("5", Scheduler(qstat="", qacct=Said(1))).ask() == FORGOTTEN


def test_a_job_of_grid_engine_that_was_seen_being_deleted_is_cancelled():
    scheduler = Scheduler(qstat=ROW.format(state="dr"), qacct=Said(1))
    question = SgeQuestion("5", scheduler)
    assert question.ask() == JobSeen(JobState.RUNNING, "COMPLETING: deleted")
    scheduler.answers["qstat"] = ""
    assert question.ask() == JobSeen(JobState.ENDED, "CANCELLED")


def test_lsf_is_asked_about_ended_jobs_too():
    scheduler = Scheduler(bjobs="RUN|-|-|0:10 L|-\n")
    found = LsfQuestion("3", lambda: 1000.0, scheduler).ask()
    assert found == JobSeen(JobState.RUNNING, "RUNNING", 1600.0)
    assert scheduler.asked[0].startswith("bjobs -a ")
    forgotten = Scheduler(bjobs=Said(255, error="Job <3> is not found"))
    assert LsfQuestion("3", lambda: 0.0, forgotten).ask() == FORGOTTEN


def test_htcondors_history_knows_jobs_that_are_gone():
    past = "4\t2\t5000\t1\t0\tundefined\tundefined\tslot1@nodeA\n"
    scheduler = Scheduler(condor_q="", condor_history=past)
    assert CondorQuestion("9", scheduler).ask() == JobSeen(JobState.ENDED, "COMPLETED")
    assert CondorQuestion("9", Scheduler(condor_q="", condor_history="")).ask() == FORGOTTEN


@pytest.mark.parametrize(
    ("question", "program"),
    [
        (lambda run: SgeQuestion("1", run), "qstat"),
        (lambda run: LsfQuestion("1", lambda: 0.0, run), "bjobs"),
        (lambda run: CondorQuestion("1", run), "condor_q"),
    ],
)
def test_a_scheduler_that_is_away_leaves_a_job_unknown(question, program):
    run = Scheduler(**{program: Said(127, error=f"{program} cannot be run: No such file")})
    assert question(run).ask() == JobSeen(
        JobState.UNKNOWN, f"{program} cannot be run: No such file"
    )
