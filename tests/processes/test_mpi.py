"""`from mpi4py import MPI` in a cell: one world of the cluster's ranks, or an error that says why."""

import contextlib
import socket
from contextlib import closing
from pathlib import Path

import pytest

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.mpi.library import is_like_mpich, name_library
from jupyter_dist.frameworks.mpi.pmi import join_world, map_processes, serve
from jupyter_dist.model.hosts.addresses import split_address

from .leftovers import kill_ranks, wait_until
from .results import errors, values

IMPORT = "from mpi4py import MPI\n"


def why_no_mpich():
    """Say why MPI cannot be tried here; empty: it can."""
    try:
        import mpi4py
    except ImportError:
        return "mpi4py is not installed (pip install mpi4py mpich)"
    try:
        library = name_library(mpi4py)
    except FrameworkError as error:
        return str(error)
    return "" if is_like_mpich(library) else f"mpi4py uses {library} here, not MPICH"


needs_mpich = pytest.mark.skipif(bool(why_no_mpich()), reason=why_no_mpich())


def segments():
    """Shared memory of MPICH's, by its names."""
    return sorted(path.name for path in Path("/dev/shm").glob("mpich_shm_*"))


@pytest.fixture
def tidy():
    """Nothing of MPI's may be left in /dev/shm."""
    before = segments()
    yield
    assert segments() == before


# --- with MPICH ---


@needs_mpich
def test_ranks_are_one_world_of_mpi_and_programs_of_theirs_are_others(start, tidy, within):
    cluster = start("localhost:4")
    with within(10):
        found = values(cluster.run(IMPORT + "MPI.COMM_WORLD.allreduce(rank + 1)", timeout_s=90))
    assert found == ["10"] * 4
    code = "world = MPI.COMM_WORLD\nworld.Get_rank() == rank, world.Get_size() == world_size"
    assert values(cluster.run(code)) == ["(True, True)"] * 4
    code = (
        "import numpy as np\nx = np.full(1_000_000, rank + 1.0)\ny = np.empty_like(x)\n"
        "world.Allreduce(x, y)\nfloat(y[-1]), world.Split(rank % 2, rank).allreduce(rank)"
    )
    assert values(cluster.run(code)) == ["(10.0, 2)", "(10.0, 4)"] * 2
    code = (
        "import subprocess, sys\n"
        "code = 'from mpi4py import MPI; print(MPI.COMM_WORLD.Get_size())'\n"
        "subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout"
    )
    assert values(cluster.run(code, timeout_s=90)) == ["'1\\n'"] * 4
    values(cluster.run("MPI.Finalize()", timeout_s=90))
    assert values(cluster.run("MPI.COMM_WORLD.allreduce(1)", timeout_s=90)) == ["4"] * 4


@needs_mpich
def test_an_outer_launcher_does_not_disturb(start, tidy):
    cluster = start("localhost:2", env={"PMI_RANK": "0", "PMI_SIZE": "1", "PMIX_RANK": "0"})
    assert values(cluster.run(IMPORT + "MPI.COMM_WORLD.Get_size()", timeout_s=90)) == ["2", "2"]
    assert values(cluster.run("import os\nos.environ['PMI_SIZE']")) == ["'1'", "'1'"]


@needs_mpich
def test_a_lost_rank_ends_mpi_but_not_the_cluster(start, tidy, within):
    cluster = start("localhost:3")
    values(cluster.run(IMPORT + "MPI.COMM_WORLD.allreduce(1)", timeout_s=90))
    values(cluster.run("kept = rank"))
    kill_ranks(cluster, 1)
    healed = cluster.heal()
    assert any("MPI cannot" in note for note in healed.notes), healed
    assert values(cluster.run("kept", [0, 2])) == ["0", "2"]
    assert values(cluster.run("float(comm.all_reduce(1.0))")) == ["3.0"] * 3
    with within(10):
        result = cluster.run(IMPORT + "MPI.COMM_WORLD.allreduce(1)", timeout_s=90)
    assert all("MPI cannot" in each for each in errors(result)), errors(result)
    assert "MPI" not in str(cluster.heal([1])), "it is told once"
    cluster.heal([0, 1, 2])  # new processes on all ranks are a new world
    assert values(cluster.run(IMPORT + "MPI.COMM_WORLD.allreduce(1)", timeout_s=90)) == ["3"] * 3


