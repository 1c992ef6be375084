import os
import sys

import msgspec
import pytest
from fakes.surroundings import FakeSurroundings

from jupyter_dist.errors import FrameworkError, PeerFailed, UsageError
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.mpi import framework as mpi_module
from jupyter_dist.frameworks.mpi.framework import (
    Facts,
    Mpi,
    MpiUnavailable,
    find_names,
    find_problem,
    is_launched,
)
from jupyter_dist.frameworks.mpi.library import (
    StartingEnvironment,
    find_launched,
    is_like_mpich,
    shorten_version,
)

MPICH, OPEN_MPI = "MPICH 5.0.2", "Open MPI v5.0.11"
LIBRARY = """
import os
seen = {name: os.environ.get(name) for name in ("PMI_FD", "PMI_RANK", "PMI_SIZE", "PMIX_RANK")}
class Comm: ...
COMM_WORLD = Comm()
def Is_initialized(): return True
def Finalize(): raise AssertionError("this would end the process")
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An mpi4py whose library is MPICH, and whose service takes everybody."""
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "MPI.py").write_text(LIBRARY)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mpi4py"]:
        monkeypatch.delitem(sys.modules, name)  # the true one would start MPI in this process
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(mpi_module, "name_library", lambda _: MPICH)
    monkeypatch.setattr(mpi_module, "join_world", lambda *_: os.open(os.devnull, os.O_RDONLY))
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "mpi4py"]:
        del sys.modules[name]


@pytest.fixture
def around():
    made = FakeSurroundings(rank=1, world_size=2)
    made.values["mpi"] = b"127.0.0.1:1/secret"
    return made


@pytest.fixture
def mpi(around, library):
    hooks = ImportHooks()
    hooks.install()
    made = Mpi(around, hooks)
    made.install()
    yield made
    sys.meta_path.remove(hooks)


def import_it():
    from mpi4py import MPI

    return MPI


def test_mpi_starts_as_this_rank_and_the_environment_is_as_before(mpi, monkeypatch):
    monkeypatch.setenv("PMIX_RANK", "5")
    assert mpi.formed() is None
    module = import_it()
    assert (module.seen["PMI_RANK"], module.seen["PMI_SIZE"]) == ("1", "2")
    os.close(int(module.seen["PMI_FD"]))
    assert module.seen["PMIX_RANK"] is None
    assert os.environ["PMIX_RANK"] == "5"
    assert "PMI_FD" not in os.environ
    assert mpi.formed().world_size == 2
    assert not mpi.formed().is_broken


def test_nobody_starts_mpi_before_all_have_their_place(mpi, around):
    import_it()
    assert around.claims[:2] == ["from mpi4py import MPI", "from mpi4py import MPI: its start"]


def refuse(error):
    def others(_claim, _facts):
        raise error

    return others


@pytest.mark.parametrize(
    ("others", "error", "named"),
    [
        (
            lambda claim, facts: {0: b"full" if "start" in claim else facts},
            MpiUnavailable,
            "0: full",
        ),
        (refuse(PeerFailed(0, "raised ValueError")), PeerFailed, "ValueError"),
        (refuse(UsageError("all 2 ranks")), ImportError, "all 2 ranks"),
    ],
    ids=["a rank has no place", "a rank has failed", "some ranks only"],
)
def test_an_import_that_fails_leaves_nothing_and_can_be_tried_again(
    mpi, around, others, error, named
):
    usual, around.others = around.others, others
    with pytest.raises(error, match=named):
        import_it()
    assert "PMI_FD" not in os.environ
    assert mpi.formed() is None
    around.others = usual
    assert import_it().Is_initialized()


def test_what_mpiexec_has_started_is_left_alone(mpi, around, monkeypatch):
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    around.others = lambda _claim, _facts: {0: msgspec.json.encode(Facts(MPICH, launched=(0, 2)))}
    assert import_it().seen == {"PMI_FD": None, "PMI_RANK": "1", "PMI_SIZE": "2", "PMIX_RANK": None}
    assert os.environ["PMI_RANK"] == "1"


def test_finalize_ends_no_process(mpi, around):
    import_it().Finalize()
    (note,) = around.told
    assert note.startswith("MPI.Finalize() does nothing")


def test_cupy_that_only_asks_for_mpi_does_not_start_it(mpi, around):
    asking = {"__name__": "cupyx.distributed._nccl_comm"}
    with pytest.raises(ImportError, match="use_mpi=True"):
        exec("from mpi4py import MPI", asking)
    assert around.claims == []


def test_a_world_that_is_no_more_stays_so_and_is_told_once(mpi):
    import_it()
    [note] = mpi.form("", "rank 0 is new")
    assert "(rank 0 is new)" in note
    assert mpi.formed().is_broken
    assert mpi.form(mpi.formed().settings, "rank 1 is new") == ()
    assert mpi.formed().settings == "rank 0 is new"


def test_cells_that_would_wait_in_it_are_refused(mpi, around):
    module = import_it()
    around.variables = {"world": module.COMM_WORLD, "x": 1}
    mpi.form("", "rank 0 is new")
    for code in ("MPI.COMM_WORLD.Barrier()", "from mpi4py import MPI", "%time world.Barrier()"):
        with pytest.raises(FrameworkError, match="rank 0 is new"):
            mpi.prepare_cell(code)
    mpi.prepare_cell("x + 1  # not MPI")


