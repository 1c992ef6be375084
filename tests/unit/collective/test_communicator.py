import numpy as np
import pytest

from jupyter_dist.collective.communicator import Communicator, NoCommunicator
from jupyter_dist.collective.group import Group
from jupyter_dist.errors import CommunicatorError

ARRAY = np.ones(2)
CALLS = {
    "all_reduce": (ARRAY,),
    "broadcast": (ARRAY,),
    "reduce": (ARRAY,),
    "all_gather": (ARRAY,),
    "reduce_scatter": (ARRAY,),
    "all_to_all": (ARRAY,),
    "gather": (ARRAY,),
    "scatter": (ARRAY,),
    "send": (ARRAY, 0),
    "recv": (ARRAY, 0),
    "send_recv": (ARRAY, 0, ARRAY, 0),
    "group": (),
    "split": (0,),
}


@pytest.mark.parametrize("name", CALLS)
def test_without_a_communicator_each_method_says_how_to_get_one(name):
    comm: Communicator = NoCommunicator(Group(2, 4, 1))
    with pytest.raises(CommunicatorError, match="%dist_start --comm auto"):
        getattr(comm, name)(*CALLS[name])


def test_the_reason_for_having_none_is_told():
    comm = NoCommunicator(Group(0, 1, 0), "the ranks have not met yet")
    with pytest.raises(CommunicatorError, match="the ranks have not met yet"):
        comm.all_reduce(1)


def test_ending_no_communicator_is_fine():
    comm = NoCommunicator(Group(0, 1, 0))
    comm.abort(1, "raised")
    comm.close()
    assert comm.kind == "none"
