"""What people have written for ipyparallel: joblib, dask and %px, on the ranks of a cluster."""

import sys

import pytest
from ipyparallel import interactive

from jupyter_dist.magics import extension
from tests.facts import assert_tells
from tests.ipython_shell import shell_with_magics

pytestmark = [
    pytest.mark.filterwarnings("ignore:`apply_async` is deprecated:DeprecationWarning"),
]


@pytest.fixture
def shell(four, tmp_path):
    """An IPython shell whose notebook has the four ranks."""
    with shell_with_magics(tmp_path / "ipython") as shell:
        extension._CURRENT[shell].set(four)
        yield shell
        shell.run_line_magic("dist_ipyparallel", "--stop")


# --- %px ---


def test_px_runs_on_all_ranks(four, shell, capsys):
    four.run("x = rank + 1")
    shell.run_line_magic("dist_ipyparallel", "-o client")
    assert_tells(capsys.readouterr().out, "ranks 0-3 ", "ipyparallel")
    shell.run_line_magic("px", "print(rank, x)")
    said = capsys.readouterr().out
    for rank in range(4):
        assert f"[stdout:{rank}] \n{rank} {rank + 1}\n" in said
    shell.run_cell_magic("px", "--noblock", "y = x * 2")
    shell.run_line_magic("pxresult", "")
    assert [rank.value_repr for rank in four.run("y")] == ["2", "4", "6", "8"]
    assert shell.user_ns["client"][:]["y"] == [2, 4, 6, 8]


def test_px_runs_on_some_ranks_only_where_that_is_asked(four, shell, capsys):
    four.run("seen = 0")
    shell.run_line_magic("dist_ipyparallel", "--ranks 1,3")
    assert_tells(capsys.readouterr().out, "%px", "ranks 1,3")
    shell.run_cell_magic("px", "", "seen = 1")
    assert [rank.value_repr for rank in four.run("seen")] == ["0", "1", "0", "1"]


@pytest.mark.slow
def test_after_the_end_of_the_controller_it_can_begin_again(shell, capsys):
    shell.run_line_magic("dist_ipyparallel", "--stop")
    assert "no controller" in capsys.readouterr().out
    shell.run_line_magic("dist_ipyparallel", "")
    shell.run_line_magic("dist_ipyparallel", "--stop")
    assert_tells(capsys.readouterr().out, "controller", "ended")
    shell.run_line_magic("dist_ipyparallel", "")
    shell.run_line_magic("px", "print('here')")
    assert "here" in capsys.readouterr().out


# --- joblib ---


WORK = """\
def work(number):
    seen.append(number)
    return factor * number, rank
"""


@pytest.fixture
def work():
    """A function that is known to this program's `__main__`, as one of a notebook is."""
    main = sys.modules["__main__"]
    exec(WORK, vars(main))
    yield main.work
    del main.work


def test_joblib_computes_on_the_ranks_with_what_cells_have_set(four, work):
    joblib = pytest.importorskip("joblib")
    four.run("factor = 10\nseen = []")
    with four.ipyparallel() as client:
        client.load_balanced_view().register_joblib_backend("ranks")
        with joblib.parallel_backend("ranks"):
            found = joblib.Parallel(n_jobs=4)(joblib.delayed(work)(n) for n in range(24))
    assert [value for value, _rank in found] == [10 * n for n in range(24)]
    assert {rank for _value, rank in found} == {0, 1, 2, 3}
    counted = [int(rank.value_repr) for rank in four.run("len(seen)")]
    assert sum(counted) == 24
    assert min(counted) > 0


# --- dask ---


@pytest.mark.slow
def test_ranks_become_workers_of_dask(four, shared):
    pytest.importorskip("distributed", reason="dask's distributed is not installed")
    four.run("factor = 10")

    @interactive
    def work(number):
        import os

        import IPython

        return IPython.get_ipython().user_ns["factor"] * number, os.getpid()

    with four.ipyparallel() as client:
        dask = client.become_dask()
        try:
            assert dask.scheduler.address.startswith("tcp://127.0.0.1:")
            dask.wait_for_workers(4, timeout=30)
            found = dask.gather(dask.map(work, range(40), pure=False))
        finally:
            dask.close()
            client.stop_dask()
    assert [value for value, _pid in found] == [10 * n for n in range(40)]
    pids = {engine.pid for engine in four.topology().engines}
    assert {pid for _value, pid in found} <= pids
    assert not (shared.temp_dir / "dask-scratch-space").exists()
    assert four.run("comm.barrier()").ok