def test_a_new_rank_that_never_had_it_is_refused_the_import(mpi):
    assert mpi.form("rank 0 is new", "") == ()
    with pytest.raises(MpiUnavailable, match="rank 0 is new"):
        import_it()
    mpi.prepare_cell("from mpi4py import MPI")


def test_the_service_is_wanted_as_soon_as_a_cell_mentions_mpi(mpi, around):
    mpi.prepare_cell("x = 1")
    assert around.wanted == []
    mpi.prepare_cell("from mpi4py import MPI")
    assert around.wanted == ["mpi"]
    around.cell_ranks = (1,)
    mpi.prepare_cell("from mpi4py import MPI")
    assert around.wanted == ["mpi"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([Facts(MPICH), Facts(MPICH)], ""),
        ([Facts(OPEN_MPI, 0, (0, 2)), Facts(OPEN_MPI, 0, (1, 2))], ""),
        ([Facts(OPEN_MPI), Facts(OPEN_MPI)], "only when mpiexec has started them"),
        # every engine was started by one process that was rank 0 of another world
        ([Facts(OPEN_MPI, 0, (0, 1)), Facts(OPEN_MPI, 0, (0, 1))], "only when mpiexec"),
        ([Facts(MPICH), Facts("MPICH 4.2.0")], "rank 1: MPICH 4.2.0"),
        ([Facts(MPICH), Facts(problem="mpi4py finds no MPI")], "rank 1: mpi4py finds no MPI"),
    ],
)
def test_what_stands_in_the_way_of_one_world(facts, expected):
    problem = find_problem(dict(enumerate(facts)))
    assert expected in problem
    assert bool(problem) == bool(expected)


def test_a_launcher_counts_when_it_made_the_same_world():
    assert is_launched({0: Facts(launched=(0, 2)), 1: Facts(launched=(1, 2))})
    assert not is_launched({0: Facts(launched=(1, 2)), 1: Facts(launched=(0, 2))})
    assert not is_launched({0: Facts(launched=(0, 2)), 1: Facts()})


@pytest.mark.parametrize(
    ("environ", "launched"),
    [
        ({"PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, (0, 2)),
        ({"PMIX_RANK": "1", "SLURM_NTASKS": "2"}, (1, 2)),
        ({"PMI_RANK": "3"}, None),
        ({"PMI_RANK": "a", "PMI_SIZE": "4"}, None),
        ({}, None),
    ],
)
def test_launchers_are_known_by_what_they_leave(environ, launched):
    assert find_launched(environ) == launched


@pytest.mark.parametrize(
    ("said", "short", "is_like"),
    [
        ("MPICH Version:      5.0.2\nMPICH Release date: x", "MPICH 5.0.2", True),
        ("MVAPICH2 Version      :\t2.3.7\n", "MVAPICH2 2.3.7", True),
        (
            "Intel(R) MPI Library 2021.18 for Linux* OS\n",
            "Intel(R) MPI Library 2021.18 for Linux* OS",
            True,
        ),
        ("Open MPI v5.0.11, package: Open MPI x", "Open MPI v5.0.11", False),
        (
            "MPI VERSION    : CRAY MPICH version 8.1.25 (ANL base 3.4a2)",
            "MPI VERSION CRAY MPICH version 8.1.25 (ANL base 3.4a2)",
            False,
        ),
    ],
)
def test_libraries_are_named_by_what_they_say_of_themselves(said, short, is_like):
    assert shorten_version(said) == short
    assert is_like_mpich(short) == is_like


def test_the_environment_comes_back_however_often_mpi_is_begun(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "9")
    environment = StartingEnvironment()
    environment.enter(7, 0, 2)
    environment.enter(8, 0, 2)
    assert (os.environ["PMI_FD"], os.environ["PMI_SIZE"]) == ("8", "2")
    environment.leave()
    environment.leave()
    assert os.environ["PMI_SIZE"] == "9"
    assert "PMI_FD" not in os.environ


def test_names_are_read_from_code_and_not_from_its_texts():
    assert find_names("print('MPI')  # MPI") == {"print"}
    assert "mpi4py" in find_names("from mpi4py import MPI as m")
    assert "mpi4py" in find_names("import mpi4py.MPI")
    assert "MPI" in find_names("%time MPI.COMM_WORLD")


# --- no new processes ---


def test_pools_that_would_wait_for_new_processes_are_refused(mpi, library):
    (library / "futures").mkdir()
    (library / "futures" / "__init__.py").write_text("")
    (library / "futures" / "_core.py").write_text("class SpawnPool: ...")
    from mpi4py.futures import _core

    with pytest.raises(FrameworkError, match="MPICommExecutor"):
        _core.SpawnPool("executor")


@pytest.mark.parametrize(
    ("module", "text", "is_meant"),
    [
        ("mpi4py.MPI", "internal_Comm_spawn(102): MPI_Comm_spawn(command=python) failed", True),
        ("mpi4py.MPI", "MPI_ERR_TRUNCATE: message truncated", False),
        ("mine", "MPI_Comm_spawn is no name", False),
    ],
)
def test_an_error_of_spawn_is_said_in_one_sentence(mpi, module, text, is_meant):
    error = type("Exception", (RuntimeError,), {"__module__": module})(text)
    meant = mpi.explain(error)
    assert isinstance(meant, FrameworkError) == is_meant
