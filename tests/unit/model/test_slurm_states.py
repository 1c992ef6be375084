import pytest

from jupyter_dist.model.batch import JobSeen, JobState
from jupyter_dist.model.slurm_states import (
    SlurmJob,
    expand_nodes,
    judge,
    read_notice,
    read_sacct,
    read_scontrol,
    read_sinfo,
    read_time_s,
)

SHOWN = (
    "JobId=12 JobName={name} UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A Priority=4294901757 "
    "Nice=0 Account=(null) QOS=(null) JobState={state} Reason={reason} Dependency=(null) Requeue=0 "
    "Restarts=0 BatchFlag=1 Reboot=0 ExitCode={code} RunTime=00:00:00 TimeLimit={limit} "
    "TimeMin=N/A SubmitTime=1795349701 EligibleTime=1795349701 StartTime=1795349704 "
    "EndTime=1795353304 Deadline=N/A Partition=main AllocNode:Sid=login:25240 ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList={nodes} BatchHost=nodeA NumNodes=2 CPUs/Task=1 "
    "ReqB:S:C:T=0:0:*:* Command=(null) WorkDir=/home/ada StdOut=/dev/null Power= \n"
)


def shown(state, reason="None", code="0:0", limit="01:00:00", nodes="nodeA,nodeB", name="fit"):
    """What `scontrol --oneliner show job` of Slurm 22.05 says of a job."""
    return SHOWN.format(state=state, reason=reason, code=code, limit=limit, nodes=nodes, name=name)


def seen(text, **known):
    return judge(read_scontrol(text), **known)


def test_a_job_that_waits_says_for_what():
    waiting = seen(shown("PENDING", "Resources", nodes=""))
    assert waiting == JobSeen(JobState.PENDING, "PENDING: Resources")


def test_a_job_whose_reason_nobody_has_given_yet_just_waits():
    assert seen(shown("PENDING", nodes="")).words == "PENDING"


def test_a_job_that_runs_tells_when_it_ends():
    assert seen(shown("RUNNING")) == JobSeen(JobState.RUNNING, "RUNNING", ends_at_s=1795353304.0)


def test_a_job_without_a_time_limit_never_ends():
    assert seen(shown("RUNNING", limit="UNLIMITED")).ends_at_s == 0


def test_its_nodes_are_known():
    assert read_scontrol(shown("RUNNING", nodes="gpu[1-2]")).nodes == ("gpu1", "gpu2")


def test_a_name_that_looks_like_a_state_is_none():
    assert seen(shown("RUNNING", name="a JobState=FAILED x")).state is JobState.RUNNING


@pytest.mark.parametrize("state", ["CONFIGURING", "REQUEUED", "SPECIAL_EXIT", "POWER_UP_NODE"])
def test_a_job_that_is_not_on_its_nodes_yet_waits(state):
    assert seen(shown(state)).state is JobState.PENDING


@pytest.mark.parametrize("state", ["COMPLETING", "SUSPENDED", "STAGE_OUT"])
def test_a_job_that_holds_its_nodes_runs(state):
    assert seen(shown(state)).state is JobState.RUNNING


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (shown("COMPLETED"), "COMPLETED"),
        (shown("FAILED", "NonZeroExitCode", "3:0"), "FAILED (exit code 3)"),
        (shown("FAILED", "None", "0:9"), "FAILED (signal 9)"),
        (shown("TIMEOUT", "TimeLimit", "0:15"), "TIMEOUT"),
        (shown("CANCELLED", "None", "0:15"), "CANCELLED"),
        (shown("PREEMPTED"), "PREEMPTED"),
        (shown("NODE_FAIL", "NodeDown", "1:0"), "NODE_FAIL"),
        (shown("OUT_OF_MEMORY", "OutOfMemory", "0:125"), "OUT_OF_MEMORY"),
    ],
)
def test_a_job_that_has_ended_says_how(text, words):
    assert seen(text) == JobSeen(JobState.ENDED, words)


def test_what_scontrol_says_of_no_job_is_none():
    assert read_scontrol("") is None
    assert read_scontrol("slurm_load_jobs error: Invalid job id specified\n") is None


def test_accounting_knows_who_has_cancelled_a_job():
    job = read_sacct("CANCELLED by 1000|0:0\n")
    assert judge(job, name_user={"1000": "ada"}.get).words == "CANCELLED by ada"


