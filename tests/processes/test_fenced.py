"""What waits for a busy rank says so, and can be cancelled."""

import os
import signal

import pytest

from jupyter_dist.errors import TransferError
from tests.facts import assert_tells

from .leftovers import wait_until
from .listener import begin

BUSY = ("rank 0 ", "busy", "In[7]")


@pytest.fixture
def occupy(hold, in_background):
    """Keep rank 0 of a cluster busy until `hold.release()`; gives the future of its cell."""

    def occupy(cluster):
        return begin(in_background, cluster, hold(), ranks=[0], label=7)

    return occupy


def press_ctrl_c(_said):
    os.kill(os.getpid(), signal.SIGINT)


def test_push_and_pull_say_whom_they_wait_for_and_ctrl_c_takes_them_back(start, hold, occupy):
    cluster = start("localhost:2")
    running = occupy(cluster)
    heard = []
    other = start.attach(cluster.name)  # the line of cells of the first client is taken
    other.push({"x": 1}, on_stage=lambda said: (heard.append(said), hold.release()))
    assert_tells(heard[0], *BUSY)
    assert running.result(10).ok
    hold.path.unlink()
    running = occupy(cluster)
    heard.clear()
    got = other.pull("x", on_stage=lambda said: (heard.append(said), hold.release()))
    assert got == {0: 1, 1: 1}
    assert_tells(heard[0], *BUSY)
    assert running.result(10).ok
    hold.path.unlink()
    running = occupy(cluster)
    with pytest.raises(KeyboardInterrupt, match="is cancelled"):
        other.push({"never": 1}, on_stage=press_ctrl_c)
    hold.release()
    assert running.result(10).ok, "the cell that ran was left alone"
    with pytest.raises(TransferError, match="never"):
        other.pull("never")


def test_healing_and_shrinking_say_whom_they_wait_for_and_can_be_taken_back(start, hold, occupy):
    cluster = start("localhost:3")
    running = occupy(cluster)
    os.kill(cluster.topology().engines[2].pid, signal.SIGKILL)
    wait_until(lambda: cluster.status().ranks[2] == "lost", 5, "the rank is known to be lost")
    for repair in (cluster.heal, cluster.shrink):
        with pytest.raises(KeyboardInterrupt, match="is cancelled"):
            repair(on_stage=press_ctrl_c)
    heard = []
    healed = cluster.heal(on_stage=lambda said: (heard.append(said), hold.release()))
    assert_tells(heard[0], *BUSY)
    assert any("forming generation" in said for said in heard)
    assert running.result(10).ok
    assert list(healed.replaced) == [2]
    assert cluster.run("comm.barrier()").ok
