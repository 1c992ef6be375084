"""What waits for a busy rank says so, and can be taken back."""

import os
import signal

import pytest

from jupyter_dist.errors import TransferError

from .leftovers import wait_until
from .listener import Listener

HELD = "import os, time\nprint('here')\nwhile not os.path.exists({path!r}): time.sleep(0.05)"
BUSY = "rank 0 is still busy with In[7]"


@pytest.fixture
def hold(tmp_path, in_background):
    """Keep rank 0 of a cluster busy until `hold.release()`."""

    class Hold:
        path = tmp_path / "go on"

        def __call__(self, cluster):
            listener = Listener()
            code = HELD.format(path=str(self.path))
            self.running = in_background(cluster.run, code, ranks=[0], label=7, watcher=listener)
            listener.wait_for("here", ranks=[0])

        def release(self, *_said):
            self.path.touch()

    return Hold()


def press_ctrl_c(_said):
    os.kill(os.getpid(), signal.SIGINT)


def beside(cluster, start):
    """Give another client: the line of cells of the first one is taken by its cell."""
    return start.attach(cluster.name)


def test_push_and_pull_say_whom_they_wait_for(start, hold):
    cluster = start("localhost:2")
    hold(cluster)
    heard = []
    other = beside(cluster, start)
    other.push({"x": 1}, on_stage=lambda said: (heard.append(said), hold.release()))
    assert BUSY in heard[0]
    assert hold.running.result(10).ok
    hold.path.unlink()
    hold(cluster)
    heard.clear()
    got = other.pull("x", on_stage=lambda said: (heard.append(said), hold.release()))
    assert got == {0: 1, 1: 1}
    assert BUSY in heard[0]
    assert hold.running.result(10).ok


def test_ctrl_c_takes_back_a_push_that_waits(start, hold):
    cluster = start("localhost:2")
    hold(cluster)
    other = beside(cluster, start)
    with pytest.raises(KeyboardInterrupt, match="is taken back"):
        other.push({"never": 1}, on_stage=press_ctrl_c)
    hold.release()
    assert hold.running.result(10).ok, "the cell that ran was left alone"
    with pytest.raises(TransferError, match="never"):
        other.pull("never")


def test_healing_and_shrinking_say_whom_they_wait_for_and_can_be_taken_back(start, hold):
    cluster = start("localhost:3")
    hold(cluster)
    os.kill(cluster.topology().engines[2].pid, signal.SIGKILL)
    wait_until(lambda: cluster.status().ranks[2] == "lost", 5, "the rank is known to be lost")
    for repair in (cluster.heal, cluster.shrink):
        with pytest.raises(KeyboardInterrupt, match="is taken back"):
            repair(on_stage=press_ctrl_c)
    heard = []
    healed = cluster.heal(on_stage=lambda said: (heard.append(said), hold.release()))
    assert BUSY in heard[0]
    assert any("forming generation" in said for said in heard)
    assert hold.running.result(10).ok
    assert list(healed.replaced) == [2]
    assert cluster.run("comm.barrier()").ok
