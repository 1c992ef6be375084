"""How the NCCL communicator comes to be: lazily, with everybody, or not at all."""

import re
import threading
import time

import numpy as np
import pytest
from fakes.control import every, on_ranks
from fakes.gpus import alone, machine_of, on_gpus
from fakes.nccl_library import SYSTEM_ERROR, FakeNccl

from jupyter_dist.collective.nccl.api import CuPyNccl
from jupyter_dist.collective.nccl.cuda import load_cuda
from jupyter_dist.errors import CollectiveTimeout, CommunicatorError, PeerFailed
from tests.patience import wait_until, within

INIT_TIMEOUT_S = 0.3
LONG_TIMEOUT_S = 20.0
"""For those that get ready, on a busy machine too."""


def test_nothing_is_loaded_before_an_array_on_a_device_comes(nccl):
    with alone(nccl) as (comm, machine):
        comm.all_reduce(1)
        comm.barrier()
        comm.look()
        comm.settle()
        assert machine.loads == 0
        comm.all_reduce(machine.cupy.asarray(np.ones(1)))
        comm.all_reduce(machine.cupy.asarray(np.ones(1)))
        assert machine.loads == 1
        assert len(nccl.arrived) == 1


def test_each_communicator_has_an_id_of_its_own(nccl):
    def check(comm, cupy):
        x = cupy.asarray(np.ones(1))
        comm.all_reduce(x)
        comm.split(0).all_reduce(x)

    on_gpus(2, check, nccl=nccl)
    assert [len(ranks) for ranks in nccl.arrived.values()] == [2, 2]


def form(nccl, size=2, timeout_s=10, way="nccl4py", absent=(), ready=()):
    """Let ranks come to their first device call; give what each raised."""

    def run(control):
        with machine_of(control, size, nccl, way) as (comm, machine):
            is_ready = comm.rank in ready
            comm._device.clique.init_timeout_s = LONG_TIMEOUT_S if is_ready else INIT_TIMEOUT_S
            comm.timeout_s = timeout_s
            if comm.rank in absent:
                return None
            with pytest.raises(CommunicatorError) as raised:
                comm.all_reduce(machine.cupy.asarray(np.ones(1)))
            with pytest.raises(CommunicatorError):
                comm.all_reduce(machine.cupy.asarray(np.ones(1)))
            assert machine.recorder.ends == {0: False}
            return raised.value

    found = on_ranks(size, run)
    assert not nccl.misuse, nccl.misuse
    return found


def test_a_rank_that_does_not_come_is_named_after_the_time_out():
    found = form(FakeNccl(), size=3, timeout_s=0.3, absent=[1])
    assert isinstance(found[0], CollectiveTimeout)
    assert "(0, 1, 2)" in str(found[0])


def test_a_rank_that_does_not_get_ready_is_named_by_all(nccl):
    nccl.never_ready = {1}
    for error, waited in zip(form(nccl, size=3, ready=[0, 2]), ("20", "0.3", "20"), strict=True):
        assert isinstance(error, CollectiveTimeout)
        assert re.search(rf"\b{waited} s: rank 1 did not .*; ranks 0,2 did", str(error))
    wait_until(lambda: sorted(nccl.aborted) == [0, 1, 2], 5, "all are aborted")


def test_when_no_rank_gets_ready_all_are_named(nccl):
    nccl.never_ready = {0, 1}
    error = form(nccl)[0]
    assert isinstance(error, CollectiveTimeout)
    assert "ranks 0-1 did not" in str(error)


def test_forming_that_blocks_ends_at_its_deadline_and_is_aborted_when_it_returns(nccl):
    nccl.init_may_return.clear()
    with within(5):
        errors = form(nccl)
    assert isinstance(errors[0], CollectiveTimeout)
    nccl.init_may_return.set()
    wait_until(lambda: len(nccl.aborted) == 2, 5, "both are aborted")
    assert sorted(nccl.aborted) == [0, 1]


def test_cupys_forming_ends_at_its_deadline_too(nccl):
    nccl.never_ready = {0, 1}
    assert isinstance(form(nccl, way="cupy")[0], CollectiveTimeout)
    nccl.never_ready = set()
    nccl.tell()


def test_what_nccl_says_is_passed_on_when_it_cannot_be_formed(nccl):
    nccl.init_error = {1: SYSTEM_ERROR}
    found = on_gpus(2, lambda comm, cupy: comm.all_reduce(cupy.asarray(np.ones(1))), nccl=nccl)
    assert isinstance(found[0], PeerFailed)
    assert found[0].rank == 1
    assert re.search(f"code {SYSTEM_ERROR}.*NCCL_DEBUG=INFO", str(found[1]), re.DOTALL)


def test_all_hear_that_no_id_can_be_made(nccl):
    nccl.id_error = SYSTEM_ERROR
    for error in form(nccl, size=3):
        assert f"rank 0: code {SYSTEM_ERROR}" in str(error)


def test_an_abort_ends_forming_at_once(nccl):
    nccl.never_ready = {0}
    with alone(nccl) as (comm, machine):
        threading.Timer(0.2, comm.abort, [1, "is lost"]).start()
        with within(2), pytest.raises(PeerFailed, match="rank 1"):
            comm.all_reduce(machine.cupy.asarray(np.ones(1)))
        comm._device.clique.await_end()
    assert nccl.aborted == [0]
    assert not nccl.misuse


def test_cupy_before_14_gets_its_ids_as_signed_numbers():
    made = []

    class OldBinding:
        NcclError = RuntimeError
        groupStart = groupEnd = None  # noqa: N815  (CuPy's names)

        def get_unique_id(self):
            return tuple(range(-64, 64))

        def NcclCommunicator(self, size, unique_id, rank):  # noqa: N802  (CuPy's name)
            if not isinstance(unique_id, tuple):
                raise TypeError
            made.append(unique_id)

    api = CuPyNccl(OldBinding())
    api.init(1, api.new_id(), 0, "")
    assert made == [tuple(range(-64, 64))]


def test_a_machine_without_a_device_says_so():
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(CommunicatorError, match="CUDA device"):
        load_cuda()


@pytest.mark.parametrize("way", ["nccl4py", "cupy"])
def test_ranks_may_come_late(way):
    def check(comm, cupy):
        time.sleep(0.1 * comm.rank)
        return comm.all_reduce(cupy.asarray(np.ones(1))).get().tolist()

    assert every(on_gpus(3, check, way=way)) == [3.0]