def test_accounting_knows_how_a_job_has_failed():
    assert judge(read_sacct("FAILED|7:0\n")).words == "FAILED (exit code 7)"


def test_accounting_that_has_nothing_says_nothing():
    assert read_sacct("") is None
    assert read_sacct("Slurm accounting storage is disabled\n") is None


# --- nodes that are down ---


def test_a_node_that_is_down_is_lost_with_slurms_reason():
    down = read_sinfo("nodeA|mixed|none\nnodeB|down*|Not responding\n")
    assert down == {"nodeB": "Not responding"}
    found = seen(shown("RUNNING"), down=down)
    assert found.lost_nodes == ("nodeB",)
    assert found.words == "RUNNING; node nodeB is down (Not responding)"


def test_a_node_that_was_taken_from_a_job_is_lost():
    found = seen(shown("RUNNING", nodes="nodeA"), gone={"nodeB"})
    assert found.lost_nodes == ("nodeB",)
    assert found.words == "RUNNING; node nodeB is down"


def test_two_nodes_are_told_together():
    found = seen(shown("RUNNING"), down={"b": "", "a": "bad fan"})
    assert found.words == "RUNNING; nodes a, b are down (bad fan)"


@pytest.mark.parametrize("state", ["down", "down*", "DOWN+DRAIN", "fail", "powered_down", "error"])
def test_a_node_that_cannot_work_is_lost(state):
    assert read_sinfo(f"nodeA|{state}|none\n") == {"nodeA": ""}


@pytest.mark.parametrize(
    "state", ["idle", "allocated", "mixed", "draining", "drained", "idle*", "failing", "failing*"]
)
def test_a_node_that_is_in_use_or_may_answer_again_is_not_lost(state):
    assert read_sinfo(f"nodeA|{state}|none\n") == {}


# --- notices in the job's own output ---

TIMED_OUT = (
    "joined cluster fit as nodeA\n"
    "slurmstepd-nodeA: error: *** JOB 3 ON nodeA CANCELLED AT 2026-11-22T12:00:37 DUE TO TIME "
    "LIMIT ***\n"
)
CANCELLED = "slurmstepd: error: *** STEP 2.0 ON nodeA CANCELLED AT 2026-11-22T12:00:14 ***\n"


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (TIMED_OUT, "TIMEOUT"),
        (CANCELLED, "CANCELLED"),
        (CANCELLED.replace(" ***\n", " DUE TO PREEMPTION ***"), "PREEMPTED"),
        (
            CANCELLED.replace(" ***\n", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"),
            "NODE_FAIL",
        ),
        ("all is well", ""),
    ],
)
def test_a_notice_says_why_a_job_is_ended(output, word):
    assert read_notice(output) == word


def test_the_last_notice_counts():
    assert read_notice(CANCELLED + TIMED_OUT) == "TIMEOUT"


def test_a_job_that_is_being_ended_says_why_before_it_has_ended():
    assert seen(shown("COMPLETING"), notice="CANCELLED").words == "COMPLETING: CANCELLED"
    assert seen(shown("COMPLETING", "TimeLimit"), notice="").words == "COMPLETING: TIMEOUT"
    assert seen(shown("COMPLETING")).words == "COMPLETING"


def test_a_failure_that_has_a_cause_is_told_by_its_cause():
    found = seen(shown("FAILED", "NonZeroExitCode", "1:0"), notice="NODE_FAIL")
    assert found.words == "NODE_FAIL (FAILED (exit code 1))"


# --- names and times ---


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("nodeA", ("nodeA",)),
        ("nodeA,nodeB", ("nodeA", "nodeB")),
        ("gpu[08-10,12],login", ("gpu08", "gpu09", "gpu10", "gpu12", "login")),
        ("r[1-2]n[1,3].x", ("r1n1.x", "r1n3.x", "r2n1.x", "r2n3.x")),
    ],
)
def test_lists_of_nodes_are_written_out(text, names):
    assert expand_nodes(text) == names


def test_times_are_read_as_numbers_or_as_local_time():
    assert read_time_s("1795353304") == 1795353304
    later, earlier = read_time_s("2026-11-22T13:00:10"), read_time_s("2026-11-22T13:00:00")
    assert later - earlier == 10
    assert read_time_s("Unknown") == 0


def test_a_status_that_a_later_slurm_may_have_is_no_end():
    assert judge(SlurmJob("EVAPORATED")) == JobSeen(JobState.UNKNOWN, "EVAPORATED")
