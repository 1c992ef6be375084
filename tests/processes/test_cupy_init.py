"""CuPy's own init in a cell: what is wrong is an exception on all ranks, before anything blocks."""

import pytest

from jupyter_dist.probe.gpus import count_gpus

from .leftovers import wait_until
from .results import errors, values

pytest.importorskip("cupy", reason="CuPy is not installed (pip install 'jupyter-dist[cuda12]')")

IMPORT = "import warnings\nwarnings.simplefilter('ignore')\nimport cupyx.distributed as cd\n"


@pytest.fixture
def imported(four):
    """Four ranks that have cupyx.distributed as cd."""
    values(four.run(IMPORT))
    return four


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ("cd.init_process_group(2, rank % 2)", "n_devices is 2, "),
        ("cd.init_process_group(world_size, rank // 2)", "ranks 1-3: "),
        ("cd.init_process_group(world_size, rank if rank != 3 else 0)", "rank 3: "),
        ("cd.init_process_group(world_size, rank, backend='gloo')", "'nccl' only"),
    ],
)
def test_wrong_arguments_are_told_on_all_ranks(imported, within, call, match):
    with within(10):
        found = errors(imported.run(call, timeout_s=90))
    assert all(match in each for each in found), found


def test_some_ranks_only_are_told_so(imported, within):
    with within(10):
        found = errors(imported.run("cd.init_process_group(2, rank)", [0, 1], timeout_s=90))
    assert all("needs all 4 ranks" in each for each in found), found


def test_a_rank_that_does_not_come_is_named(imported, within):
    code = "if rank != 2:\n    cd.init_process_group(world_size, rank)"
    with within(10):
        result = imported.run(code, timeout_s=90)
    assert result[2].status == "ok"
    for rank in (0, 1, 3):
        assert "rank 2" in str(result[rank].error)


def test_a_backend_made_by_hand_is_refused(imported, within):
    with within(10):
        found = errors(imported.run("cd.NCCLBackend(world_size, rank)", timeout_s=90))
    assert all("init_process_group(world_size, rank)" in each for each in found), found


@pytest.mark.skipif(count_gpus() > 0, reason="this is about ranks without a GPU; there is one")
def test_without_gpus_it_is_an_error_at_once_and_no_process_is_started(shared, imported, within):
    before = shared.processes()
    with within(10):
        code = "cd.init_process_group(world_size, rank)"
        found = errors(imported.run(code, timeout_s=90))
    assert all(each.startswith("FrameworkError: ") for each in found), found
    assert all("ranks 0-3: CuPy" in each for each in found), found
    wait_until(lambda: shared.processes() == before, 3, "no process of CuPy's is left")
