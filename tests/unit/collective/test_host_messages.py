import numpy as np
import pytest
from fakes.host_transport import communicator

from jupyter_dist.errors import CommunicatorError, UsageError

GIVEN = np.arange(6.0).reshape(2, 3)


# --- messages ------------------------------------------------------------------------------------


def test_messages_are_counted_for_each_peer():
    comm, transport = communicator(size=3)
    for dest in (1, 2, 1):
        comm.send(GIVEN, dest)
    comm.recv(GIVEN.copy(), 1)
    assert [call.partition(")")[2] for call in transport.calls] == [" #1", " #1", " #2", " #1"]
    assert transport.calls[0] == "send(float64[2,3], dest=1) #1"
    assert transport.calls[3] == "recv(float64[2,3], source=1) #1"


def test_both_ends_of_a_message_write_it_alike():
    comm, transport = communicator(rank=0)
    other, other_transport = communicator(rank=1)
    comm.send(GIVEN, 1)
    other.recv(GIVEN.copy(), 0)
    [sent], _received = transport.exchanged[0]
    _sent, [received] = other_transport.exchanged[0]
    assert sent.call == received.call


def test_a_template_that_cannot_be_filled_gives_a_new_array(comm):
    locked = GIVEN.copy()
    locked.flags.writeable = False
    assert comm.recv(locked, 1) is not locked
    assert comm.recv([1.0, 2.0], 1).tolist() == [0.0, 0.0]
    assert comm.recv(7, 1) == 0


def test_a_rank_may_send_to_itself_and_keeps_the_order(comm, transport):
    comm.send(GIVEN, 0)
    comm.send(GIVEN + 1, 0)
    output = np.empty_like(GIVEN)
    assert comm.recv(output, 0) is output
    assert output.tolist() == GIVEN.tolist()
    assert comm.send_recv(GIVEN + 2, 0, output, 0).tolist() == (GIVEN + 1).tolist()
    assert transport.calls == []


def test_what_a_rank_has_not_sent_itself_it_cannot_receive(comm):
    with pytest.raises(CommunicatorError, match=r"^rank 0 receives"):
        comm.recv(GIVEN.copy(), 0)
    comm.send([1, 2], 0)
    with pytest.raises(CommunicatorError, match=r"int64\[2\].*float64\[2, ?3\]"):
        comm.recv(GIVEN.copy(), 0)
    assert comm.recv([0, 0], 0).tolist() == [1, 2]


def test_a_refused_send_recv_sends_nothing(comm, transport):
    for dest in (0, 1):
        with pytest.raises(TypeError):
            comm.send_recv(GIVEN, dest, "text", 1)
    with pytest.raises(CommunicatorError, match=r"^rank 0 receives"):
        comm.recv(GIVEN.copy(), 0)
    comm.send(GIVEN, 1)
    assert transport.calls == ["send(float64[2,3], dest=1) #1"]


# --- groups of calls -----------------------------------------------------------------------------


def test_calls_of_a_group_begin_at_its_end_and_collectives_last(comm, transport):
    output = np.ones_like(GIVEN)
    with comm.group():
        total = comm.all_reduce(GIVEN)
        comm.recv(output, 1)
        comm.send(GIVEN, 1)
        comm.barrier()
        assert transport.calls == []
        assert output.tolist() == np.ones_like(GIVEN).tolist()
    assert transport.calls == ["group() #1", "all_reduce(float64[2,3], sum) #1", "barrier() #2"]
    assert total.tolist() == (2 * GIVEN).tolist()
    assert output.tolist() == np.zeros_like(GIVEN).tolist()


def test_in_a_group_a_rank_may_receive_from_itself_before_it_sends(comm, transport):
    output = np.empty_like(GIVEN)
    with comm.group():
        pass
    with comm.group():
        comm.recv(output, 0)
        comm.send(GIVEN, 0)
    assert output.tolist() == GIVEN.tolist()
    assert transport.calls == []


@pytest.mark.parametrize("name", ["all_reduce", "recv"])
def test_a_scalar_that_cannot_come_later_is_refused_in_a_group(comm, transport, name):
    arguments = (3.0, 1) if name == "recv" else (3.0,)
    with pytest.raises(UsageError, match=r"comm\.group\(\)"), comm.group():
        getattr(comm, name)(*arguments)
    comm.barrier()
    assert transport.calls == ["barrier() #1"]


def test_a_list_gives_an_array_that_is_filled_at_the_end_of_a_group(comm):
    with comm.group():
        found = comm.all_reduce([1.0, 2.0])
    assert found.tolist() == [2.0, 4.0]


def begin_and_raise(comm):
    with comm.group():
        comm.send(GIVEN, 1)
        comm.send(GIVEN, 0)
        comm.all_reduce(GIVEN)
        raise ZeroDivisionError


def test_a_block_that_raises_sends_nothing_and_leaves_the_rank_in_step(comm, transport):
    with pytest.raises(ZeroDivisionError):
        begin_and_raise(comm)
    comm.send(GIVEN, 1)
    comm.barrier()
    assert transport.calls == ["send(float64[2,3], dest=1) #1", "barrier() #1"]
    with pytest.raises(CommunicatorError, match=r"^rank 0 receives"):
        comm.recv(GIVEN.copy(), 0)


def test_groups_do_not_nest_and_nothing_is_split_off_inside(comm, transport):
    with pytest.raises(UsageError, match="open already"), comm.group(), comm.group():
        pass
    with pytest.raises(UsageError, match="split"), comm.group():
        comm.split(0)
    assert transport.prepared == 0
    assert comm.split(0).size == 2
