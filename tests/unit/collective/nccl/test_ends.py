"""How communicators end: finalized and destroyed where nothing is wrong, and leaving nothing."""

import gc
import os
import threading
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from fakes.control import FakeControl, FakeHouse, on_ranks
from fakes.gpus import FakeTransport, Machine, alone, machine_of
from fakes.nccl_library import SYSTEM_ERROR

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl import clique
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.errors import CommunicatorError, PeerFailed
from tests.patience import wait_until, within

WAYS = pytest.mark.parametrize("way", ["nccl4py", "cupy"])
BREAKS = 400


def ones(machine):
    return machine.cupy.asarray(np.ones(4))


def open_files():
    return len(os.listdir("/proc/self/fd"))


def watchers():
    return [each for each in threading.enumerate() if each.name.startswith("nccl ")]


@WAYS
def test_what_is_intact_is_finalized_and_destroyed(way, nccl):
    def run(control):
        with machine_of(control, 2, nccl, way) as (comm, machine):
            comm.all_reduce(ones(machine))
            comm.settle()
            return comm

    comms = on_ranks(2, run)
    assert sorted(nccl.destroyed) == [0, 1]
    assert nccl.aborted == []
    assert not nccl.misuse
    for comm in comms:
        comm.close()
        with pytest.raises(CommunicatorError, match="closed"):
            comm.barrier()
    assert sorted(nccl.destroyed) == [0, 1]


def test_what_cannot_be_finalized_is_aborted(monkeypatch, nccl):
    monkeypatch.setattr(clique, "_FINALIZE_TIMEOUT_S", 0.1)
    nccl.never_finalized = {0}
    with within(3), alone(nccl) as (comm, machine):
        comm.all_reduce(ones(machine))
        comm.settle()
    assert (nccl.destroyed, nccl.aborted) == ([], [0])
    assert not nccl.misuse


@WAYS
def test_what_was_split_off_ends_when_it_is_dropped(way, nccl):
    def run(control):
        with machine_of(control, 2, nccl, way) as (comm, machine):
            kept = comm.split(0)
            kept.all_reduce(ones(machine))
            for _ in range(20):
                found = comm.split(0).all_reduce(ones(machine))
            comm.settle()
            assert found.get().tolist() == [2.0] * 4
            family = comm._family

            def is_done():
                comm.look()
                return len(list(family.devices())) == 2

            wait_until(is_done, 10, "the dropped ones end")
            destroyed = nccl.destroyed.count(comm.rank)
            return destroyed, kept.all_reduce(ones(machine)).get().tolist()

    assert on_ranks(2, run) == [(20, [2.0] * 4)] * 2
    assert nccl.aborted == []
    assert not nccl.misuse


def test_what_is_dropped_ends_after_its_calls_and_not_its_children(nccl):
    with alone(nccl) as (comm, machine):
        child = comm.split(0)
        grandchild = child.split(0)
        grandchild.all_reduce(ones(machine))
        child.all_reduce(ones(machine))
        comm.settle()
        gate = threading.Event()
        machine.cupy.stream.put(lambda: gate.wait(10))
        found = child.all_reduce(ones(machine))
        del child
        gc.collect()
        comm.look()
        assert nccl.destroyed == nccl.aborted == []
        gate.set()
        comm.settle()
        np.testing.assert_array_equal(found.get(), np.ones(4))
        assert nccl.destroyed == []  # the child of what was dropped is in use
        np.testing.assert_array_equal(grandchild.all_reduce(ones(machine)).get(), np.ones(4))
        comm.settle()
        del grandchild
        gc.collect()

        def is_done():
            comm.look()
            return len(nccl.destroyed) == 2

        wait_until(is_done, 5, "both end")
    assert nccl.aborted == []
    assert not nccl.misuse


def test_a_failure_reaches_what_was_dropped(nccl):
    with alone(nccl) as (comm, machine):
        gate = threading.Event()
        child = comm.split(0)
        child.all_reduce(ones(machine))
        comm.settle()
        machine.cupy.stream.put(lambda: gate.wait(10))
        child.all_reduce(ones(machine))
        del child
        gc.collect()
        comm.abort(1, "is lost")
        with pytest.raises(PeerFailed, match="rank 1 is lost; all_reduce"):
            comm.settle()
        gate.set()
    assert nccl.aborted == [0]


def form(machine, control, generation):
    group = Group(0, 1, generation=generation)
    host = HostCommunicator(group, FakeTransport(group, control), None, control)
    comm = NcclCommunicator(host, machine.ways)
    comm.all_reduce(ones(machine))
    comm.settle()
    return comm


def break_by_failure(comm, machine):
    """A peer fails while a call is on the device."""
    gate = threading.Event()
    machine.cupy.stream.put(lambda: gate.wait(10))
    comm.split(0).all_reduce(ones(machine))
    comm.all_reduce(ones(machine))
    comm.abort(1, "is lost")
    gate.set()
    with pytest.raises(PeerFailed):
        comm.settle()


def break_by_nccl(comm, machine):
    """NCCL refuses a call."""
    machine.nccl.comms[0].error = SYSTEM_ERROR
    with pytest.raises(CommunicatorError):
        comm.all_reduce(ones(machine))


def leave_intact(comm, machine):
    """Ranks only form another communicator."""
    with machine.cupy.find_stream(2):
        comm.all_reduce(ones(machine))
        comm.settle()


def measure():
    gc.collect()
    ours = tracemalloc.take_snapshot().filter_traces(
        [tracemalloc.Filter(True, "*/jupyter_dist/*"), tracemalloc.Filter(True, "*/threading.py")]
    )
    memory = sum(each.size for each in ours.statistics("filename"))
    return memory, threading.active_count(), open_files()


def test_hundreds_of_breaks_leave_no_thread_file_or_memory(nccl):
    """Of what one process has; its device and driver stay, as those of a rank do."""
    machine = Machine(nccl, "nccl4py", 0)
    control = FakeControl(0, FakeHouse())
    ends = (break_by_failure, break_by_nccl, leave_intact)
    counts = Counter()
    before = None
    tracemalloc.start()
    try:
        for generation in range(BREAKS):
            if generation == 100:
                before = measure()
            comm = form(machine, control, generation)
            ends[generation % 3](comm, machine)
            comm.close()
            counts[type(comm).__name__] += 1
        del comm
        wait_until(lambda: not watchers(), 5, "the threads of the last one end")
        after = measure()
    finally:
        tracemalloc.stop()
        machine.cupy.end()
    assert counts == {"NcclCommunicator": BREAKS}
    assert after[0] - before[0] < 8 * 1024, (before, after)
    assert after[1:] <= before[1:], (before, after)
    assert machine.cupy.cuda.runtime._events == {}
    assert not nccl.misuse, set(nccl.misuse)
    assert not machine.cupy.cuda.runtime.misuse
