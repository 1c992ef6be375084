"""Clusters that a batch system starts: how tests start them, and what they may leave: nothing."""

import sys

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import StartFailed
from tests.hosts.clusters import GRACE_S
from tests.patience import Stopwatch, wait_until_gone
from tests.processes.conftest import ClusterFactory
from tests.processes.leftovers import wait_until
from tests.processes.results import values  # noqa: F401  (for these tests, too)

START_TIMEOUT_S = 90.0
SUM = "import numpy as np\nfloat(comm.all_reduce(np.array([rank + 1.0]))[0])"
"""10.0 on four ranks."""
IN_A_COLLECTIVE = """
import numpy as np
kept = rank
print("here", flush=True)
while True:
    comm.all_reduce(np.ones(1000))
"""
DRIVER = """
import sys, time
from jupyter_dist import Cluster
cluster = Cluster.start({options})
print("ready", flush=True)
time.sleep(90)
"""
"""A notebook that starts a cluster and goes on; it ends with its cluster when it is killed."""


class BatchClusters(ClusterFactory):
    """Starts clusters through Slurm, and stops them all in the end."""

    def __init__(self, home, slurm):
        super().__init__(home)
        self._slurm = slurm

    def __call__(self, **options):
        """Start a cluster of two ranks on each of two nodes; options as in `Cluster.start`."""
        return super().__call__(None, **complete(options))

    def refusal(self, within_s=30.0, error=StartFailed, after=lambda: None, **options):
        """Give what is said of a start that must fail in time and, `after` something, leave nothing."""
        watch = Stopwatch()
        with pytest.raises(error) as caught:
            Cluster.start(**complete(options))
        watch.assert_less(within_s, str(caught.value))
        after()
        self.assert_nothing_left()
        return str(caught.value)

    def assert_nothing_left(self, within_s=GRACE_S):
        """Fail when soon anything of any cluster is still there: a job, a process, a file."""
        watch = Stopwatch()
        self._slurm.assert_queue_is_empty(within_s)
        self._home.assert_nothing_left(watch.left_s(within_s))
        self._slurm.assert_nothing_left(watch.left_s(within_s))

    def assert_no_process_left(self, within_s=GRACE_S):
        """As `assert_nothing_left`; but who was killed could not remove its files."""

        def left():
            hosts = [what for name in self._slurm.names for what in self._slurm.leftovers(name)]
            return (
                self._slurm.squeue()
                + [f"head: {process}" for process in self._home.processes()]
                + [what for what in hosts if ": file " not in what]
            )

        wait_until_gone(left, within_s)


def complete(options):
    """Add what tests here want when they say nothing else."""
    usual = {"launcher": "slurm", "nodes": 2, "slots": 2, "timeout_s": START_TIMEOUT_S}
    return {**usual, **options}


def driver(**options):
    """The words that run DRIVER with these options of `Cluster.start`."""
    text = ", ".join(f"{name}={value!r}" for name, value in complete(options).items())
    return [sys.executable, "-c", DRIVER.format(options=text)]


def lose_all(future, within_s=20.0):
    """Wait for the end of a cell of which every rank is lost; give the reason of each."""
    result = future.result(within_s)
    assert {rank.status for rank in result} == {"lost"}, result
    return [str(rank.error) for rank in result]


def wait_for_stage(told, word, within_s=15.0):
    """Wait until a start has told of such a stage; give the words."""
    return wait_until(
        lambda: next((step.stage for step in list(told) if word in step.stage), ""),
        within_s,
        f"the start says {word!r}; it said {[step.stage for step in told][-1:]}",
    )
