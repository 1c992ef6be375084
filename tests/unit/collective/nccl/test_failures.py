"""What becomes of calls on the device when something goes wrong."""

import re
import threading
import time

import numpy as np
import pytest
from fakes.control import on_ranks
from fakes.gpus import alone, machine_of, survive
from fakes.nccl_library import REMOTE_ERROR, SYSTEM_ERROR, FakeNccl

from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.nccl import clique, device
from jupyter_dist.errors import CollectiveTimeout, CommunicatorError, PeerFailed
from tests.patience import Stopwatch

WAYS = pytest.mark.parametrize("way", ["nccl4py", "cupy"])


def call(comm, machine):
    return comm.all_reduce(machine.cupy.asarray(np.ones(4)))


def look_for(comm, seconds):
    """Look as the link thread does, until there is something to raise."""
    watch = Stopwatch()
    while not watch.is_over(seconds):
        comm.look()
        if comm._device._lost is not None:
            return
        time.sleep(0.01)
    raise AssertionError("nothing was found")


@WAYS
def test_a_call_has_ended_when_the_device_says_so(way):
    nccl, go = FakeNccl(), threading.Event()

    def run(control):
        with machine_of(control, 2, nccl, way) as (comm, machine):
            comm.all_reduce(machine.cupy.asarray(np.ones(1)))
            comm.settle()
            if comm.rank:
                assert go.wait(10)
            call(comm, machine)
            comm.look()
            before = dict(machine.recorder.ends)
            go.set()
            comm.settle()
            return before, machine.recorder.ends

    assert on_ranks(2, run)[0] == ({0: True}, {0: True, 1: True})


@WAYS
def test_the_main_thread_is_woken_before_anything_is_aborted(way):
    def act(comm, machine):
        call(comm, machine)
        comm.abort(1, "is lost: killed by SIGKILL")
        error = comm.lost_error()
        assert comm.lost_error() is None
        comm.settle()
        return error, machine.wakes, machine.recorder.ends

    error, wakes, ends = survive(act, way=way)
    assert isinstance(error, PeerFailed)
    assert error.rank == 1
    assert "killed by SIGKILL; all_reduce(float64[4], sum) #2" in str(error)
    assert wakes == [0]
    assert ends == {0: True, 1: False}


def test_after_an_abort_every_call_raises():
    def act(comm, machine):
        comm.abort(1, "raised ValueError: no")
        assert machine.wakes == []
        assert comm.lost_error() is None
        for again in (lambda: call(comm, machine), lambda: comm.all_reduce(1), comm.barrier):
            with pytest.raises(PeerFailed, match="rank 1 raised ValueError: no"):
                again()
        comm.settle()

    survive(act)


def test_an_abort_reaches_what_was_split_off(nccl):
    def run(control):
        with machine_of(control, 2, nccl) as (comm, machine):
            child = comm.split(0)
            child.all_reduce(machine.cupy.asarray(np.ones(1)))
            comm.settle()
            if comm.rank == 0:
                call(child, machine)
                comm.abort(1, "is lost")
                with pytest.raises(PeerFailed):
                    call(child, machine)
                with pytest.raises(PeerFailed, match=r"; all_reduce.* in group 0-1~device"):
                    comm.settle()
                child._device.clique.await_end()
                return nccl.aborted
            return None

    assert on_ranks(2, run)[0].count(0) == 1
    assert not nccl.misuse


def test_settling_raises_what_an_abort_has_lost():
    def act(comm, machine):
        call(comm, machine)
        threading.Timer(0.1, comm.abort, [1, "is lost"]).start()
        with pytest.raises(PeerFailed, match="rank 1 is lost; all_reduce"):
            comm.settle()

    survive(act)


def test_an_abort_that_does_not_return_is_told(monkeypatch, nccl):
    monkeypatch.setattr(clique, "END_TIMEOUT_S", 0.1)
    monkeypatch.setattr(clique.Clique.await_end, "__defaults__", (0.1,))

    def act(comm, machine):
        call(comm, machine)
        nccl.hanging_aborts.clear()
        comm.abort(1, "is lost")
        with pytest.raises(PeerFailed, match=r"\b5 s\b") as raised:
            comm.settle()
        nccl.hanging_aborts.set()
        return raised.value.rank

    assert survive(act, nccl=nccl) == 1


