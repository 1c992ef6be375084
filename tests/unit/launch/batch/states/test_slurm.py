import pytest

from jupyter_dist.launch.batch.states.slurm import (
    expand_nodes,
    judge,
    read_notice,
    read_sacct,
    read_scontrol,
    read_sinfo,
    read_time_s,
)
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ending

ENDS_AT_S = 1795353304.0
RUNS = JobSeen(JobState.RUNNING, "RUNNING", ENDS_AT_S)
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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (shown("PENDING", "Resources"), JobSeen(JobState.PENDING, "PENDING: Resources")),
        (shown("PENDING", nodes=""), JobSeen(JobState.PENDING, "PENDING")),
        (shown("RUNNING"), RUNS),
        (shown("RUNNING", limit="UNLIMITED"), JobSeen(JobState.RUNNING, "RUNNING")),
        (shown("RUNNING", name="a JobState=FAILED x"), RUNS),
        (shown("COMPLETED"), ended(JobCause.COMPLETED)),
        (shown("FAILED", "NonZeroExitCode", "3:0"), ended(JobCause.FAILED, "FAILED (exit code 3)")),
        (shown("FAILED", "None", "0:9"), ended(JobCause.FAILED, "FAILED (signal 9)")),
        (shown("TIMEOUT", "TimeLimit", "0:15"), ended(JobCause.TIMEOUT)),
        (shown("CANCELLED", "None", "0:15"), ended(JobCause.CANCELLED)),
        (shown("PREEMPTED"), ended(JobCause.PREEMPTED)),
        (shown("NODE_FAIL", "NodeDown", "1:0"), ended(JobCause.NODE_FAIL)),
        (shown("OUT_OF_MEMORY", "OutOfMemory", "0:125"), ended(JobCause.OUT_OF_MEMORY)),
        (shown("COMPLETING"), ending()),
        (shown("COMPLETING", "TimeLimit"), ending(JobCause.TIMEOUT)),
        (shown("EVAPORATED"), JobSeen(JobState.UNKNOWN, "EVAPORATED")),
    ],
)
def test_what_scontrol_shows_of_a_job_is_read_and_judged(text, found):
    assert seen(text) == found


@pytest.mark.parametrize(
    ("status", "state"),
    [
        *dict.fromkeys(("CONFIGURING", "REQUEUED", "SPECIAL_EXIT"), JobState.PENDING).items(),
        *dict.fromkeys(("SUSPENDED", "STAGE_OUT"), JobState.RUNNING).items(),
    ],
)
def test_a_job_waits_until_it_has_nodes_and_runs_while_it_has_them(status, state):
    assert seen(shown(status)).state is state


def test_its_nodes_are_known():
    assert read_scontrol(shown("RUNNING", nodes="gpu[1-2]")).nodes == ("gpu1", "gpu2")


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error: Invalid job id specified\n"])
def test_what_says_nothing_of_a_job_is_none(text):
    assert read_scontrol(text) is read_sacct(text) is None


def test_accounting_knows_who_has_cancelled_a_job_and_how_one_has_failed():
    job = read_sacct("CANCELLED by 1000|0:0\n")
    assert judge(job, name_user={"1000": "ada"}.get).words.endswith(" ada")
    assert judge(read_sacct("FAILED|7:0\n")).words == "FAILED (exit code 7)"


# --- nodes that are down ---


def test_a_node_that_is_down_is_told_with_slurms_reason():
    text = "nodeA|mixed|none\nnodeB|down*|Not responding\n"
    assert read_sinfo(text) == {"nodeB": "Not responding"}


@pytest.mark.parametrize(
    ("nodes", "known", "lost", "words"),
    [
        ("nodeA,nodeB", {"down": {"nodeB": "bad fan"}}, ("nodeB",), "node nodeB is down (bad fan)"),
        ("nodeA", {"gone": {"nodeB"}}, ("nodeB",), "node nodeB is down"),
        ("a,b", {"down": {"b": "", "a": "bad fan"}}, ("a", "b"), "nodes a, b are down (bad fan)"),
    ],
)
def test_a_node_that_is_down_or_was_taken_from_a_job_is_lost(nodes, known, lost, words):
    found = seen(shown("RUNNING", nodes=nodes), **known)
    assert (found.lost_nodes, found.text) == (lost, f"RUNNING; {words}")


LOST = ["down", "down*", "DOWN+DRAIN", "fail", "powered_down", "error"]
IN_USE = ["idle", "allocated", "mixed", "draining", "drained", "idle*", "failing", "failing*"]


@pytest.mark.parametrize("state", [*LOST, *IN_USE])
def test_a_node_that_cannot_work_is_lost_and_no_other(state):
    assert read_sinfo(f"nodeA|{state}|none\n") == ({"nodeA": ""} if state in LOST else {})


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
        ("all is well", None),
    ],
)
def test_a_notice_says_why_a_job_is_ended(output, word):
    assert read_notice(output) == word


def test_the_last_notice_counts():
    assert read_notice(CANCELLED + TIMED_OUT) == "TIMEOUT"


def test_a_job_that_is_being_ended_says_why_before_it_has_ended():
    assert seen(shown("COMPLETING"), notice=JobCause.CANCELLED).text == "COMPLETING: CANCELLED"


def test_a_failure_that_has_a_cause_is_told_by_its_cause():
    found = seen(shown("FAILED", "NonZeroExitCode", "1:0"), notice=JobCause.NODE_FAIL)
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
