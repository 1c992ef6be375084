import time

import pytest

from jupyter_dist.model.batch import JobSeen, JobState
from jupyter_dist.model.job_states import (
    read_bjobs,
    read_qacct,
    read_qstat_full,
    read_qstat_list,
    read_qstat_reason,
)

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


def test_a_queued_pbs_job_says_why_it_waits():
    found = pbs(
        "job_state = Q",
        "comment = Not Running: Insufficient amount of resource: ncpus (R: 16 A: 8\n\t T: 32)",
    )
    assert found.state is JobState.PENDING
    assert found.words == (
        "PENDING: Not Running: Insufficient amount of resource: ncpus (R: 16 A: 8 T: 32)"
    )


def test_a_queued_pbs_job_without_a_comment_is_queued():
    assert pbs("job_state = Q").words == "PENDING: queued"
    assert pbs("job_state = H").words == "PENDING: held"


@pytest.mark.parametrize("began", ["stime", "start_time"])
def test_a_running_pbs_job_tells_when_it_ends(began):
    found = pbs(
        "job_state = R", f"{began} = Sun Nov 22 11:00:00 2026", "Resource_List.walltime = 01:30:00"
    )
    began_s = time.mktime(time.strptime("2026-11-22 11:00:00", "%Y-%m-%d %H:%M:%S"))
    assert found == JobSeen(JobState.RUNNING, "RUNNING", began_s + 5400)


def test_a_running_pbs_job_without_a_limit_never_ends():
    assert pbs("job_state = R", "stime = Sun Nov 22 11:00:00 2026").ends_at_s == 0


def test_a_pbs_job_that_is_being_ended_still_runs():
    assert pbs("job_state = E") == JobSeen(JobState.RUNNING, "COMPLETING")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["job_state = F", "Exit_status = 0"], "COMPLETED"),
        (["job_state = F", "Exit_status = 2"], "FAILED (exit code 2)"),
        (["job_state = C", "exit_status = 271"], "ended by signal 15"),
        (["job_state = F", "Exit_status = -29"], "TIMEOUT: walltime"),
        (["job_state = F", "Exit_status = -27"], "OUT_OF_MEMORY"),
        (
            [
                "job_state = F",
                "comment = Job run at Sun Nov 22 and terminated",
                "Exit_status = 271",
            ],
            "CANCELLED",
        ),
        (["job_state = F", "comment = Job deleted"], "CANCELLED"),
    ],
)
def test_a_pbs_job_that_has_ended_says_how(lines, words):
    assert pbs(*lines) == JobSeen(JobState.ENDED, words)


@pytest.mark.parametrize("text", ["", "<Data><Job><job_state>C</job_state></Job></Data>"])
def test_what_is_no_pbs_job_is_none(text):
    assert read_qstat_full(text) is None


# --- Grid Engine ---

SGE = """\
job-ID  prior   name       user  state submit/start at     queue               slots ja-task-ID
-----------------------------------------------------------------------------------------------
      4 0.55500 other      bob   Eqw   11/22/2026 10:00:00                         1
"""
ON_NODE_A = (
    "      5 0.55500 jupyter-di ada   {state} 11/22/2026 10:00:05 all.q@nodeA            1 1\n"
)
ON_NODE_B = (
    "      5 0.55500 jupyter-di ada   {state} 11/22/2026 10:00:05 all.q@nodeB            1 2\n"
)
IN_QUEUE = "      5 0.55500 jupyter-di ada   qw    11/22/2026 10:00:00                    1 1-2:1\n"


@pytest.mark.parametrize(
    ("lines", "state", "words"),
    [
        (IN_QUEUE, JobState.PENDING, "PENDING: qw"),
        (ON_NODE_A.format(state="r") + IN_QUEUE, JobState.PENDING, "PENDING: qw"),
        (ON_NODE_A.format(state="t"), JobState.PENDING, "PENDING: in transit"),
        (
            ON_NODE_A.format(state="r") + ON_NODE_B.format(state="t"),
            JobState.RUNNING,
            "RUNNING",
        ),
        (ON_NODE_A.format(state="dr"), JobState.RUNNING, "COMPLETING: deleted"),
        (IN_QUEUE.replace("jupyter-di", "my E work"), JobState.PENDING, "PENDING: qw"),
        (
            ON_NODE_A.format(state="r").replace("jupyter-di ada", "d E work dEw"),
            JobState.RUNNING,
            "RUNNING",
        ),
        (IN_QUEUE.replace("qw ", "Eqw"), JobState.ENDED, "Eqw: its start went wrong on a node"),
    ],
)
def test_the_tasks_of_a_grid_engine_job_are_judged_together(lines, state, words):
    assert read_qstat_list(SGE + lines, "5") == JobSeen(state, words)


