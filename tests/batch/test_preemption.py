"""A job that Slurm ends saves before its end, and a second job goes on where it was."""

import subprocess
import sys

import pytest

from jupyter_dist.checkpoint.storage import directory as layout
from tests.matrix import only
from tests.processes.leftovers import wait_until
from tests.processes.listener import begin

from .clusters import values

TRAIN = """
import time
import numpy as np
if "step" not in globals():
    step, weights = 0, np.zeros(1000)
first = step
checkpoint.mark("step", "weights")
while not checkpoint.should_save(step):
    step += 1
    if step == first + 50:  # agents and engines have long heard then that notices are wanted
        print("here", flush=True)
    weights += float(comm.all_reduce(np.array([rank + 1.0]))[0])
    time.sleep(0.01)
step
"""
"""Each step adds 3 to the weights of two ranks."""
STATE = "(step, bool(np.all(weights == 3.0 * step)))"


@pytest.fixture
def place(slurm):
    """A directory that all hosts and this machine share."""
    return slurm.shared / "run"


def assert_saved(future, place, within_s):
    """All ranks stopped at the same step, and just that one lies in the directory; gives it."""
    steps = values(future.result(within_s))
    assert len(set(steps)) == 1, "all ranks were told at the same step"
    found = layout.latest(place)
    assert found is not None, "nothing was saved"
    return int(steps[0])


def resume(start, place):
    """Start a cluster in a job of its own that begins with what lies there; gives the cluster."""
    words = ["start", "--launcher", "slurm", "--nodes", "2", "--slots", "1", "--name", "second"]
    subprocess.run(
        [sys.executable, "-m", "jupyter_dist.cli", *words, "--resume", str(place)],
        check=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    return start.attach("second")


def assert_as_saved(cluster, step):
    """All ranks have what they had when they had come to this step."""
    cluster.run("import numpy as np").raise_first()
    assert values(cluster.run(STATE)) == [f"({step}, True)"] * 2


@pytest.mark.slow
def test_a_job_saves_before_its_time_limit_and_a_second_one_resumes(
    slurm, start, place, in_background
):
    first = start(slots=1, time_limit_s=60.0, save_on_preempt=str(place))
    job = slurm.only_job()
    step = assert_saved(begin(in_background, first, TRAIN), place, 90)
    assert slurm.job(job)["JobState"] == "RUNNING", "it has saved while it could"
    assert step > 0
    wait_until(lambda: slurm.job(job)["JobState"] == "TIMEOUT", 100, "its time is over")
    first.stop()

    second = resume(start, place)
    assert_as_saved(second, step)
    future = begin(in_background, second, TRAIN)
    second.interrupt()
    future.result(20)
    assert values(second.run(f"(first, step >= {step})")) == [f"({step}, True)"] * 2
    second.stop()


@pytest.mark.slow
@pytest.mark.parametrize("way", only(["scancel"], ["scancel", "preempted"], at_night=["preempted"]))
def test_a_job_that_is_cancelled_has_seconds_left_and_saves(
    way, slurm, start, place, in_background
):
    cluster = start(slots=1, save_on_preempt=str(place))
    job, future = slurm.only_job(), begin(in_background, cluster, TRAIN)
    if way == "scancel":
        slurm.scancel(job)
    else:
        words = ["--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null"]
        slurm.sbatch(*words, "--wrap", "true")
    step = assert_saved(future, place, 20)
    wait_until(lambda: set(cluster.status().ranks.values()) == {"lost"}, 20, "the job is over")
    cluster.stop()
    wait_until(lambda: not slurm.squeue(), 30, "the queue is empty")
    second = start(slots=1)
    second.restore(directory=place)
    assert_as_saved(second, step)


@pytest.mark.slow
def test_a_signal_that_slurm_sends_to_the_steps_of_a_job_is_a_notice(
    slurm, start, place, in_background
):
    cluster = start(slots=1, save_on_preempt=str(place))
    job, future = slurm.only_job(), begin(in_background, cluster, TRAIN)
    slurm.ask("scancel", "--signal=TERM", str(job))  # as --signal=TERM@SECONDS does on its own
    assert_saved(future, place, 30)
