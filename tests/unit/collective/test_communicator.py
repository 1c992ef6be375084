import pytest

from jupyter_dist.collective.communicator import Communicator, NoCommunicator
from jupyter_dist.collective.group import Group
from jupyter_dist.errors import CommunicatorError

CALLS = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "gather"),
    *("scatter", "send", "recv", "send_recv", "group", "split"),
)


@pytest.mark.parametrize("name", CALLS)
def test_without_a_communicator_each_method_says_how_to_get_one(name):
    comm: Communicator = NoCommunicator(Group(2, 4, 1))
    with pytest.raises(CommunicatorError, match="%dist_start --comm auto"):
        getattr(comm, name)(1, stream=None)


def test_the_reason_for_having_none_is_told():
    comm = NoCommunicator(Group(0, 1, 0), "unlucky")
    with pytest.raises(CommunicatorError, match="unlucky"):
        comm.all_reduce(1)


def test_ending_no_communicator_is_fine():
    comm = NoCommunicator(Group(0, 1, 0))
    comm.abort(1, "raised")
    comm.close()
    assert comm.kind == "none"
