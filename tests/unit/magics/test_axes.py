import pytest

from jupyter_dist.errors import UsageError


def test_axes_are_named_shown_and_dropped(run, cluster):
    assert "%dist_axes" in run("%dist_axes").text
    assert run("%dist_axes data=-1").text == "data=0  data=1\nrank 0  rank 1\n"
    assert run("%dist_axes").text == "data=0  data=1\nrank 0  rank 1\n"
    run("%dist_axes --clear")
    assert not cluster.axes


def test_those_of_a_mesh_are_taken(run, cluster):
    assert run("%dist_axes --from mesh").success
    assert cluster.calls == [("axes of", "mesh")]


@pytest.mark.parametrize("line", ["data=3", "data=2 --clear", "--from 1", "--from a --clear"])
def test_mistakes_are_errors(run, cluster, line):
    assert isinstance(run(f"%dist_axes {line}").error_in_exec, UsageError)
    assert not cluster.axes


def test_a_cell_runs_on_the_ranks_that_are_meant(run, cluster):
    run("%dist_axes data=2")
    for options in ("--on nodeB", "--on data=1", "--ranks 0-1 --on data=1"):
        assert run(f"%%spmd {options}\n1").success
        assert cluster.calls[-1].ranks == (1,)


@pytest.mark.parametrize(
    "options", ["--on nodeC", "--on data=0", "--ranks 0 --on nodeB", "--on nodeB --show 0"]
)
def test_a_cell_that_is_for_no_rank_does_not_run(run, cluster, options):
    assert isinstance(run(f"%%spmd {options}\n1").error_in_exec, UsageError)
    assert cluster.calls == []


@pytest.mark.parametrize("line", ["%dist_interrupt", "%dist_who", "%dist_stacks"])
def test_other_magics_take_it_as_well(run, cluster, line):
    assert run(f"{line} --on nodeB").success
    assert (1,) in cluster.calls[-1]
