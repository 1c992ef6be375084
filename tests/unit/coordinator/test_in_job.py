from pathlib import Path
from time import time

import msgspec
import pytest

from jupyter_dist.coordinator import in_job
from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.proxy.conversation import JobOrder
from jupyter_dist.model.spec.batch import BatchSpec
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.version import WIRE

PATH = Path("/shared/jupyter-dist-fit-x7/fit.order")
SPEC = ClusterSpec(
    name="fit",
    hosts=(HostSpec("slurm-1", slots=2, launcher="join"),),
    batch=BatchSpec(system="slurm", nodes=1, queue="gpu", arguments=("--gres=gpu:8",)),
    coordinator=HostSpec("job", launcher="join"),
    timeout_s=600.0,
)


def order(left_s=60.0, wire=WIRE):
    return JobOrder(wire, time() + left_s, msgspec.Raw(msgspec.json.encode(SPEC)))


def test_agents_are_started_in_the_job_around_within_the_time_that_is_left():
    spec = in_job._read_spec(order(), PATH)
    assert spec.batch == BatchSpec(
        system="slurm", nodes=1, is_within=True, directory=str(PATH.parent)
    )
    assert 50 < spec.timeout_s <= 60
    assert spec.hosts == SPEC.hosts


def test_another_version_reads_no_further():
    with pytest.raises(StartFailed, match=r"speaks jupyter-dist/0.*--python"):
        in_job._read_spec(order(wire="jupyter-dist/0"), PATH)


def test_an_order_for_a_start_that_is_over_starts_nothing():
    with pytest.raises(StartFailed, match="over"):
        in_job._read_spec(order(left_s=-1.0), PATH)


def test_a_node_that_does_not_see_its_order_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("os.umask", int)
    monkeypatch.setattr("sys.argv", ["in_job", str(tmp_path / "fit.order")])
    with pytest.raises(SystemExit, match=r"order file '.*fit.order' cannot be read"):
        in_job.main()


def test_of_two_nodes_that_start_it_one_does(tmp_path, monkeypatch):
    path = tmp_path / "fit.order"
    path.write_bytes(msgspec.json.encode(order()))
    report = path.with_suffix(".report")
    report.write_text("the other's")
    monkeypatch.setattr("os.umask", int)
    monkeypatch.setattr("sys.argv", ["in_job", str(path)])
    in_job.main()
    assert report.read_text() == "the other's"
