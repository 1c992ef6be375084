import pytest

from jupyter_dist.cli.export.cells import place_cells
from jupyter_dist.cli.export.obstacles import find_obstacles


def obstacles(*sources, to="torchrun"):
    """Return cell, line and a word of each."""
    cells = place_cells([(source, None) for source in sources])
    return [(each.cell, each.line, each.reason) for each in find_obstacles(cells, to)]


@pytest.mark.parametrize(
    ("code", "line", "word"),
    [
        ("%%spmd\nx = 1\ncomm.all_reduce(x)", 3, "comm"),
        ("%%spmd\ncheckpoint.save('a')", 2, "checkpoint"),
        ("%%spmd\nimport jupyter_dist.errors", 2, "jupyter_dist"),
        ("%%spmd\nfrom jupyter_dist import Cluster", 2, "jupyter_dist"),
        ("%%spmd\nimport cupyx.distributed", 2, "mpi4py"),
        ("%%spmd\nfrom __future__ import annotations", 2, "first"),
        ("%%spmd\nfrom cupyx import distributed", 2, "mpi4py"),
        ("%%spmd\nfrom mpi4py import MPI", 2, "mpirun"),
        ("%%spmd\nx = 1\n%timeit x", 3, "%timeit"),
        ("%%spmd\nfiles = !ls", 2, "!ls"),
        ("%%spmd\nlen?", 2, "len?"),
        ("%%spmd\ndisplay(1)", 2, "display"),
        ("%%spmd\nimport asyncio\nawait asyncio.sleep(0)", 3, "await"),
        ("%%spmd\nx = (1", 2, "never closed"),
        ("%%spmd\nx = lr", 2, "`lr`"),
        ("%%spmd --ranks 0\nx = 1", 1, "--ranks"),
        ("%%spmd --on=host\nx = 1", 1, "--on"),
        ("%dist_push lr=0.1", 1, "push"),
        ("x = 1\ncluster.push({'x': x})", 2, "push"),
        ("%dist_restore last", 1, "restore"),
    ],
)
def test_what_cannot_be_exported_is_named_with_its_line(code, line, word):
    ((cell, found, reason),) = obstacles(code)
    assert (cell, found) == ("cell 1", line)
    assert word in reason


@pytest.mark.parametrize(
    "code",
    [
        "%%spmd --setup --timeout 3s --check -o result\nx = rank + local_rank",
        "%%spmd # a comment\nfor i in range(world_size):\n    print(i)",
        "%%spmd\ndef f(a, *b, c=1, **d):\n    return a, b, c, d\n[f(x) for x in (1, 2)]",
        "%%spmd\ntry:\n    1 / 0\nexcept ValueError as error:\n    print(error)",
        "%%spmd\nmatch [1, 2]:\n    case [first, *rest]:\n        print(first, rest)",
        "%%spmd\nfrom math import *\nprint(pi)",
        "%%spmd\nx = 5 % 3 != 2\ntext = '''\n%timeit is a word\n'''",
        "%%spmd\nprint(__name__, __file__)",
        "print(comm)\n!ls",
        "%%time\nx = nothing",
    ],
)
def test_what_python_and_a_launcher_give_is_no_obstacle(code):
    assert obstacles(code) == []


def test_a_name_of_the_notebook_is_told_with_its_cell():
    ((cell, line, reason),) = obstacles("steps = 3", "%%spmd\nprint(steps)")
    assert (cell, line) == ("cell 2", 2)
    assert "`steps` is made in cell 1" in reason


def test_names_of_other_cells_on_ranks_are_known():
    assert obstacles("%%spmd\nsteps = 3", "%%spmd\nprint(steps)") == []


def test_mpi_is_for_launchers_that_start_it():
    code = "%%spmd\nfrom mpi4py import MPI"
    assert [len(obstacles(code, to=to)) for to in ("srun", "mpirun", "script")] == [0, 0, 1]
