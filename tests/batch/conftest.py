"""A batch system for tests, the real Slurm on two hosts of a lab, and clusters that it starts.

Without root or the programs of Slurm the tests skip and say why. Where CI runs as root they fail
instead, so that nobody believes they ran.
"""

import pytest

from jupyter_dist import Cluster
from tests.hosts.clusters import GRACE_S, skip_for
from tests.processes.conftest import in_background, within  # noqa: F401  (fixtures for these tests, too)
from tests.processes.leftovers import Home, wait_until

from .clusters import BatchClusters
from .slurm_lab import SlurmLab, why_not

HOSTS = ("nodeA", "nodeB")


@pytest.fixture(scope="session")
def slurm_lab(tmp_path_factory):
    """Slurm on two hosts for all tests; a test takes `slurm`."""
    skip_for(why_not())
    with SlurmLab(HOSTS, tmp_path_factory.mktemp("batch") / "slurm") as slurm:
        yield slurm


@pytest.fixture
def slurm(slurm_lab, monkeypatch):
    """Slurm as if new; after the test no job is there, and nothing may be left on the hosts."""
    for name, value in slurm_lab.env.items():
        monkeypatch.setenv(name, value)
    yield slurm_lab
    for host in slurm_lab.names:
        slurm_lab.heal(host)
    try:
        slurm_lab.assert_queue_is_empty(GRACE_S)
        slurm_lab.assert_nothing_left(GRACE_S)
    finally:
        slurm_lab.remove_leftovers()
        slurm_lab.wait_until_idle()


@pytest.fixture
def home(slurm, tmp_path, monkeypatch):
    """Directories of this test's own in which nothing may be left; hosts see the runtime one."""
    home = Home(slurm.shared / "home", tmp_path / "tmp")
    home.enter(monkeypatch)
    yield home
    home.assert_nothing_left(GRACE_S)


@pytest.fixture
def start(home, slurm):
    """Start clusters through Slurm; they end with the test."""
    clusters = BatchClusters(home, slurm)
    yield clusters
    clusters.close()


@pytest.fixture
def sweep(start):
    """Start one more cluster in the end: it removes the directories of a killed coordinator."""
    yield
    Cluster.running()
    start(launcher="local", nodes=None, slots=1).stop()


@pytest.fixture
def busy_nodes(slurm):
    """Have someone else's job use all nodes; gives its number."""
    words = ["--nodes=2", "--exclusive", "--job-name=other", "--output=/dev/null"]
    job = slurm.sbatch(*words, "--wrap", "srun sleep 300")
    wait_until(lambda: slurm.job(job)["JobState"] == "RUNNING", 15, "the other job runs")
    yield job
    slurm.scancel(job)
