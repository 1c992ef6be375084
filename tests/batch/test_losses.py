"""What ends a job, or a node of it, is told with Slurm's own words; who lives goes on."""

import pytest

from jupyter_dist.errors import CellRefused
from tests.facts import assert_tells
from tests.matrix import only
from tests.processes.leftovers import wait_until
from tests.processes.listener import Listener, begin

from .clusters import IN_A_COLLECTIVE, SUM, lose_all, values


def test_a_job_that_is_cancelled_mid_cell_is_lost_with_that_reason(
    slurm, start, in_background, within
):
    cluster = start()
    future = begin(in_background, cluster, IN_A_COLLECTIVE)
    job = slurm.only_job()
    with within(10):
        slurm.scancel(job)
        reasons = lose_all(future)
    for reason in reasons:
        assert f"Slurm job {job} was cancelled" in reason
        assert "CANCELLED" in reason
    with pytest.raises(CellRefused, match=r"ranks 0-3 .*lost"):
        cluster.run("1")
    assert f"Slurm job {job}" in str(cluster.status())
    slurm.assert_queue_is_empty(10)
    cluster.stop()
    start.assert_nothing_left(10)


@pytest.mark.slow
def test_a_job_that_is_cancelled_between_cells_is_lost_with_that_reason(slurm, start):
    cluster = start(slots=1)
    job = slurm.only_job()
    slurm.scancel(job)
    wait_until(lambda: set(cluster.status().ranks.values()) == {"lost"}, 10, "all ranks are lost")
    assert f"Slurm job {job} was cancelled" in str(cluster.status())


@pytest.mark.slow
def test_a_time_limit_is_announced_and_then_the_reason(slurm, start, in_background):
    cluster = start(slots=1, time_limit_s=60.0)
    job, listener = slurm.only_job(), Listener()
    wait_until(lambda: "Slurm ends" in str(cluster.status()), 10, "it is announced")
    future = begin(in_background, cluster, IN_A_COLLECTIVE, listener)
    slurm.end_soon(job, 6)
    listener.wait_for_note("Slurm ends", within_s=15)
    for reason in lose_all(future, within_s=50):
        assert_tells(reason, f"Slurm job {job} ", "time limit")
        assert "TIMEOUT" in reason


@pytest.mark.slow
def test_a_job_that_is_preempted_is_lost_with_that_reason(slurm, start, in_background):
    cluster = start(slots=1)
    future, job = begin(in_background, cluster, IN_A_COLLECTIVE), slurm.only_job()
    words = ["--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null"]
    slurm.sbatch(*words, "--wrap", "true")
    for reason in lose_all(future, within_s=30):
        assert f"Slurm job {job}" in reason
        assert "PREEMPTED" in reason


@pytest.mark.slow
def test_a_killed_slurmd_takes_no_rank_with_it(slurm, start):
    cluster = start()
    values(cluster.run("kept = rank"))
    _, other = nodes_of(slurm)
    slurm.kill_slurmd(other)
    wait_until(lambda: slurm.state_of(other) == "down", 45, "Slurm misses the node")
    assert values(cluster.run("kept")) == ["0", "1", "2", "3"]
    assert values(cluster.run(SUM)) == ["10.0"] * 4
    wait_until(lambda: other in job_line(cluster), 15, "the status names the node")
    cluster.stop()


@pytest.mark.slow
def test_survivors_of_a_node_that_crashed_keep_their_state_and_go_on(slurm, start, within):
    cluster = start(name="spread", slots=1)
    values(cluster.run("kept = rank + 10"))
    gone_node, node = nodes_of(slurm)  # even the one that runs the job's script
    small = start(name="small", nodes=1, slots=1, launcher_args=[f"--nodelist={gone_node}"])
    gone = rank_on(cluster, gone_node)
    (left,) = {0, 1} - {gone}
    slurm.crash(gone_node)
    wait_until(lambda: cluster.status().ranks[gone] == "lost", 20, "its rank is lost")
    wait_until(lambda: f"host {gone_node}: lost" in str(cluster.status()), 10, "so is its host")
    assert values(cluster.run("kept", [left])) == [str(left + 10)]
    wait_until(lambda: slurm.state_of(gone_node) == "down", 45, "Slurm misses the node")
    wait_until(lambda: f"{gone_node} is down" in job_line(cluster), 15, "Slurm's words are told")
    assert slurm.squeue("%j %T %N") == [f"jupyter-dist-spread RUNNING {node}"]
    cluster.shrink()
    assert values(cluster.run("(rank, world_size, kept)")) == [f"(0, 1, {left + 10})"]
    # A job of that node alone has ended.
    wait_until(lambda: "NODE_FAIL" in str(small.status()), 15, "Slurm's words are told")
    assert small.status().ranks == {0: "lost"}


@pytest.mark.slow
@pytest.mark.parametrize("on_loss", only(["heal"], ["stop", "heal"], at_night=["stop"]))
def test_what_is_done_about_a_lost_rank_is_done_within_the_job(slurm, start, on_loss):
    cluster = start(on_loss=on_loss)
    values(cluster.run("kept = rank"))
    result = cluster.run("import os\nif rank == 3: os.kill(os.getpid(), 9)")
    assert result.rank(3).status == "lost"
    if on_loss == "stop":
        wait_until(lambda: not slurm.squeue(), 20, "the job has ended with the cluster")
    else:
        wait_until(lambda: set(cluster.status().ranks.values()) == {"idle"}, 20, "it is replaced")
        assert values(cluster.run(SUM)) == ["10.0"] * 4


def test_a_rank_that_is_killed_is_told_at_once_and_not_blamed_on_slurm(start, within):
    cluster = start()
    with within(4):
        result = cluster.run("import os\nif rank == 1: os.kill(os.getpid(), 9)")
    assert [rank.status for rank in result].count("lost") == 1
    assert "Slurm" not in str(result.rank(1).error)
    assert "SIGKILL" in str(result.rank(1).error)
    assert cluster.heal().replaced
    assert values(cluster.run(SUM)) == ["10.0"] * 4


def nodes_of(slurm):
    """The node that runs the job's script, and the other one."""
    first = slurm.job(slurm.only_job())["BatchHost"]
    (other,) = set(slurm.names) - {first}
    return first, other


def rank_on(cluster, host):
    """The first rank on a host."""
    (found,) = [each for each in cluster.topology().hosts if each.name == host]
    return found.engines[0].rank


def job_line(cluster):
    """What the status says of the job."""
    return "\n".join(line for line in str(cluster.status()).splitlines() if "Slurm" in line)
