import pytest

from jupyter_dist.launch.batch.states.condor import CONDOR_FIELDS, read_condor
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ending

BY_TIME = (
    "The job attribute PeriodicRemove expression '(JobStatus == 1 && NumJobStarts > 0) || "
    "(JobStatus == 2 && (time() - EnteredCurrentStatus) > 60)' evaluated to TRUE"
)
BY_ADA = "via condor_rm (by user ada)"
BY_POLICY = "The job attribute PeriodicRemove expression 'MemoryUsage > 4000' evaluated to TRUE"


def row(status, **values):
    """One line of what condor_q says."""
    named = {"JobStatus": str(status), "NumJobStarts": "0", **values}
    assert set(named) <= set(CONDOR_FIELDS)
    return "\t".join(named.get(field, "undefined") for field in CONDOR_FIELDS)


def condor(*rows, limit_s=0.0):
    return read_condor("".join(f"{each}\n" for each in rows), limit_s)


RUNS = row(2, NumJobStarts="1", EnteredCurrentStatus="5000")
WAS_ON_B = {"NumJobStarts": "1", "LastRemoteHost": "slot1@nodeB"}


def test_a_job_waits_until_all_its_nodes_run():
    assert condor(row(1), row(1)).words == "PENDING: idle"
    assert condor(RUNS, row(1)) == JobSeen(JobState.PENDING, "PENDING: 1 of 2 idle")
    assert condor(RUNS, RUNS) == JobSeen(JobState.RUNNING, "RUNNING")


def test_a_job_ends_as_long_after_its_first_node_began_as_we_have_said():
    later = row(2, NumJobStarts="1", EnteredCurrentStatus="5060")
    assert condor(later, RUNS, limit_s=600.0).ends_at_s == 5600.0
    assert condor(later, RUNS).ends_at_s == 0


def test_a_job_that_is_held_before_it_ran_will_not_run():
    reason = "Error from slot1@nodeA: Failed to open '/shared/x.log' as standard output"
    found = condor(row(5, HoldReason=reason), RUNS)
    assert found == ended(JobCause.HELD, f"held: {reason}")


def test_one_node_that_is_held_is_not_the_end_of_the_others():
    held = row(5, HoldReason="no memory", **WAS_ON_B)
    found = condor(RUNS, held)
    assert found.text == "RUNNING; 1 of 2 held (no memory)"
    assert found.lost_nodes == ("nodeB",)
    assert condor(held, held).state is JobState.ENDED


def test_a_node_that_is_taken_away_is_lost_and_not_waited_for():
    evicted = row(1, LastJobStatus="2", **WAS_ON_B)
    found = condor(RUNS, evicted)
    assert (found.text, found.lost_nodes) == ("RUNNING; 1 of 2 PREEMPTED", ("nodeB",))
    assert condor(evicted, evicted) == ending(JobCause.PREEMPTED)


@pytest.mark.parametrize(
    ("reason", "before", "cause", "words"),
    [
        (BY_ADA, "2", JobCause.CANCELLED, f"CANCELLED ({BY_ADA})"),
        (BY_TIME, "2", JobCause.TIMEOUT, "TIMEOUT: PeriodicRemove"),
        (BY_TIME, "1", JobCause.PREEMPTED, "PREEMPTED: PeriodicRemove"),
        (BY_POLICY, "2", JobCause.CANCELLED, f"CANCELLED ({BY_POLICY})"),
        ("undefined", "2", JobCause.CANCELLED, ""),
    ],
)
def test_a_job_that_was_removed_says_why(reason, before, cause, words):
    found = condor(row(3, RemoveReason=reason, LastJobStatus=before, NumJobStarts="1"))
    assert found == ended(cause, words)


def test_a_job_that_has_ended_tells_its_exit_code():
    assert condor(row(4, ExitCode="0", NumJobStarts="1")).words == "COMPLETED"
    assert condor(row(4, ExitCode="3", NumJobStarts="1")).words == "FAILED (exit code 3)"


def test_no_rows_are_no_job():
    assert read_condor("") is None
