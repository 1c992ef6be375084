"""What a driver that does not answer, or a capture, may do to calls on the device."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.gpus import alone, survive
from fakes.nccl_device import FakeCuPy

from jupyter_dist import cuda_driver
from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.nccl.cuda import Cuda
from jupyter_dist.errors import CollectiveTimeout, PeerFailed
from tests.patience import Stopwatch, wait_until

CALLED = cuda_driver._ARGUMENTS
TIMEOUT_S = 1.2
ABORT_DUE_S = 0.2


class Refusing(SimpleNamespace):
    """A function of the driver that returns what is wrong."""

    def __init__(self, status):
        super().__init__(status=status)

    def __call__(self, *_):
        return self.status


class Link:
    """Looks as the link thread does, and keeps how long each look took."""

    def __init__(self, comm):
        self._comm = comm
        self._is_over = threading.Event()
        self.spells = []
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._is_over.wait(0.05):
            watch = Stopwatch()
            self._comm.look()
            self.spells.append(watch.spell())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join(10)
        assert not self._thread.is_alive(), "the link thread hangs"


@pytest.mark.parametrize("is_known", [True, False], ids=["reached", "unknown"])
def test_a_hung_call_ends_at_its_deadline_while_the_main_thread_hangs_in_the_driver(is_known):
    def act(comm, machine):
        comm.timeout_s = TIMEOUT_S
        watch = Stopwatch()
        x = machine.cupy.asarray(np.ones(4))
        if is_known:
            comm.all_reduce(x)
            outstanding = comm._device._outstanding
            with Link(comm) as link:
                wait_until(lambda: outstanding._calls[0].reached_ns, 5, "the call is begun")
                machine.cupy.cuda.runtime.free(0)
        else:
            comm.all_reduce(x)
            with machine.cupy.cuda.runtime.driver_lock, Link(comm) as link:
                machine.cupy.stream.synchronize()
        spell = watch.spell()
        with pytest.raises(CollectiveTimeout) as raised:
            comm.settle()
        return spell, link.spells, str(raised.value), machine.wakes

    spell, looks, text, wakes = survive(act)
    assert ("driver" in text) != is_known
    assert spell.took_s > TIMEOUT_S
    spell.assert_less(TIMEOUT_S + 3, "the call")
    for look in looks:
        look.assert_less(ABORT_DUE_S + 0.2, "a look of the link thread")
    assert wakes == [0]  # before the abort


def test_an_abort_begins_although_the_driver_does_not_answer(nccl):
    def act(comm, machine):
        comm.all_reduce(machine.cupy.asarray(np.ones(4)))
        watch = Stopwatch()
        with machine.cupy.cuda.runtime.driver_lock:
            comm.abort(1, "is lost")
            spell = watch.spell()
            comm._device.clique.await_end()
            assert nccl.aborted.count(0) == 1
        with pytest.raises(PeerFailed, match="rank 1 is lost"):
            comm.settle()
        return spell

    survive(act, nccl=nccl).assert_less(ABORT_DUE_S + 0.2, "the abort")


def test_only_the_watcher_and_the_main_thread_ask_the_driver():
    def act(comm, machine):
        machine.libcuda.lookers.clear()
        comm.all_reduce(machine.cupy.asarray(np.ones(4)))
        link = threading.Thread(target=comm.look, name="link")
        link.start()
        link.join(10)
        wait_until(lambda: machine.libcuda.lookers, 5, "someone looks")
        comm.abort(1, "is lost")
        return machine.libcuda.lookers

    assert survive(act) == {"nccl watcher"}


def test_a_capture_elsewhere_survives_all_looks():
    with alone() as (comm, machine):
        x = machine.cupy.asarray(np.ones(4))
        comm.all_reduce(x)
        comm.settle()
        gate = threading.Event()
        stream = machine.cupy.cuda.Stream()
        stream.put(lambda: gate.wait(10))
        comm.stream = stream
        captured = machine.cupy.cuda.Stream()
        captured.is_capturing = True
        machine.libcuda.lookers.clear()
        comm.all_reduce(x)  # this thread looks as well, for the array must be kept
        comm.look()
        wait_until(lambda: len(machine.libcuda.lookers) == 2, 5, "both look")
        gate.set()
        comm.settle()
        captured.is_capturing = False
        assert machine.cupy.cuda.runtime.misuse == []


def test_a_look_that_fails_is_told(monkeypatch):
    def act(comm, machine):
        gate = threading.Event()
        machine.cupy.stream.put(lambda: gate.wait(10))
        comm.all_reduce(machine.cupy.asarray(np.ones(4)))
        monkeypatch.setattr(comm._device.cuda, "query", lambda _event: 1 / 0)
        with Link(comm):
            wait_until(lambda: comm._device._lost is not None, 5, "the failure is found")
        gate.set()
        return str(comm.lost_error())

    assert "ZeroDivisionError" in survive(act)


def test_an_abort_that_is_ordered_while_the_watcher_asks_nccl_follows_on_its_thread(
    monkeypatch, nccl
):
    def act(comm, machine):
        comm.all_reduce(machine.cupy.asarray(np.ones(4)))
        order = comm._device.log.break_if_idle
        clique = comm._device.clique
        ordered = threading.Event()

        def find_state():
            if not ordered.is_set():
                other = threading.Thread(target=order, args=(Breakage("failed", 1, "is lost"),))
                other.start()
                other.join(5)
                ordered.set()
            return 0

        monkeypatch.setattr(clique, "find_state", find_state)
        with Link(comm):
            wait_until(lambda: nccl.aborted.count(0), 5, "it is aborted")
        return str(comm.lost_error())

    assert "rank 1 is lost" in survive(act, nccl=nccl)


def test_requests_do_not_pile_up_while_the_driver_does_not_answer():
    with alone() as (comm, machine):
        gate = threading.Event()
        comm.all_reduce(machine.cupy.asarray(np.ones(4)))
        comm.settle()
        machine.cupy.stream.put(lambda: gate.wait(10))
        comm.all_reduce(machine.cupy.asarray(np.ones(4)))
        with machine.cupy.cuda.runtime.driver_lock:
            for _ in range(100):
                comm.look()
            assert comm._device._watcher._requests.qsize() <= 1
        gate.set()
        comm.settle()


@pytest.mark.parametrize("status", [0, 100])
def test_without_the_drivers_library_cupys_runtime_serves(status, monkeypatch):
    def load(_name):
        if not status:
            raise OSError("libcuda.so.1: cannot open shared object file")
        return SimpleNamespace(**{name: Refusing(status) for name in CALLED})

    monkeypatch.setattr(cuda_driver.ctypes, "CDLL", load)
    cupy = FakeCuPy()
    driver = cuda_driver.load_driver(cupy.cuda.runtime, 0)
    assert isinstance(driver, cuda_driver.RuntimeDriver)
    cuda = Cuda(cupy, driver)
    begun, ended = cuda.take_events()
    cuda.record(ended, 0)
    cupy.stream.synchronize()
    with cuda.relaxed():
        assert cuda.query(ended) == 0
    assert driver.elapsed_ms(begun, ended) is not None
    cuda.give_back(begun, ended)
    cuda.release()
    assert not cupy.cuda.runtime._events
    cupy.end()
