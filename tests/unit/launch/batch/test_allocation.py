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


MPI = {"PMI_SIZE": "8", "MPI_LOCALNRANKS": "4"}
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
TASKS = {"SLURM_NTASKS_PER_NODE": "4", "SLURM_JOB_END_TIME": "1795353304"}
LSF = {"LSB_JOBID": "3", "LSB_HOSTS": "nodeA nodeA nodeB"}
LSF_COUNTED = {"LSB_JOBID": "3", "LSB_MCPU_HOSTS": "nodeA 4 nodeB 4"}
AB, ONE_TWO = ("nodeA", "nodeB"), ("node1", "node2")


@pytest.mark.parametrize(
    ("environ", "text", "found"),
    [
        ({"PATH": "/bin", "JOB_ID": "5"}, "", None),
        (SALLOC, "", Allocation("slurm", "12", 2, 0, ONE_TWO)),
        ({**SALLOC, **TASKS}, "", Allocation("slurm", "12", 2, 4, ONE_TWO, 1795353304.0)),
        ({**SALLOC, **MPI}, "", Allocation("slurm", "12", 2, 0, ONE_TWO)),
        (PBS, "nodeA\nnodeA\nnodeB\nnodeB\n", Allocation("pbs", "7", 2, 2, AB)),
        (PBS, "nodeA\nnodeB\n", Allocation("pbs", "7", 2, 0, AB)),
        (LSF, "", Allocation("lsf", "3", 2, 0, AB)),
        (LSF_COUNTED, "", Allocation("lsf", "3", 2, 4, AB)),
        (SGE, "nodeA 8 all.q@nodeA UNDEFINED\nnodeB 8 x\n", Allocation("sge", "5", 2, 8, AB)),
        (OPEN_MPI, "", Allocation("mpi", "", 2, 4)),
        (MPI, "", Allocation("mpi", "", 2, 4)),
    ],
    ids=[
        *("nothing", "slurm", "slurm with tasks and an end", "a scheduler before mpiexec"),
        *("pbs, a line for each task", "pbs, a line for each node", "lsf", "lsf, counted"),
        *("grid engine", "open mpi", "mpich"),
    ],
)
def test_what_is_around_us_is_found(environ, text, found):
    assert find(environ, text) == found


def test_an_allocation_is_named_by_its_number_if_it_has_one():
    assert (find(SALLOC).label, find(MPI).label) == ("Slurm job 12", "mpiexec")


def test_a_file_of_nodes_that_cannot_be_read_is_no_allocation():
    def read(path):
        raise FileNotFoundError(path)

    assert find_allocation(PBS, read) is None


def test_an_allocation_that_is_too_small_is_refused_naming_both():
    with pytest.raises(UsageError, match=r"^3 nodes .*Slurm job 12 .*2 nodes.* --nodes 2,"):
        check_room(find(SALLOC), 3)
    check_room(find(SALLOC), 2)


def test_more_slots_than_an_allocation_has_on_each_node_are_refused_naming_both():
    has_four = find({**SALLOC, "SLURM_NTASKS_PER_NODE": "4"})
    with pytest.raises(UsageError, match=r"^8 slots .*Slurm job 12 .*has 4\..* --slots 4,"):
        check_room(has_four, 2, 8)
    check_room(has_four, 2, 4)
    check_room(find(SALLOC), 2, 8)
    check_room(find({**SALLOC, "SLURM_NTASKS_PER_NODE": "1"}), 2, 8)