@WAYS
def test_waiting_ends_at_the_deadline_of_the_call(way):
    def act(comm, machine):
        comm.timeout_s = 0.2
        watch = Stopwatch()
        call(comm, machine)
        with pytest.raises(CollectiveTimeout) as raised:
            comm.settle()
        with pytest.raises(CollectiveTimeout):
            call(comm, machine)
        return str(raised.value), watch.spell()

    text, spell = survive(act, way=way)
    assert re.search(r"^rank 0 .* 0\.2 s .* all_reduce\(float64\[4\], sum\) #2", text)
    assert spell.took_s > 0.2
    spell.assert_less(2, "the wait")


def test_a_rank_is_named_by_its_number_in_the_cluster(nccl):
    def run(control):
        with machine_of(control, 3, nccl) as (comm, machine):
            child = comm.split(0 if comm.rank else None)
            if child is None:
                return None
            child.all_reduce(machine.cupy.asarray(np.ones(1)))
            comm.settle()
            if child.rank:
                return None
            comm.timeout_s = 0.1
            call(child, machine)
            with pytest.raises(CollectiveTimeout, match=r"^rank 1 .* in group 1-2~device"):
                comm.settle()
            return True

    assert on_ranks(3, run)[1] is True


def test_the_deadline_begins_when_the_stream_comes_to_the_call():
    def act(comm, machine):
        comm.timeout_s = 0.2
        gate = threading.Event()
        machine.cupy.stream.put(lambda: gate.wait(10))
        call(comm, machine)
        for _ in range(40):
            comm.look()
            time.sleep(0.01)
        assert comm._device._lost is None
        gate.set()
        look_for(comm, 2)
        return machine.wakes

    assert survive(act) == [0]


@pytest.mark.parametrize(("status", "patience_s"), [(SYSTEM_ERROR, 0.0), (REMOTE_ERROR, 0.5)])
def test_an_error_that_nccl_finds_by_itself_is_raised(status, patience_s, nccl):
    def act(comm, machine):
        call(comm, machine)
        nccl.comms[0].error = status
        watch = Stopwatch()
        look_for(comm, 3)
        return comm.lost_error(), watch.spell()

    error, spell = survive(act, nccl=nccl)
    assert isinstance(error, CommunicatorError)
    assert "last words" in str(error)
    assert spell.took_s >= patience_s
    spell.assert_less(patience_s + 2, "the error")


def test_the_coordinator_names_the_peer_that_nccl_has_lost(nccl):
    def act(comm, machine):
        nccl.comms[0].error = REMOTE_ERROR
        threading.Timer(0.1, comm.abort, [1, "is lost: killed"]).start()
        with pytest.raises(PeerFailed, match="rank 1 is lost: killed"):
            call(comm, machine)

    survive(act, nccl=nccl)


@WAYS
def test_a_call_that_nccl_refuses_says_which_and_why(way, nccl):
    def act(comm, machine):
        nccl.comms[0].error = SYSTEM_ERROR
        for _ in range(2):
            with pytest.raises(CommunicatorError, match=r"all_reduce\(float64\[4\], sum\)"):
                call(comm, machine)
        with pytest.raises(CommunicatorError, match="broken: rank 0"):
            comm.all_reduce(1)

    survive(act, way=way, nccl=nccl)


def test_a_broken_device_is_told():
    def act(comm, machine):
        call(comm, machine)
        machine.cupy.cuda.runtime.fault = 700
        look_for(comm, 2)
        error = comm.lost_error()
        machine.cupy.cuda.runtime.fault = 0
        return str(error)

    assert "cudaError700" in survive(act)


