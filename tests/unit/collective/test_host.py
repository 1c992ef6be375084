import threading

import numpy as np
import pytest
from fakes.host_transport import LOST, communicator

from jupyter_dist.collective.group import Group
from jupyter_dist.errors import CommunicatorError, PeerFailed, UsageError

GIVEN = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def lone():
    return communicator(size=1)[0]


# --- alone ---------------------------------------------------------------------------------------

ALONE = {
    "all_reduce": ((GIVEN, "avg"), GIVEN),
    "broadcast": ((GIVEN, 0), GIVEN),
    "reduce": ((GIVEN, 0, "prod"), GIVEN),
    "all_gather": ((GIVEN,), GIVEN[None]),
    "gather": ((GIVEN, 0), GIVEN[None]),
    "reduce_scatter": ((GIVEN[None], "max"), GIVEN),
    "all_to_all": ((GIVEN[None],), GIVEN[None]),
    "scatter": ((GIVEN[None], 0), GIVEN),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_rank_that_is_alone_gets_its_own(lone, name):
    given, wanted = ALONE[name]
    before = given[0].copy()
    found = getattr(lone, name)(*given)
    assert found.tolist() == wanted.tolist()
    assert not np.shares_memory(found, given[0])
    assert given[0].tolist() == before.tolist()


@pytest.mark.parametrize("given", [3, 2.5, True, 1j])
def test_a_scalar_gives_a_scalar(lone, given):
    assert lone.all_reduce(given) == given
    assert np.ndim(lone.broadcast(given)) == 0
    assert not isinstance(lone.broadcast(given), np.ndarray)


def test_a_row_of_a_big_endian_array_stays_big_endian(lone):
    assert lone.scatter(np.ones(1, ">f8")).dtype == ">f8"


# --- results -------------------------------------------------------------------------------------


def test_the_others_of_a_reduce_and_a_gather_get_nothing():
    comm, _transport = communicator(rank=1)
    assert comm.reduce(GIVEN, 0) is None
    assert comm.gather(GIVEN, 0) is None


def test_a_result_in_out_is_that_out(comm):
    out = np.zeros_like(GIVEN)
    assert comm.all_reduce(GIVEN, out=out) is out
    assert out.tolist() == (2 * GIVEN).tolist()


def test_a_call_that_fails_leaves_out_and_input_as_they_were(comm, transport):
    transport.failure = LOST
    out, given = np.zeros_like(GIVEN), GIVEN.copy()
    with pytest.raises(PeerFailed):
        comm.all_reduce(given, out=out)
    assert out.tolist() == np.zeros_like(GIVEN).tolist()
    assert given.tolist() == GIVEN.tolist()
    assert transport.left == [LOST]


def test_a_broken_communicator_asks_its_transport_for_nothing_more(comm, transport):
    transport.failure = LOST
    with pytest.raises(PeerFailed):
        comm.barrier()
    for call in (comm.barrier, lambda: comm.send(1.0, 1), lambda: comm.split(0)):
        with pytest.raises(PeerFailed, match=LOST.text):
            call()
    assert transport.calls == ["barrier() #1"]
    assert transport.prepared == 0


# --- settings ------------------------------------------------------------------------------------


def test_a_deadline_holds_for_each_call_and_for_what_is_split_off(comm, transport):
    comm.timeout_s = 2.5
    child = comm.split(0)
    assert child.timeout_s == 2.5
    comm.barrier()
    assert transport.entered[-1] == (2.5, "")


@pytest.mark.parametrize("given", [0, -1.0, float("nan"), float("inf")])
def test_a_deadline_is_positive_and_finite(comm, given):
    with pytest.raises(UsageError, match=f"timeout_s={given}"):
        comm.timeout_s = given


def test_participants_are_given_and_told_in_ranks_of_the_communicator():
    comm, _transport = communicator(rank=1, label="2,5", world_ranks=(2, 5))
    comm.participants = frozenset({1})
    assert comm.participants == {1}
    with pytest.raises(CommunicatorError, match="rank 5"):
        comm.barrier()


def test_it_reads_as_what_it_is(comm):
    assert repr(comm) == "<echo communicator: rank 0 of 2>"
    assert repr(comm.split(0)) == "<echo communicator: group 0-1, rank 0 of 2>"


# --- communicators that are split off ------------------------------------------------------------


def test_what_is_split_off_has_a_transport_and_numbers_of_its_own(comm, transport):
    comm.barrier()
    child = comm.split(4, key=9)
    [(group, told, number, child_transport)] = transport.children
    assert group == Group(0, 2, 3, "0-1", (0, 1))
    assert told == ["door 1", "door 1"]
    assert number == 2, "each split has another number, and so another key"
    child.barrier()
    comm.barrier()
    assert child_transport.calls == ["barrier() #1 in group 0-1"]
    assert transport.calls[-1] == "barrier() #3"


def test_a_rank_without_a_color_prepares_nothing(comm, transport):
    assert comm.split(None) is None
    assert transport.prepared == 0


def test_an_abort_reaches_what_was_split_off(comm, transport):
    child = comm.split(0)
    grandchild = child.split(0)
    comm.abort(1, "raised ValueError")
    for one in (comm, child, grandchild):
        with pytest.raises(PeerFailed, match="rank 1 raised ValueError"):
            one.barrier()
    assert [breakage.rank for breakage in transport.aborted] == [1]


def test_an_abort_in_the_middle_of_a_split_ends_the_new_one_as_well(comm, transport, monkeypatch):
    split = transport.split

    def split_and_abort(*told):
        link = threading.Thread(target=comm.abort, args=(1, "raised ValueError"))
        link.start()
        link.join()
        return split(*told)

    monkeypatch.setattr(transport, "split", split_and_abort)
    with pytest.raises(PeerFailed, match="rank 1 raised ValueError"):
        comm.split(0)
    assert transport.children[0][3].is_closed


def test_a_close_reaches_what_was_split_off(comm, transport):
    child = comm.split(0)
    comm.close()
    comm.close()
    assert transport.is_closed
    assert transport.children[0][3].is_closed
    for one in (comm, child):
        with pytest.raises(CommunicatorError, match="closed"):
            one.barrier()
