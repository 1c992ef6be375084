import time

import pytest

from jupyter_dist.launch.batch.states.pbs_sge_lsf import (
    read_bjobs,
    read_qacct,
    read_qstat_full,
    read_qstat_list,
    read_qstat_reason,
)
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ending


def waits(why):
    return JobSeen(JobState.PENDING, f"PENDING: {why}")


def runs(ends_at_s=0.0, words="RUNNING"):
    return JobSeen(JobState.RUNNING, words, ends_at_s)


# --- PBS ---

PBS = """\
Job Id: 12.pbs01
    Job_Name = jupyter-dist-fit
    Job_Owner = ada@login1
{lines}
    queue = workq
    Error_Path = login1:/home/ada/jupyter-dist-fit-0a1b2c.log
    Resource_List.nodect = 2
    Resource_List.place = scatter
    Resource_List.select = 2:ncpus=8:mpiprocs=1
    Variable_List = PBS_O_HOME=/home/ada,PBS_O_LANG=C.UTF-8,
\tPBS_O_PATH=/usr/local/bin:/usr/bin:/bin,job_state = X,PBS_O_HOST=login1

"""


def pbs(*lines):
    return read_qstat_full(PBS.format(lines="\n".join(f"    {line}" for line in lines)))


NOON_S = time.mktime(time.strptime("2026-11-22 12:00:00", "%Y-%m-%d %H:%M:%S"))
BEGAN = "Sun Nov 22 12:00:00 2026"
LIMIT = "Resource_List.walltime"
NO_CORES = "Not Running: Insufficient amount of resource: ncpus (R: 16 A: 8{}T: 32)"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["job_state = Q", f"comment = {NO_CORES}".format("\n\t ")], waits(NO_CORES.format(" "))),
        (["job_state = Q"], waits("queued")),
        (["job_state = H"], waits("held")),
        (["job_state = R", f"stime = {BEGAN}"], runs()),
        (["job_state = R", f"stime = {BEGAN}", f"{LIMIT} = 01:30:00"], runs(NOON_S + 5400)),
        (["job_state = R", f"start_time = {BEGAN}", f"{LIMIT} = 30:00"], runs(NOON_S + 1800)),
        (["job_state = E"], ending()),
        (["job_state = F", "Exit_status = 0"], ended(JobCause.COMPLETED)),
        (["job_state = F", "Exit_status = 2"], ended(JobCause.FAILED, "FAILED (exit code 2)")),
        (["job_state = C", "exit_status = 271"], ended(JobCause.OTHER, "ended by signal 15")),
        (["job_state = F", "Exit_status = -29"], ended(JobCause.TIMEOUT, "TIMEOUT: walltime")),
        (["job_state = F", "Exit_status = -27"], ended(JobCause.OUT_OF_MEMORY)),
        (
            ["job_state = F", "comment = Job run at noon and terminated", "Exit_status = 271"],
            ended(JobCause.CANCELLED),
        ),
        (["job_state = F", "comment = Job deleted"], ended(JobCause.CANCELLED)),
    ],
)
def test_a_pbs_job_is_read_and_judged(lines, found):
    assert pbs(*lines) == found


@pytest.mark.parametrize("text", ["", "<Data><Job><job_state>C</job_state></Job></Data>"])
def test_what_is_no_pbs_job_is_none(text):
    assert read_qstat_full(text) is None


# --- Grid Engine ---

SGE = """\
job-ID  prior   name       user  state submit/start at     queue               slots ja-task-ID
-----------------------------------------------------------------------------------------------
      4 0.55500 other      bob   Eqw   11/22/2026 10:00:00                         1
"""
ON_NODE = "      5 0.55500 jupyter-di ada   {} 11/22/2026 10:00:05 all.q@node{}            1 {}\n"
WAITS, RUNS = waits("qw"), runs()
IN_QUEUE = "      5 0.55500 jupyter-di ada   qw    11/22/2026 10:00:00                    1 1-2:1\n"


def on_a(state):
    return ON_NODE.format(state, "A", 1)


def on_b(state):
    return ON_NODE.format(state, "B", 2)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (IN_QUEUE, WAITS),
        (on_a("r") + IN_QUEUE, WAITS),
        (on_a("t"), waits("in transit")),
        (on_a("r") + on_b("t"), RUNS),
        (IN_QUEUE.replace("jupyter-di", "my E work"), WAITS),
        (on_a("r").replace("jupyter-di ada", "d E work dEw"), RUNS),
        (on_a("dr"), ending(JobCause.CANCELLED, "deleted")),
        (
            IN_QUEUE.replace("qw ", "Eqw"),
            ended(JobCause.ERROR, "Eqw: its start went wrong on a node"),
        ),
        ("", None),
    ],
)
def test_the_tasks_of_a_grid_engine_job_are_judged_together(lines, found):
    assert read_qstat_list(SGE + lines, "5") == found


