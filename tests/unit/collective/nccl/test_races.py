"""What two threads, or a call and an abort, may do to each other; and what groups refuse."""

import threading
import time

import numpy as np
import pytest
from fakes.gpus import alone, on_gpus, streams_of

from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.group import Group, Scope
from jupyter_dist.collective.nccl import device
from jupyter_dist.collective.nccl.clique import Clique
from jupyter_dist.errors import CollectiveTimeout, CommunicatorError, PeerFailed, UsageError

LOST = Breakage("failed", 1, "is lost")


@pytest.fixture
def rank():
    """The one rank of a communicator, and its machine; this is the main thread."""
    with alone() as (comm, machine):
        yield comm, machine
        assert not machine.nccl.misuse


@pytest.fixture
def busy(rank):
    """The same, with a call on the device that does not end before the test does."""
    comm, machine = rank
    gate = threading.Event()
    comm.all_reduce(machine.cupy.asarray(np.ones(1)))
    comm.settle()
    machine.cupy.stream.put(lambda: gate.wait(10))
    comm.all_reduce(machine.cupy.asarray(np.ones(4)))
    yield comm, machine
    gate.set()


def in_thread(action, *arguments):
    thread = threading.Thread(target=action, args=arguments)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def slow(name):
    """A property that gives other threads time between a look and what follows it."""

    def read(self):
        found = self.__dict__.get(name)
        time.sleep(0.05)
        return found

    return property(read, lambda self, value: self.__dict__.__setitem__(name, value))


def test_the_main_thread_does_not_wake_itself_on_the_way_to_an_abort(busy):
    comm, machine = busy
    comm.abort(1, "is lost")
    comm._device.clique.await_end()
    assert machine.nccl.aborted == [0]
    assert machine.wakes == []
    with pytest.raises(PeerFailed, match="rank 1 is lost; all_reduce"):
        comm.settle()


def test_an_error_on_the_host_stays_what_it_is(busy, monkeypatch):
    def fail(*_):
        raise Broken(Breakage("timeout", 0, "waited 1 s for rank 1"))

    comm, machine = busy
    monkeypatch.setattr(comm._host._transport, "all_reduce", fail)
    with pytest.raises(CollectiveTimeout, match=r"waited 1 s for rank 1$"):
        comm.all_reduce(1)
    comm._device.clique.await_end()
    assert (machine.nccl.aborted, machine.wakes) == ([0], [])


def test_the_link_thread_may_look_while_the_device_is_loaded(rank, monkeypatch):
    comm, machine = rank
    usual = device.Watcher
    looked = []

    def make(*told):
        in_thread(lambda: looked.append(comm.look()))
        return usual(*told)

    monkeypatch.setattr(device, "Watcher", make)
    comm.all_reduce(machine.cupy.asarray(np.ones(1)))
    assert looked == [None]


def test_nccl_is_aborted_even_if_waking_fails(busy):
    comm, machine = busy

    def wake():
        raise ProcessLookupError

    comm._device._ways = device.Ways(machine._load, comm._device._ways.find_api, wake)

    def abort():
        with pytest.raises(ProcessLookupError):
            comm.abort(1, "is lost")

    in_thread(abort)
    comm._device.clique.await_end()
    assert machine.nccl.aborted == [0]


def test_an_abort_that_waited_for_a_call_is_told_when_that_leaves(busy, monkeypatch):
    comm, machine = busy

    def launch(*_):
        comm._device.log._ordered = LOST

    monkeypatch.setattr(comm._device, "_launch", launch)
    comm.all_reduce(machine.cupy.asarray(np.ones(1)))
    assert len(machine.wakes) == 1


@pytest.mark.parametrize("way", ["nccl4py", "cupy"])
def test_no_call_succeeds_when_an_abort_came_over_its_launch(way, monkeypatch):
    monkeypatch.setattr(device, "_LEAVE_PATIENCE_S", 0.01)
    with alone(way=way) as (comm, machine):
        x = machine.cupy.asarray(np.ones(1))
        comm.all_reduce(x)
        comm.settle()
        api = comm._device.clique.api
        usual = api.all_reduce

        def all_reduce(*told):
            usual(*told)
            in_thread(comm.abort, 1, "is lost")

        monkeypatch.setattr(api, "all_reduce", all_reduce)
        with pytest.raises(PeerFailed, match="rank 1 is lost"):
            comm.all_reduce(x)
        assert machine.recorder.ends == {0: True, 1: False}
        comm.settle()
    assert not machine.nccl.misuse


