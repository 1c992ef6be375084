"""Who runs a cell, by host and by coordinates, and communicators along axes."""

import re

import pytest

from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.errors import CellRefused, RankRaised, UsageError

from .hangs import Hang

AXES = "data=2,model=2"
ALONG = """
import numpy as np
along = comm.axis("model")
found = (comm.coordinates, along.world_ranks, int(along.all_reduce(np.array([rank]))[0]))
"""


@pytest.fixture
def square(four):
    """Four ranks with axes, which the next test does not see."""
    four.name_axes(AXES)
    yield four
    four.name_axes(None)


def test_ranks_are_chosen_by_host_and_by_coordinate(square):
    assert [each.rank for each in square.run("1", on="localhost")] == [0, 1, 2, 3]
    assert [each.rank for each in square.run("1", on={"data": 1})] == [2, 3]
    assert [each.rank for each in square.run("1", "1-3", on="model=1")] == [1, 3]
    square.push({"x": 5}, on="data=1")
    assert square.pull("x", on="data=1,model=0") == {2: 5}
    with pytest.raises(UsageError, match="localhost"):
        square.run("1", on="nodeC")
    with pytest.raises(UsageError, match="localhost is a host"):
        square.name_axes("localhost=4")
    with pytest.raises(UsageError, match="the cluster has 4 ranks"):
        square.name_axes({"data": 3})
    for odd in ({}, {"data": 2.5}, {"data": 0, "model": 4}):
        with pytest.raises(UsageError):
            square.name_axes(odd)
    assert square.axes.shape == {"data": 2, "model": 2}


def test_a_cell_has_communicators_along_axes(square):
    square.run(ALONG).raise_first()
    assert square.pull("found") == {
        0: ({"data": 0, "model": 0}, (0, 1), 1),
        1: ({"data": 0, "model": 1}, (0, 1), 1),
        2: ({"data": 1, "model": 0}, (2, 3), 5),
        3: ({"data": 1, "model": 1}, (2, 3), 5),
    }
    square.run("assert comm.axis('model') is along").raise_first()
    with pytest.raises(RankRaised, match="data=2,model=2"):
        square.run("comm.axis('pipe')").raise_first()


def test_only_the_ranks_along_an_axis_have_to_run_the_cell(square):
    square.run(ALONG, on="data=1").raise_first()
    assert square.pull("found[2]", on="data=1") == {2: 5, 3: 5}
    with pytest.raises(RankRaised, match=r"rank 1 \(data=0, model=1\)"):
        square.run(ALONG, on="data=0,model=0").raise_first()


def test_errors_name_coordinates(square):
    result = square.run("if rank == 3: raise KeyError('x')\ncomm.barrier()")
    with pytest.raises(RankRaised, match=r"^rank 3 \(data=1, model=1\): KeyError"):
        result.raise_first()
    assert "rank 3 (data=1, model=1)" in str(result.rank(0).error)


def test_axes_outlive_healing_but_not_shrinking(start):
    cluster = start("localhost:4")
    cluster.name_axes(AXES)
    with Cluster.visit(cluster.name) as visitor:
        assert visitor.axes.shape == visitor.topology().axes.shape == {"data": 2, "model": 2}
        visitor.detach()
    cluster.run("import os\nif rank == 3: os._exit(3)")
    with pytest.raises(CellRefused, match=r"rank 3 \(data=1, model=1\)"):
        cluster.run("1", on="data=1").raise_first()
    assert cluster.run("rank", on="data=0").ok
    cluster.heal()
    cluster.run(ALONG).raise_first()
    assert cluster.pull("found[1]", 3) == {3: (2, 3)}
    cluster.run("import os\nif rank == 3: os._exit(3)")
    assert any(
        re.search("axes data=2,model=2 are dropped", note) for note in cluster.shrink().notes
    )
    assert not cluster.axes
    assert cluster.run("comm.coordinates")[0].value_repr == "{}"
    with pytest.raises(UsageError, match="%dist_axes"):
        cluster.run("1", on="data=0")


@pytest.mark.slow
def test_sentences_about_who_waits_name_coordinates(square, tmp_path, in_background):
    hang = Hang(square, tmp_path / "gate", in_background)
    try:
        hang.begin("along = comm.axis('model')\nif rank != 2:\n    along.barrier()")
        note = hang.verdict("rank 2")
        assert "rank 3 (data=1, model=1) waits in barrier #1 of group 2-3 (data=1)" in note
        assert "rank 2 (data=1, model=0) finished" in note
    finally:
        hang.end()


def test_a_mesh_of_jax_gives_its_axes(start):
    pytest.importorskip("jax", reason="jax is no requirement of the tests")
    cluster = start("localhost:4")
    cluster.run(
        "import jax\njax.distributed.initialize()\n"
        "mesh = jax.sharding.Mesh([jax.devices()[at] for at in (3, 2, 1, 0)], ('data',))\n"
        "half = jax.sharding.Mesh(jax.devices()[:2], ('data',))"
    ).raise_first()
    assert cluster.name_axes_of("mesh").order == (3, 2, 1, 0)
    assert cluster.run("comm.axis('data').rank")[0].value_repr == "3"
    with pytest.raises(RankRaised, match="leaves out"):
        cluster.name_axes_of("half")
    with pytest.raises(RankRaised, match="nothing"):
        cluster.name_axes_of("nothing")


@pytest.mark.slow
def test_a_mesh_of_torch_gives_its_axes(start):
    pytest.importorskip("torch", reason="torch is no requirement of the tests")
    cluster = start("localhost:4")
    cluster.run(
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "mesh = init_device_mesh('cpu', (2, 2), mesh_dim_names=('data', 'model'))"
    ).raise_first()
    assert cluster.name_axes_of("mesh").shape == {"data": 2, "model": 2}
    assert cluster.axes.coordinates(3) == {"data": 1, "model": 1}
    cluster.run("part = mesh['model']").raise_first()
    with pytest.raises(RankRaised, match="leaves out"):
        cluster.name_axes_of("part")
