import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.batch.allocation import Allocation, check_room, find_allocation

SALLOC = {
    "SLURM_JOB_ID": "12",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_NODELIST": "node[1-2]",
    "SLURM_TASKS_PER_NODE": "2(x2)",
}
PBS = {"PBS_JOBID": "7.pbs01", "PBS_NODEFILE": "/var/spool/pbs/aux/7.pbs01"}
SGE = {"JOB_ID": "5", "PE_HOSTFILE": "/spool/pe_hostfile"}


def find(environ, text=""):
    return find_allocation(environ, lambda _path: text)


def test_nothing_around_us_is_no_allocation():
    assert find({"PATH": "/bin", "JOB_ID": "5"}) is None


def test_an_allocation_of_slurm():
    assert find(SALLOC) == Allocation("slurm", "12", 2, 0, ("node1", "node2"))


def test_slurm_may_say_how_many_tasks_and_until_when():
    found = find({**SALLOC, "SLURM_NTASKS_PER_NODE": "4", "SLURM_JOB_END_TIME": "1795353304"})
    assert found.slots_per_node == 4
    assert found.ends_at_s == 1795353304


def test_an_allocation_of_pbs_has_a_line_for_each_task():
    found = find(PBS, "nodeA\nnodeA\nnodeB\nnodeB\n")
    assert found == Allocation("pbs", "7", 2, 2, ("nodeA", "nodeB"))


def test_one_line_for_each_node_says_nothing_of_slots():
    assert find(PBS, "nodeA\nnodeB\n").slots_per_node == 0


def test_an_allocation_of_lsf():
    known = {"LSB_JOBID": "3", "LSB_HOSTS": "nodeA nodeA nodeB"}
    assert find(known) == Allocation("lsf", "3", 2, 0, ("nodeA", "nodeB"))
    counted = {"LSB_JOBID": "3", "LSB_MCPU_HOSTS": "nodeA 4 nodeB 4"}
    assert find(counted) == Allocation("lsf", "3", 2, 4, ("nodeA", "nodeB"))


def test_an_allocation_of_grid_engine():
    found = find(SGE, "nodeA 8 all.q@nodeA UNDEFINED\nnodeB 8 all.q@nodeB UNDEFINED\n")
    assert found == Allocation("sge", "5", 2, 8, ("nodeA", "nodeB"))


@pytest.mark.parametrize(
    "environ",
    [
        {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
        {"PMI_SIZE": "8", "MPI_LOCALNRANKS": "4"},
    ],
)
def test_mpiexec_around_us_is_an_allocation_without_a_number(environ):
    found = find(environ)
    assert found == Allocation("mpi", "", 2, 4)
    assert found.label == "mpiexec"


def test_a_scheduler_counts_more_than_the_mpiexec_within_it():
    assert find({**SALLOC, "PMI_SIZE": "8", "MPI_LOCALNRANKS": "4"}).system == "slurm"


def test_a_file_of_nodes_that_cannot_be_read_is_no_allocation():
    def read(path):
        raise FileNotFoundError(path)

    assert find_allocation(PBS, read) is None


def test_an_allocation_that_is_too_small_is_refused_naming_both():
    with pytest.raises(UsageError) as caught:
        check_room(find(SALLOC), 3)
    assert str(caught.value) == (
        "3 nodes are asked for, but Slurm job 12 around this process has 2 nodes. "
        "Take --nodes 2, or ask the scheduler for a larger allocation."
    )
    check_room(find(SALLOC), 2)


def test_more_slots_than_an_allocation_has_on_each_node_are_refused_naming_both():
    has_four = find({**SALLOC, "SLURM_NTASKS_PER_NODE": "4"})
    with pytest.raises(UsageError) as caught:
        check_room(has_four, 2, 8)
    assert str(caught.value) == (
        "8 slots on each node are asked for, but Slurm job 12 around this process has 4. "
        "Take --slots 4, or ask the scheduler for a larger allocation."
    )
    check_room(has_four, 2, 4)
    check_room(find(SALLOC), 2, 8)
    check_room(find({**SALLOC, "SLURM_NTASKS_PER_NODE": "1"}), 2, 8)
