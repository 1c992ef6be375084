import pytest

from jupyter_dist.launch.batch.batch_text import (
    describe_end,
    describe_job,
    describe_loss,
    describe_near_end,
    stage_of_end,
    waits_in_vain,
)
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ending

LABEL = "Slurm job 12"
NOW_S = 1_000_000.0


def running(remaining_s=0.0, **more):
    ends_at_s = NOW_S + remaining_s if remaining_s else 0.0
    return JobSeen(JobState.RUNNING, "RUNNING", ends_at_s, **more)


@pytest.mark.parametrize(
    ("cause", "words", "told"),
    [
        (JobCause.CANCELLED, "CANCELLED by root", "was cancelled (CANCELLED by root)"),
        (JobCause.TIMEOUT, "TERM_RUNLIMIT", "reached its time limit (TERM_RUNLIMIT)"),
        (JobCause.FAILED, "", "failed (FAILED)"),
        (JobCause.COMPLETED, "", "has ended (COMPLETED)"),
        (JobCause.OTHER, "", "has ended"),
    ],
)
def test_an_end_is_told_with_the_schedulers_own_words(cause, words, told):
    assert describe_end(LABEL, ended(cause, words)) == f"{LABEL} {told}"


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (None, ""),
        (running(), ""),
        (JobSeen(JobState.UNKNOWN, "squeue: timed out"), ""),
        (ended(JobCause.TIMEOUT), "Slurm job 12 reached its time limit (TIMEOUT)"),
        (ending(JobCause.TIMEOUT), "Slurm job 12 reached its time limit (TIMEOUT)"),
        (ending(), "Slurm job 12 is just being ended (COMPLETING)"),
        (
            JobSeen(JobState.PENDING, "PENDING: BeginTime"),
            "Slurm job 12 is waiting in the queue (PENDING: BeginTime)",
        ),
        (
            running(lost_nodes=("nodeB",), lost_words="node nodeB is down (Not responding)"),
            "Slurm job 12: node nodeB is down (Not responding)",
        ),
        (
            running(lost_nodes=("nodeA", "nodeB.cluster.example")),
            "Slurm job 12: node nodeB.cluster.example is down",
        ),
        (running(lost_nodes=("nodeA",)), ""),
    ],
)
def test_a_loss_has_a_reason_when_the_scheduler_knows_one(seen, told):
    assert describe_loss(LABEL, seen, "nodeB.cluster.example") == told


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (ended(JobCause.TIMEOUT), "Slurm job 12 reached its time limit (TIMEOUT)"),
        (ending(), "Slurm job 12 is just being ended (COMPLETING)"),
        (running(lost_nodes=("nodeB",)), ""),
        (JobSeen(JobState.PENDING, "PENDING: qw"), ""),
    ],
)
def test_of_a_rank_whose_host_lives_only_the_job_is_a_reason(seen, told):
    assert describe_loss(LABEL, seen, "") == told


@pytest.mark.parametrize(
    ("remaining_s", "told"),
    [
        (112 * 60 + 59, "ends in 1 h 52 min"),
        (3600.0, "ends in 1 h"),
        (49 * 3600 + 1800, "ends in 2 d 1 h"),
        (8 * 60, "ends in 8 min"),
        (119.0, "ends in 110 s"),
        (29.5, "ends in 29 s"),
    ],
)
def test_the_line_of_a_running_job_says_how_long_it_may_go_on(remaining_s, told):
    assert describe_job(LABEL, running(remaining_s), NOW_S) == f"{LABEL}, RUNNING, {told}"


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (None, LABEL),
        (running(), f"{LABEL}, RUNNING"),
        (running(lost_nodes=("b",), lost_words="b is down"), f"{LABEL}, RUNNING; b is down"),
        (ending(), f"{LABEL}, COMPLETING"),
        (ending(JobCause.TIMEOUT), f"{LABEL}, COMPLETING: TIMEOUT"),
        (JobSeen(JobState.PENDING, "PENDING: Resources"), f"{LABEL}, PENDING: Resources"),
        (JobSeen(JobState.UNKNOWN), f"{LABEL}, UNKNOWN"),
    ],
)
def test_any_other_job_is_told_in_its_schedulers_words(seen, told):
    assert describe_job(LABEL, seen, NOW_S) == told


@pytest.mark.parametrize(
    ("remaining_s", "stage", "told"),
    [
        (601.0, 0, ""),
        (600.0, 1, "Slurm ends this job in 10 min (time limit)"),
        (121.0, 1, "Slurm ends this job in 2 min (time limit)"),
        (120.0, 2, "Slurm ends this job in 2 min (time limit)"),
        (30.0, 3, "Slurm ends this job in 30 s (time limit)"),
        (-5.0, 3, "Slurm ends this job now (time limit)"),
    ],
)
def test_a_time_limit_that_nears_is_told_in_three_steps(remaining_s, stage, told):
    assert describe_near_end(LABEL, running(remaining_s), NOW_S) == told
    assert stage_of_end(running(remaining_s), NOW_S) == stage


@pytest.mark.parametrize("seen", [None, running(), JobSeen(JobState.PENDING, "", NOW_S + 1)])
def test_what_does_not_run_or_has_no_end_does_not_near_it(seen):
    assert describe_near_end(LABEL, seen, NOW_S) == ""
    assert stage_of_end(seen, NOW_S) == 0


@pytest.mark.parametrize(
    ("words", "is_vain"),
    [
        ("PENDING: PartitionNodeLimit", True),
        ("PENDING: BadConstraints", True),
        ("PENDING: InvalidAccount", True),
        ("PENDING: Resources", False),
        ("PENDING: Priority", False),
        ("PENDING: QOSMaxNodePerUserLimit", False),
    ],
)
def test_some_reasons_to_wait_do_not_pass(words, is_vain):
    assert waits_in_vain(JobSeen(JobState.PENDING, words)) == is_vain