def test_a_launch_that_never_ends_has_a_deadline_and_can_be_aborted():
    nccl = FakeNccl(polls=10**9)

    def run(control):
        with machine_of(control, 1, nccl) as (comm, machine):
            comm.timeout_s = 0.2
            with pytest.raises(CollectiveTimeout, match=r"0\.2 s .*all_reduce"):
                call(comm, machine)

    on_ranks(1, run)
    with alone(nccl) as (comm, machine):
        threading.Timer(0.1, comm.abort, [1, "is lost"]).start()
        with pytest.raises(PeerFailed, match="rank 1 is lost"):
            call(comm, machine)
    assert not nccl.misuse


def test_an_interrupt_in_a_launch_breaks_both_ways(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    def act(comm, machine):
        monkeypatch.setattr(comm._device.clique, "await_queued", interrupt)
        with pytest.raises(KeyboardInterrupt):
            call(comm, machine)
        for again in (lambda: call(comm, machine), lambda: comm.all_reduce(1)):
            with pytest.raises(CommunicatorError, match=r"rank 0 .*all_reduce\("):
                again()
        return machine.wakes

    assert survive(act) == []


def test_a_host_call_that_breaks_takes_the_device_with_it(monkeypatch):
    def fail(*_):
        raise Broken(Breakage("timeout", 0, "waited 1 s for rank 1"))

    def act(comm, machine):
        call(comm, machine)
        monkeypatch.setattr(comm._host._transport, "all_reduce", fail)
        for again in (lambda: comm.all_reduce(1), lambda: call(comm, machine)):
            with pytest.raises(CollectiveTimeout, match="waited 1 s for rank 1"):
                again()
        with pytest.raises(CommunicatorError, match="; all_reduce"):
            comm.settle()

    survive(act)


def test_closing_ends_what_is_outstanding(nccl):
    def act(comm, machine):
        call(comm, machine)
        comm.close()
        comm.close()
        with pytest.raises(CommunicatorError, match="closed"):
            call(comm, machine)
        return machine.recorder.ends, machine.wakes, nccl.aborted

    ends, wakes, aborted = survive(act, nccl=nccl)
    assert ends == {0: True, 1: False}
    assert wakes == []
    assert aborted.count(0) == 1


def test_many_calls_are_looked_after_while_they_are_made():
    with alone() as (comm, machine):
        x = machine.cupy.asarray(np.ones(1))
        for _ in range(1500):
            comm.all_reduce(x, out=x)
        comm.settle()
        assert len(machine.recorder.ends) == 1500
        assert all(machine.recorder.ends.values())
        assert not machine.nccl.misuse


def test_ends_are_told_by_the_clock_of_the_device():
    ends = []

    with alone() as (comm, machine):
        call(comm, machine)
        comm.settle()
        while not comm._device.cuda._base:  # a busy machine may not get to it at once
            comm._device.cuda.set_clock()
        machine.recorder.end = lambda *told: ends.append(told[2])
        before_ns = time.monotonic_ns()
        call(comm, machine)
        machine.cupy.stream.synchronize()
        after_ns = time.monotonic_ns()
        time.sleep(0.2)
        comm.settle()
    # Not when it was looked at, but when it was done.
    assert before_ns < ends[0] < after_ns + 50_000_000


def test_threads_take_turns():
    with alone() as (comm, machine):
        comm._device.log.enter("all_reduce")
        found = []

        def look():
            comm.look()
            with pytest.raises(CommunicatorError, match=r"^all_reduce .* thread"):
                call(comm, machine)
            found.append(True)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join(10)
        comm._device.log.leave()
        assert found


def test_an_abort_does_not_wait_for_a_main_thread_that_is_stuck(monkeypatch):
    monkeypatch.setattr(device, "_LEAVE_PATIENCE_S", 0.1)
    with alone() as (comm, machine):
        call(comm, machine)
        comm.settle()
        comm._device.log.enter("all_reduce")
        thread = threading.Thread(target=comm.abort, args=(1, "is lost"))
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
        comm._device.clique.await_end()
        assert machine.nccl.aborted == [0]
        comm._device.log.leave()