def test_a_grid_engine_job_ends_as_long_after_its_first_task_began_as_we_have_said():
    later = ON_NODE_B.replace("10:00:05", "10:20:00").format(state="r")
    lines = ON_NODE_A.format(state="r") + later
    began_s = time.mktime(time.strptime("2026-11-22 10:00:05", "%Y-%m-%d %H:%M:%S"))
    assert read_qstat_list(SGE + lines, "5", 3600.0).ends_at_s == began_s + 3600
    newer = lines.replace("11/22/2026", "2026-11-22")
    assert read_qstat_list(SGE + newer, "5", 3600.0).ends_at_s == began_s + 3600
    assert read_qstat_list(SGE + lines, "5").ends_at_s == 0


def test_a_grid_engine_job_that_is_not_listed_is_none():
    assert read_qstat_list(SGE, "5") is None
    assert read_qstat_list("", "5") is None


def test_grid_engine_says_what_went_wrong_at_the_start():
    text = 'error reason    1:          can\'t get password entry for user "ada".\nversion: 8\n'
    assert read_qstat_reason(text) == 'can\'t get password entry for user "ada"'
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


def qacct(*tasks):
    texts = [
        QACCT.format(host=f"node{n}", task=n, failed=failed, status=status, more=more)
        for n, (failed, status, more) in enumerate(tasks, 1)
    ]
    return read_qacct("".join(texts))


def test_grid_engine_remembers_how_a_job_has_ended():
    assert qacct(("0", "0", ""), ("0", "0", "")) == JobSeen(JobState.ENDED, "COMPLETED")


def test_the_worst_task_counts():
    assert qacct(("0", "0", ""), ("0", "1", "")).words == "FAILED (exit code 1)"
    failed = ("100 : assumedly after job", "137", "")
    assert qacct(failed, ("0", "0", "")).words == (
        "FAILED (100 : assumedly after job, exit status 137)"
    )


def test_grid_engine_knows_who_has_deleted_a_job():
    assert qacct(("100 : assumedly after job", "137", "deleted_by   ada\n")).words == (
        "CANCELLED by ada"
    )


def test_grid_engine_knows_whose_time_was_over():
    failed = "37  : qmaster enforced h_rt, h_cpu or h_vmem limit"
    assert qacct((failed, "137", "")).words == (
        "TIMEOUT (37 : qmaster enforced h_rt, h_cpu or h_vmem limit)"
    )


@pytest.mark.parametrize(
    ("ran", "limit_s", "word"),
    [
        ("61.2", 60.0, "TIMEOUT"),
        ("60s", 60.0, "TIMEOUT"),
        ("20", 60.0, "FAILED"),
        ("61", 0.0, "FAILED"),
    ],
)
def test_who_is_killed_after_the_time_that_we_gave_is_killed_for_it(ran, limit_s, word):
    task = QACCT.format(
        host="a",
        task=1,
        failed="100 : assumedly after job",
        status=137,
        more=f"ru_wallclock {ran}\n",
    )
    assert read_qacct(task, limit_s).words.startswith(f"{word} (100 : assumedly after job")


def test_accounting_without_the_job_is_none():
    assert read_qacct("error: job id 5 not found\n") is None


# --- LSF ---


@pytest.mark.parametrize(
    ("line", "state", "words"),
    [
        (
            "PEND|-|-|-|Job slot limit reached;",
            JobState.PENDING,
            "PENDING: Job slot limit reached;",
        ),
        ("PEND|-|-|-|-", JobState.PENDING, "PENDING: PEND"),
        ("PROV|-|-|-|-", JobState.PENDING, "PENDING: PROV"),
        ("SSUSP|-|-|-|-", JobState.RUNNING, "SSUSP"),
        ("NOVEL|-|-|-|-", JobState.UNKNOWN, "NOVEL"),
        ("DONE|-|-|-|-", JobState.ENDED, "COMPLETED"),
        ("EXIT|2|-|-|-", JobState.ENDED, "FAILED (exit code 2)"),
        (
            "EXIT|130|TERM_OWNER: job killed by owner|-|-",
            JobState.ENDED,
            "CANCELLED (TERM_OWNER: job killed by owner)",
        ),
        (
            "EXIT|140|TERM_RUNLIMIT: job killed after reaching LSF run time limit|-|-",
            JobState.ENDED,
            "TIMEOUT (TERM_RUNLIMIT: job killed after reaching LSF run time limit)",
        ),
    ],
)
def test_an_lsf_job_is_told_in_its_own_words(line, state, words):
    assert read_bjobs(f"{line}\n", 0) == JobSeen(state, words)


def test_a_running_lsf_job_tells_when_it_ends():
    assert read_bjobs("RUN|-|-|1:30 L|-\n", now_s=1000.0).ends_at_s == 1000 + 5400
    assert read_bjobs("RUN|-|-|-|-\n", now_s=1000.0).ends_at_s == 0


def test_what_is_no_lsf_job_is_none():
    assert read_bjobs("", 0) is None
    assert read_bjobs("Job <5> is not found\n", 0) is None


def test_long_reasons_are_shortened():
    assert len(pbs("job_state = Q", f"comment = {'because ' * 60}").words) < 180
