"""Ranks as threads, each with a device and a communicator of its own."""

from contextlib import contextmanager

import numpy as np
from fakes.call_records import FakeRecorder
from fakes.control import FakeControl, FakeHouse, on_ranks
from fakes.libcuda import FakeLibcuda
from fakes.nccl_device import FakeCuPy
from fakes.nccl_library import FakeNccl

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.api import CuPyNccl, Nccl4py
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.collective.nccl.cuda import Cuda
from jupyter_dist.collective.nccl.device import Ways
from jupyter_dist.cuda_driver import LoadedDriver
from jupyter_dist.errors import CollectiveMismatch

TIMEOUT_S = 20.0


class FakeTransport:
    """Host memory by meetings; only what the tests need."""

    kind = "ring"

    def __init__(self, group, control):
        self._group, self._control = group, control
        self.breakages = []

    def _share(self, source):
        members = self._group.members
        found = self._control.meet(
            f"host {self._group.label}",
            "all_gather",
            members,
            [source.tobytes()],
            claim="",
            timeout_s=TIMEOUT_S,
        )
        return [np.frombuffer(found[member][0], source.dtype) for member in members]

    def run(self, call, *given):
        getattr(self, call.operation)(call, *given)

    def all_reduce(self, call, source, target, ufunc):
        target[...] = ufunc.reduce(np.stack(self._share(source)), axis=0)

    def all_gather(self, call, source, stack):
        stack[...] = np.stack(self._share(source))

    def barrier(self, call):
        self._share(np.zeros(1))

    def prepare_split(self):
        return ""

    def split(self, group, told, number):
        return FakeTransport(group, self._control)

    def enter(self, timeout_s, site):
        pass

    def abort(self, breakage):
        self.breakages.append(breakage)

    def leave(self, breakage):
        self.breakages.append(breakage)

    def close(self):
        pass


class JudgingControl(FakeControl):
    """Says who claims something else, as the coordinator does."""

    def meet(self, purpose, kind, ranks, frames=(), **asked):
        super().meet(f"{purpose} told", kind, ranks, frames, **{**asked, "claim": ""})
        told = super().meet(
            f"{purpose} claims",
            "all_gather",
            ranks,
            [asked["claim"].encode()],
            **{**asked, "claim": "", "root": -1},
        )
        claims = {rank: frames[0].decode() for rank, frames in told.items()}
        if len(set(claims.values())) > 1:
            first, *others = sorted(claims)
            other = next(rank for rank in others if claims[rank] != claims[first])
            raise CollectiveMismatch(other, claims[other], first, claims[first])
        return {}


class Machine:
    """One rank's process: its device, and what would interrupt its main thread."""

    def __init__(self, nccl, way, rank):
        self.nccl = nccl
        self.rank = rank
        self.cupy = FakeCuPy()
        self.libcuda = FakeLibcuda(self.cupy)
        self.wakes = []
        """How often NCCL had been aborted each time the main thread was woken."""
        self.loads = 0
        api = {"nccl4py": lambda: Nccl4py(nccl.binding(self.cupy))}
        api["cupy"] = lambda: CuPyNccl(nccl.older_binding(self.cupy))
        self.ways = Ways(self._load, api[way], self._wake)

    def _load(self):
        self.loads += 1
        return Cuda(self.cupy, LoadedDriver(self.libcuda, self.cupy.cuda.runtime.device))

    def _wake(self):
        self.wakes.append(self.nccl.aborted.count(self.rank))


@contextmanager
def machine_of(control, size, nccl, way="nccl4py", recorder=None):
    """Give a communicator and its machine; end them."""
    machine = Machine(nccl, way, control.rank)
    group = Group(control.rank, size, generation=3)
    transport = FakeTransport(group, control)
    host = HostCommunicator(group, transport, recorder or FakeRecorder(), control)
    comm = NcclCommunicator(host, machine.ways)
    comm.timeout_s = TIMEOUT_S
    comm._device.clique.init_timeout_s = TIMEOUT_S
    machine.recorder = host.recorder
    try:
        yield comm, machine
    finally:
        comm.close()
        machine.cupy.end()
        assert not machine.cupy.cuda.runtime.misuse, machine.cupy.cuda.runtime.misuse


def on_gpus(size, call, *, way="nccl4py", nccl=None):
    """Run `call(comm, cupy)` on each rank; give what they gave, or raised, in rank order."""
    nccl = nccl or FakeNccl()
    comms = []

    def run(control):
        with machine_of(control, size, nccl, way) as (comm, machine):
            comms.append(comm)
            try:
                found = call(comm, machine.cupy)
                comm.settle()
            except Exception as error:
                # As the coordinator does.
                for other in comms:
                    if other is not comm:
                        other.abort(control.rank, f"raised {error}")
                raise
            return found

    found = on_ranks(size, run)
    assert not nccl.misuse, nccl.misuse
    return found


def alone(nccl=None, **options):
    """Give the one rank of a communicator of one."""
    return machine_of(FakeControl(0, FakeHouse()), 1, nccl or FakeNccl(), **options)


def survive(act, *, size=2, way="nccl4py", nccl=None):
    """Form a communicator, then let rank 0 alone go on; give what `act` gave there."""
    nccl = nccl or FakeNccl()

    def run(control):
        with machine_of(control, size, nccl, way) as (comm, machine):
            comm.all_reduce(machine.cupy.asarray(np.ones(1)))
            comm.settle()
            return act(comm, machine) if comm.rank == 0 else None

    found = on_ranks(size, run)[0]
    if isinstance(found, Exception):
        raise found
    assert not nccl.misuse, nccl.misuse
    return found


def streams_of(comm):
    """Give a list that grows by the stream of each call."""
    used, find = [], comm._device.find_stream
    comm._device.find_stream = lambda operation: used.append(find(operation)) or used[-1]
    return used