@needs_mpich
def test_a_rank_that_does_not_import_is_named_and_nobody_waits(start, tidy, within):
    cluster = start("localhost:2")
    with within(10):
        result = cluster.run("if rank == 0:\n    from mpi4py import MPI", timeout_s=90)
    assert "rank 1" in errors(result)[0]
    assert values(cluster.run(IMPORT + "MPI.COMM_WORLD.allreduce(1)", timeout_s=90)) == ["2", "2"]
    assert values(cluster.run(IMPORT + "MPI.COMM_WORLD.Get_rank()", [1])) == ["1"]


@pytest.mark.slow
@needs_mpich
def test_ranks_that_wait_in_mpi_are_told_of_and_can_be_replaced(start, tidy, within):
    cluster = start("localhost:2")
    values(cluster.run(IMPORT, timeout_s=90))
    code = "if rank == 1:\n    raise ValueError('gone')\nMPI.COMM_WORLD.Barrier()"
    with within(20):
        result = cluster.run(code, timeout_s=3)
    assert [rank.status for rank in result] == ["timed_out", "raised"]
    with within(20):
        cluster.heal([0])
    assert values(cluster.run("rank")) == ["0", "1"]


# --- without ---


@pytest.fixture
def other_mpi(tmp_path, monkeypatch):
    """An mpi4py that was built for a library that is not there."""
    package = tmp_path / "site" / "mpi4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "MPI.py").write_text("raise AssertionError('MPI would start')\n")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


@pytest.mark.usefixtures("other_mpi")
def test_without_a_library_the_import_is_an_error_on_all_ranks(start, within):
    cluster = start("localhost:2")
    with within(10):
        found = errors(cluster.run("from mpi4py import MPI", timeout_s=90))
    assert all("ranks 0-1: mpi4py" in each for each in found), found
    code = "try:\n    from mpi4py import MPI\nexcept ImportError:\n    MPI = None\nMPI is None"
    assert values(cluster.run(code, timeout_s=90)) == ["True", "True"]


# --- the service on its own ---


def test_the_service_gives_a_place_to_each_rank_and_none_to_strangers():
    server = serve("127.0.0.1:0", 2)
    where, _, secret = server.address.rpartition("/")
    mapping = map_processes([0, 0])
    ranks = [socket.socket(fileno=join_world(server.address, rank, mapping)) for rank in (0, 1)]
    with closing(ranks[0]), closing(ranks[1]):
        for one in ranks:
            one.settimeout(5)
            one.sendall(b"cmd=barrier_in\n")
        assert [one.recv(100) for one in ranks] == [b"cmd=barrier_out rc=0\n"] * 2
        with pytest.raises(FrameworkError, match="rank 1"):
            join_world(server.address, 1, mapping)
        with pytest.raises(FrameworkError, match="rank 0"):
            join_world(f"{where}/{secret[:-1]}x", 0, mapping)
        with socket.create_connection(split_address(where), timeout=5) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\n")
            assert stranger.recv(1) == b""
    socket.socket(fileno=join_world_when_free(server.address, mapping)).close()


def join_world_when_free(address, mapping):
    """Take the place of rank 0 as soon as the service knows that it is free."""
    found = []

    def try_it():
        with contextlib.suppress(FrameworkError):
            found.append(join_world(address, 0, mapping))
        return bool(found)

    wait_until(try_it, 5, "the place is free again")
    return found[0]


def test_an_address_in_use_is_an_error_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FrameworkError, match=f"127.0.0.1:{port}"):
            serve(f"127.0.0.1:{port}", 2)
