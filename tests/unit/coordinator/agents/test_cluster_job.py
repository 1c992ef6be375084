from pathlib import Path

import pytest
from fakes.batch_job import PATIENCE_S, FakeJob
from msgspec.structs import replace

from jupyter_dist.cluster.spec.host_list import hosts_of_job
from jupyter_dist.coordinator.agents.cluster_job import make_job_watch
from jupyter_dist.launch.batch import submission
from jupyter_dist.model.spec.batch import BatchSpec, JobCause, ended
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec

HOST = HostSpec("", slots=4, python="/opt/env", setup=("module load cuda",))
SPEC = ClusterSpec(
    name="weather",
    hosts=hosts_of_job("slurm", 2, HOST),
    batch=BatchSpec(system="slurm", nodes=2, directory="/scratch"),
    start_method="spawn",
)


@pytest.fixture
def orders(monkeypatch):
    """Jobs that were submitted; none is."""
    taken = []

    def submit(order):
        taken.append(order)
        job = FakeJob()
        job.show(ended(JobCause.COMPLETED))
        return job

    monkeypatch.setattr(submission, "submit", submit)
    return taken


def test_a_job_gets_what_its_agents_need(orders, tmp_path):
    watch = make_job_watch(SPEC, tmp_path)
    assert orders == []
    assert watch.label == "the Slurm job"
    path = Path("/scratch/jupyter-dist-weather-x7/jupyter-dist-weather.join")
    watch.start(path)
    watch.end(PATIENCE_S)
    (order,) = orders
    assert order.join_path == path
    assert (order.cluster, order.slots, order.python) == ("weather", 4, "/opt/env")
    assert (order.setup, order.start_method) == (SPEC.hosts[0].setup, "spawn")
    assert (str(order.directory), order.log_dir) == ("/scratch", tmp_path)
    assert order.spec == SPEC.batch


def test_without_a_job_nobody_watches_one(tmp_path):
    assert make_job_watch(replace(SPEC, batch=None), tmp_path) is None