def test_an_abort_while_nccl_is_formed_is_told(rank, monkeypatch):
    comm, machine = rank
    clique = comm._device.clique

    def abort(*_):
        clique.lost = LOST
        clique.abort()

    monkeypatch.setattr(clique, "_tell_ready", abort)
    with pytest.raises(PeerFailed, match="rank 1 is lost"):
        comm.all_reduce(machine.cupy.asarray(np.ones(1)))
    clique.await_end()
    assert machine.nccl.aborted == [0]
    assert clique.handle is None


def test_two_threads_abort_nccl_once(busy, monkeypatch):
    comm, machine = busy
    clique = comm._device.clique
    monkeypatch.setattr(Clique, "handle", slow("handle"), raising=False)
    other = threading.Thread(target=clique.abort)
    other.start()
    clique.abort()
    other.join(10)
    clique.await_end()
    assert machine.nccl.aborted == [0]


def test_two_threads_break_a_journal_once(monkeypatch):
    monkeypatch.setattr(CallLog, "_failure", slow("_failure"), raising=False)
    broken = []
    log = CallLog(Group(0, 1, generation=1), Scope(), None, None, broken.append)
    other = threading.Thread(target=log.break_, args=(LOST,))
    other.start()
    log.break_(LOST)
    other.join(10)
    assert broken == [LOST]


def test_a_group_ends_on_the_stream_of_its_calls(rank):
    comm, machine = rank
    stream = machine.cupy.cuda.Stream()
    used = streams_of(comm)
    with comm.group(), stream:  # which is no more the current one when the group ends
        found = comm.all_reduce(machine.cupy.asarray(np.ones(2)))
    assert len(used) > 1
    assert set(used) == {stream.ptr}
    with stream:
        np.testing.assert_array_equal(found.get(), np.ones(2))


def test_a_group_copies_no_input_that_may_not_be_there_yet(rank):
    comm, machine = rank
    x = machine.cupy.asarray(np.ones((2, 2)))
    stack = machine.cupy.asarray(np.ones((1, 2)))
    with comm.group():
        for copying in (
            lambda: comm.all_reduce(x.T),
            lambda: comm.send(x.T, 0),
            lambda: comm.all_to_all(stack, out=stack),
        ):
            with pytest.raises(UsageError, match="C-contiguous"):
                copying()
    assert not comm.recorder.calls
    np.testing.assert_array_equal(comm.all_reduce(x.T).get(), np.ones((2, 2)))


def test_a_group_that_cannot_end_begins_neither_part(rank):
    comm, machine = rank
    stream = machine.cupy.cuda.Stream()
    with stream:
        x = machine.cupy.asarray(np.ones(2))

        def capture_too_early():
            with comm.group():
                comm.all_reduce(np.ones(2))
                comm.send(x, 0)
                stream.is_capturing = True

        with pytest.raises(UsageError, match="captured"):
            capture_too_early()
        stream.is_capturing = False
    assert not comm.recorder.calls
    assert not comm._device._messages.to_self


def test_nccl_is_not_formed_by_some_ranks_only(nccl):
    def check(comm, cupy):
        x = cupy.asarray(np.ones(2))
        ends = [lambda: comm.send(x, 1), lambda: comm.recv(x, 0)]
        comm.participants = frozenset([0, 1])
        if comm.rank < 2:
            for _ in range(2):
                with pytest.raises(CommunicatorError, match=r"ranks 0-1 only; .* 3 ranks"):
                    ends[comm.rank]()
            with pytest.raises(CommunicatorError, match="; group "), comm.group():
                ends[comm.rank]()
            assert not comm.recorder.calls
        comm.participants = None
        comm.all_reduce(x)
        comm.participants = frozenset([0, 1])
        if comm.rank < 2:
            ends[comm.rank]()
        comm.settle()
        return True

    assert on_gpus(3, check, nccl=nccl) == [True] * 3