def test_a_grid_engine_job_ends_as_long_after_its_first_task_began_as_we_have_said():
    lines = on_a("r") + on_b("r").replace("10:00:05", "10:20:00")
    began_s = time.mktime(time.strptime("2026-11-22 10:00:05", "%Y-%m-%d %H:%M:%S"))
    assert read_qstat_list(SGE + lines, "5", 3600.0).ends_at_s == began_s + 3600
    newer = lines.replace("11/22/2026", "2026-11-22")
    assert read_qstat_list(SGE + newer, "5", 3600.0).ends_at_s == began_s + 3600
    assert read_qstat_list(SGE + lines, "5").ends_at_s == 0


def test_grid_engine_says_what_went_wrong_at_the_start():
    reason = 'can\'t get password entry for user "ada"'
    assert read_qstat_reason(f"error reason    1:          {reason}.\nversion: 8\n") == reason
    assert read_qstat_reason("version: 8\n") == ""


QACCT = """\
==============================================================
qname        all.q
hostname     {host}
jobnumber    5
taskid       {task}
failed       {failed}
exit_status  {status}
maxvmem      1.0G
{more}"""


def qacct(*tasks, limit_s=0.0):
    """Read what accounting keeps of tasks, each given as what failed, exit status and more."""
    texts = [
        QACCT.format(host=f"node{n}", task=n, failed=failed, status=status, more=more)
        for n, (failed, status, more) in enumerate(tasks, 1)
    ]
    return read_qacct("".join(texts), limit_s)


GOOD, KILLED = ("0", "0", ""), ("100 : assumedly after job", "137", "")
OVER = "37 : qmaster enforced h_rt, h_cpu or h_vmem limit"


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([GOOD, GOOD], "COMPLETED"),
        ([GOOD, ("0", "1", "")], "FAILED (exit code 1)"),
        ([KILLED, GOOD], "FAILED (100 : assumedly after job, exit status 137)"),
        ([(*KILLED[:2], "deleted_by   ada\n")], "CANCELLED by ada"),
        ([(OVER.replace(" :", "  :"), "137", "")], f"TIMEOUT ({OVER})"),
    ],
)
def test_the_worst_task_of_a_grid_engine_job_says_how_it_has_ended(tasks, words):
    found = qacct(*tasks)
    assert (found.state, found.words) == (JobState.ENDED, words)
    assert words.startswith(found.cause)


@pytest.mark.parametrize(
    ("ran", "limit_s", "cause"),
    [
        ("61.2", 60.0, JobCause.TIMEOUT),
        ("60s", 60.0, JobCause.TIMEOUT),
        ("20", 60.0, JobCause.FAILED),
        ("61", 0.0, JobCause.FAILED),
    ],
)
def test_who_is_killed_after_the_time_that_we_gave_is_killed_for_it(ran, limit_s, cause):
    found = qacct((*KILLED[:2], f"ru_wallclock {ran}\n"), limit_s=limit_s)
    assert found.cause is cause
    assert found.words.startswith(f"{cause} (100 : ")


def test_accounting_without_the_job_is_none():
    assert read_qacct("error: job id 5 not found\n") is None


# --- LSF ---

BY_OWNER = "TERM_OWNER: job killed by owner"
BY_LIMIT = "TERM_RUNLIMIT: job killed after reaching LSF run time limit"


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("PEND|-|-|-|Job slot limit reached;", waits("Job slot limit reached;")),
        ("PEND|-|-|-|-", waits("PEND")),
        ("PROV|-|-|-|-", waits("PROV")),
        ("RUN|-|-|1:30 L|-", runs(1000.0 + 5400)),
        ("RUN|-|-|-|-", runs()),
        ("SSUSP|-|-|-|-", runs(words="SSUSP")),
        ("", None),
        ("Job <5> is not found", None),
        ("NOVEL|-|-|-|-", JobSeen(JobState.UNKNOWN, "NOVEL")),
        ("DONE|-|-|-|-", ended(JobCause.COMPLETED)),
        ("EXIT|2|-|-|-", ended(JobCause.FAILED, "FAILED (exit code 2)")),
        (f"EXIT|130|{BY_OWNER}|-|-", ended(JobCause.CANCELLED, f"CANCELLED ({BY_OWNER})")),
        (f"EXIT|140|{BY_LIMIT}|-|-", ended(JobCause.TIMEOUT, f"TIMEOUT ({BY_LIMIT})")),
    ],
)
def test_an_lsf_job_is_told_in_its_own_words(line, seen):
    assert read_bjobs(f"{line}\n", now_s=1000.0) == seen


def test_long_reasons_are_shortened():
    assert len(pbs("job_state = Q", f"comment = {'because ' * 60}").words) < 180
