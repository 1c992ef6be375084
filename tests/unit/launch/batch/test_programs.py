"""What starts agents within an allocation or by mpiexec, and what they know of their surroundings."""

import sysconfig

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.batch import launchers, programs
from jupyter_dist.launch.batch.allocation import Allocation
from jupyter_dist.launch.batch.commands import CommandOutput, environment_outside
from jupyter_dist.launch.batch.submission import check_available
from jupyter_dist.launch.workers import on_worker
from jupyter_dist.model.spec.batch import VARIABLES_OF_MPI


def test_a_new_job_knows_nothing_of_the_one_around_it():
    around = {"SLURM_JOB_ID": "3", "SLURM_CPU_BIND": "x", "SLURM_CONF": "/etc/s", "HOME": "/h"}
    assert environment_outside(around) == {"SLURM_CONF": "/etc/s", "HOME": "/h"}
    alone = {"SLURM_CPU_BIND": "none", "HOME": "/h"}
    assert environment_outside(alone) == alone


@pytest.mark.parametrize(
    ("sign", "kept", "left"),
    [
        ("PBS_JOBID", "PBS_SERVER", "PBS_NODEFILE"),
        ("PBS_JOBID", "PBS_CONF_FILE", "PBS_O_HOME"),
        ("LSB_JOBID", "LSB_DEFAULTQUEUE", "LSB_HOSTS"),
        ("LSB_JOBID", "LSB_DEFAULTPROJECT", "LSB_QUEUE"),
    ],
)
def test_what_is_about_the_site_is_known_to_a_new_job_too(sign, kept, left):
    assert environment_outside({sign: "7", kept: "x", left: "y"}) == {kept: "x"}


def test_agents_on_engines_of_others_forget_the_same_of_mpi():
    assert set(on_worker.FOREIGN) > set(VARIABLES_OF_MPI)


def test_mpiexec_knows_nothing_of_the_mpi_around_it():
    around = {"PMI_RANK": "0", "PMI_FD": "7", "OMPI_MCA_btl": "tcp", "HOME": "/h"}
    assert programs.environment_for_mpiexec(around) == {"HOME": "/h", "I_MPI_PIN": "0"}
    alone = {"OMPI_MCA_btl": "tcp", "I_MPI_PIN": "1"}
    assert programs.environment_for_mpiexec(alone) == alone


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ("HYDRA build details:\n    Version: 5.0.2\n", ["-ppn", "1"]),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9\n", ["-ppn", "1"]),
        ("mpiexec (Open MPI) 5.0.11\n", ["--map-by", "node", "--bind-to", "none"]),
        ("something else\n", []),
    ],
)
def test_each_mpiexec_is_asked_for_one_agent_on_each_node(said, options):
    assert programs.mpiexec_options(lambda _words: CommandOutput(0, said)) == options


@pytest.fixture
def bare_path(tmp_path, monkeypatch):
    """Have no mpiexec on PATH, and one in the environment that this Python is of."""
    monkeypatch.setenv("PATH", str(tmp_path / "usr"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path / "env"))
    mpiexec = tmp_path / "env" / "mpiexec"
    mpiexec.parent.mkdir()
    mpiexec.touch(0o700)
    return mpiexec


def test_mpiexec_is_found_where_no_environment_was_activated(bare_path):
    check_available("mpi")
    assert launchers.mpiexec_words(1, [], ["x"])[0] == str(bare_path)
    asked = []

    def run(words):
        asked.append(words)
        return CommandOutput(0, "HYDRA")

    assert programs.mpiexec_options(run) == ["-ppn", "1"]
    assert asked == [[str(bare_path), "--version"]]


def test_no_mpiexec_is_told_with_both_places_where_it_was_looked_for(bare_path):
    bare_path.unlink()
    with pytest.raises(UsageError, match=r"^mpiexec .*PATH.*environment"):
        check_available("mpi")


def test_mpiexec_has_its_arguments_before_the_program():
    options, program = ["-ppn", "1", "-hosts", "a,b"], ["sh", "/my jobs/x.sh"]
    mpiexec = programs.find_mpiexec() or "mpiexec"
    assert launchers.mpiexec_words(2, options, program) == [mpiexec, "-n", "2", *options, *program]


@pytest.mark.parametrize(
    ("system", "start"),
    [("pbs", "pbs_tmrsh"), ("lsf", "blaunch"), ("sge", "qrsh -inherit -nostdin -V")],
)
def test_the_first_nodes_of_an_allocation_get_an_agent_each(system, start):
    allocation = Allocation(system, "7", 3, hosts=("a", "b", "c"))
    *shell, script, name, first, second = programs.loop_words(allocation, 2, ["sh", "/x.sh"])
    assert (shell, name, first, second) == (["sh", "-c"], "sh", "a", "b")
    assert f'{start} "$host" sh /x.sh &' in script
