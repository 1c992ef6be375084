"""What device calls refuse, before anything is queued."""

import sys
import threading
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from fakes.control import on_ranks
from fakes.gpus import JudgingControl, alone, machine_of, on_gpus, streams_of
from fakes.nccl_device import FakeCuPy

from jupyter_dist.collective.nccl.cuda import Cuda
from jupyter_dist.collective.nccl.libraries import JaxArrays, Libraries
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.errors import CollectiveMismatch, CommunicatorError, UsageError


@pytest.fixture
def rank():
    """The one rank of a communicator, and its device."""
    with alone() as (comm, machine):
        yield comm, machine.cupy
        assert not machine.nccl.misuse


@pytest.fixture
def comm(rank):
    return rank[0]


@pytest.fixture
def cupy(rank):
    return rank[1]


def assert_nothing_was_queued(comm):
    assert comm._device.log.sequence == 0
    assert not comm.recorder.calls


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda comm, x: comm.all_reduce(x, "median"), "op='median'.*'sum'"),
        (lambda comm, x: comm.all_reduce(x.view("i4"), "avg"), "op='avg' for int32"),
        (lambda comm, x: comm.broadcast(x, root=3), "root=3.* 0 to 0"),
        (lambda comm, x: comm.reduce_scatter(x), r"^reduce_scatter .*\(1, …\)"),
        (lambda comm, x: comm.scatter(x), r"^scatter .*\(1, …\)"),
        (lambda comm, x: comm.all_reduce(x, out=x.view("i4")), "float32"),
        (lambda comm, x: comm.all_gather(x, out=x), r"shape \(1, 2, 3\)"),
        (lambda comm, x: comm.send(x, -1), "dest=-1"),
    ],
)
def test_arguments_are_checked_as_on_the_host(comm, cupy, call, text):
    with pytest.raises(UsageError, match=text):
        call(comm, cupy.asarray(np.ones((2, 3), "f4")))
    assert_nothing_was_queued(comm)


def test_out_must_be_contiguous(comm, cupy):
    strided = cupy.asarray(np.ones((2, 2))).T[0]
    with pytest.raises(UsageError, match="not contiguous"):
        comm.all_reduce(cupy.asarray(np.ones(2)), out=strided)
    assert_nothing_was_queued(comm)


def test_out_may_be_the_input_in_the_order_of_fortran_but_not_in_a_group(comm, cupy):
    given = np.arange(6, dtype="f4").reshape(2, 3)
    turned = cupy.asarray(np.ascontiguousarray(given.T)).T
    assert comm.all_reduce(turned, out=turned) is turned
    np.testing.assert_array_equal(turned.get(), given)
    with comm.group(), pytest.raises(UsageError, match=r"^all_reduce .*C-contiguous"):
        comm.all_reduce(cupy.asarray(given), out=turned)


def test_a_call_may_have_a_stream_of_its_own(comm, cupy):
    used = streams_of(comm)
    stream, other = cupy.cuda.Stream(), cupy.cuda.Stream()
    x = cupy.asarray(np.ones(2))
    comm.all_reduce(x)
    comm.all_reduce(x, stream=stream)
    comm.stream = other
    comm.broadcast(x, stream=stream)
    comm.all_reduce(x)
    with pytest.raises(UsageError, match="root=5"):
        comm.broadcast(x, root=5, stream=stream)
    assert comm.stream is other
    assert used == [0, stream.ptr, stream.ptr, other.ptr]
    with pytest.raises(UsageError, match=r"stream=.* host memory"):
        comm.all_reduce(np.ones(2), stream=stream)


def test_no_call_mixes_memories(comm, cupy):
    x, y = cupy.asarray(np.ones(2)), np.ones(2)
    for mixing in (
        lambda: comm.all_reduce(x, out=y),
        lambda: comm.all_reduce(y, out=x),
        lambda: comm.send_recv(x, 0, y, 0),
        lambda: comm.send_recv(y, 0, x, 0),
    ):
        with pytest.raises(UsageError, match=r"ndarray .*cupy\.asarray"):
            mixing()
    assert_nothing_was_queued(comm)


def test_arrays_of_another_device_are_refused(comm, cupy):
    cupy.cuda.runtime.device_count = 2
    x = cupy.asarray(np.ones(2))
    comm.all_reduce(x)
    cupy.cuda.runtime.device = 1
    other = cupy.asarray(np.ones(2))
    cupy.cuda.runtime.device = 0
    with pytest.raises(UsageError, match=r"device 1.* device 0"):
        comm.all_reduce(other)
    with pytest.raises(UsageError, match="device 1"):
        comm.all_reduce(x, out=other)


@pytest.mark.parametrize("op", ["prod", "min", "max"])
def test_complex_reductions_that_nccl_lacks_name_the_way_out(comm, cupy, op):
    with pytest.raises(UsageError, match=r"comm.all_gather\(x\).*cupy.asnumpy\(x\)"):
        comm.all_reduce(cupy.asarray(np.ones(2, "c8")), op)


def test_a_captured_stream_is_refused(comm, cupy):
    stream = cupy.cuda.Stream()
    with stream:
        x = cupy.asarray(np.ones(2))
        stream.is_capturing = True
        with pytest.raises(UsageError, match=r"^all_reduce .* captured"):
            comm.all_reduce(x)
        stream.is_capturing = False
        np.testing.assert_array_equal(comm.all_reduce(x).get(), np.ones(2))


def test_calls_go_to_the_current_stream_or_the_one_that_is_set(comm, cupy):
    used = streams_of(comm)
    stream = cupy.cuda.Stream()
    x = cupy.asarray(np.ones(2, "i2"))
    comm.all_reduce(x)
    comm.stream = stream
    assert comm.stream is stream
    set_one = comm.all_reduce(x)
    comm.stream = None
    with stream:
        comm.all_reduce(x)
        np.testing.assert_array_equal(set_one.get(), np.ones(2))
    assert used == [0, stream.ptr, stream.ptr]


def test_a_stream_of_torch_is_taken_and_other_things_are_not(comm, cupy):
    own = cupy.cuda.Stream()
    comm.stream = SimpleNamespace(cuda_stream=own.ptr)
    assert comm.stream is own
    with pytest.raises(TypeError, match=r"\bstr\b.* cupy\.cuda\.Stream"):
        comm.stream = "fast"


def test_what_another_stream_still_uses_is_kept(comm, cupy):
    stream = cupy.cuda.Stream()
    gate = threading.Event()
    stream.put(lambda: gate.wait(10))
    comm.stream = stream
    found = comm.all_reduce(cupy.asarray(np.full(1000, 7.0)))
    # Freed on the current stream, which is not the one that has to read it first.
    cupy.stream.synchronize()
    gate.set()
    with stream:
        np.testing.assert_array_equal(found.get(), np.full(1000, 7.0))


def test_arrays_of_other_libraries_are_seen_through_their_interface(comm, cupy):
    x = cupy.asarray(np.arange(4.0))

    class Foreign:
        __cuda_array_interface__ = x.__cuda_array_interface__

    found = comm.all_reduce(Foreign())
    assert type(found) is cupy.ndarray
    np.testing.assert_array_equal(found.get(), np.arange(4.0))


class Tensor:
    """As torch's, as far as it is asked."""

    layout = "strided"
    requires_grad = False
    is_cuda = True

    def __init__(self, array, dtype="torch.float32"):
        self.array = array
        self.dtype = dtype
        self.shape = array.shape
        self.device = SimpleNamespace(type="cuda", index=0)

    def detach(self):
        return self

    resolve_conj = resolve_neg = detach

    def stride(self):
        return tuple(step // self.array.dtype.itemsize for step in self.array.strides)

    def data_ptr(self):
        return self.array.data.ptr


@pytest.fixture
def torch(monkeypatch):
    """A module that looks like torch, on the fake device."""
    cupys = []
    names = ("float32", "bfloat16", "int16")
    module = SimpleNamespace(
        Tensor=Tensor,
        strided="strided",
        **{name: f"torch.{name}" for name in names},
        cuda=SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=cupys[1].ptr)),
    )

    def empty(shape, dtype, device):
        assert device == "cuda:0"
        kind = np.dtype(dtype.removeprefix("torch."))
        return Tensor(cupys[0].empty(shape, kind), dtype)

    module.empty = empty
    monkeypatch.setitem(sys.modules, "torch", module)
    return cupys


def test_tensors_come_back_as_tensors_on_their_own_stream(comm, cupy, torch):
    stream = cupy.cuda.Stream()
    torch += [cupy, stream]
    x = Tensor(cupy.asarray(np.ones((2, 2), "f4")))
    found = comm.all_reduce(x)
    assert type(found) is Tensor
    assert found.dtype == "torch.float32"
    stream.synchronize()
    np.testing.assert_array_equal(found.array.host, np.ones((2, 2)))
    assert comm.all_reduce(x, out=found) is found
    assert comm._device.library is comm._device.libraries.cupy


def test_tensors_that_cannot_be_written_or_read_say_so(comm, cupy, torch):
    torch += [cupy, cupy.cuda.Stream()]
    x = Tensor(cupy.asarray(np.ones(2, "f4")))
    watched = Tensor(cupy.asarray(np.ones(2, "f4")))
    watched.requires_grad = True
    with pytest.raises(UsageError, match="requires grad"):
        comm.all_reduce(x, out=watched)
    x.layout = "sparse_coo"
    with pytest.raises(TypeError, match="layout sparse_coo"):
        comm.all_reduce(x)
    x.layout, x.dtype = "strided", "torch.quint8"
    with pytest.raises(TypeError, match=r"quint8.* bool"):
        comm.all_reduce(x)
    x.dtype = "torch.float32"
    with pytest.raises(UsageError, match=r"torch.* CuPy"):
        comm.all_reduce(x, out=cupy.asarray(np.ones(2, "f4")))


def test_bfloat16_of_torch_keeps_its_type(comm, cupy, torch):
    torch += [cupy, cupy.stream]
    x = Tensor(cupy.asarray(np.ones(3, ml_dtypes.bfloat16)), "torch.bfloat16")
    found = comm.all_reduce(x, "avg")
    assert found.dtype == "torch.bfloat16"
    assert found.array.get().tolist() == [1, 1, 1]


def test_a_group_takes_one_stream_and_one_group_at_a_time(comm, cupy):
    x = cupy.asarray(np.ones(2))
    with comm.group():
        comm.all_reduce(x)
        with cupy.cuda.Stream(), pytest.raises(UsageError, match="CUDA streams"):
            comm.all_reduce(x)
    with pytest.raises(UsageError, match="open already"), comm.group(), comm.group():
        pass
    np.testing.assert_array_equal(comm.all_reduce(x).get(), np.ones(2))


def test_a_group_that_raises_sends_nothing(comm, cupy):

    def leave_early():
        with comm.group():
            comm.all_reduce(cupy.asarray(np.ones(2)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave_early()
    assert_nothing_was_queued(comm)


def test_a_cell_on_some_ranks_has_no_collectives():
    def check(comm, cupy):
        comm.participants = frozenset([0])
        with pytest.raises(CommunicatorError, match=r"rank 0 only; all_reduce .* 2"):
            comm.all_reduce(cupy.asarray(np.ones(2)))
        with pytest.raises(CommunicatorError, match=r"rank 0 only; send .*rank 1"):
            comm.send(cupy.asarray(np.ones(2)), 1)

    on_gpus(2, check)


def test_arrays_without_elements_are_counted_and_not_launched(nccl):
    def check(comm, cupy):
        assert comm.all_reduce(cupy.asarray(np.ones((0, 3)))).shape == (0, 3)
        return comm._device.log.sequence, len(comm.recorder.calls), comm.recorder.ends

    assert on_gpus(2, check, nccl=nccl) == [(1, 1, {0: True})] * 2
    assert not nccl.launched
    assert not nccl.arrived


def test_calls_are_compared_before_they_are_queued(nccl):
    def run(plain):
        judging = JudgingControl(plain.rank, plain._server)
        with machine_of(judging, 3, nccl) as (comm, machine):
            comm.check = True
            x = machine.cupy.asarray(np.ones(2, "f4"))
            if comm.rank == 1:
                x = machine.cupy.asarray(np.ones(2))
            with pytest.raises(CollectiveMismatch) as raised:
                comm.all_reduce(x)
            with pytest.raises(CommunicatorError):
                comm.all_reduce(x)
            return str(raised.value), comm.recorder.ends

    for text, ends in on_ranks(3, run):
        assert "all_reduce(float64[2], sum) #1" in text
        assert ends == {0: False}
    assert not nccl.launched


def test_a_call_is_recorded_where_the_user_made_it(tmp_path):
    recorder = CollectiveRecorder(tmp_path / "records")
    sites = []
    with alone(recorder=recorder) as (comm, machine):
        x = machine.cupy.asarray(np.ones(2))
        first = sys._getframe().f_lineno + 1
        for _ in range(2):  # the second time what is known is taken
            sites.append(comm.all_reduce(x, out=x) is x and recorder.site)
            sites.append(comm.all_reduce(x) is not x and recorder.site)
            sites.append(comm.all_gather(x) is not x and recorder.site)
            with comm.group():
                comm.all_reduce(x)
            sites.append(recorder.site)
        comm.settle()
    recorder.close()
    lines = [first + 1, first + 2, first + 3, first + 4] * 2
    assert sites == [f"test_checks.py:{line}" for line in lines]


def test_a_library_is_found_by_where_its_arrays_lie():
    cupy = FakeCuPy()
    libraries = Libraries(Cuda(cupy))
    assert libraries.find(cupy.asarray(np.ones(1))) is libraries.cupy
    assert libraries.find(np.ones(1)) is None
    assert libraries.find([1]) is None
    cupy.end()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_of_jax_travel_as_integers(name, monkeypatch):
    def convert(array, dtype):
        return array.view(dtype)

    def carry(array):
        assert array.dtype.kind == "u"
        return array

    fake = SimpleNamespace(bitcast_convert_type=convert)
    parts = {"lax": fake, "dlpack": SimpleNamespace(from_dlpack=carry)}
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(**parts))
    cupy = FakeCuPy()
    cupy.from_dlpack = carry
    library = JaxArrays(Cuda(cupy))
    kind = type("Array", (cupy.ndarray,), {"devices": lambda _: [0]})
    dtype = np.dtype(getattr(ml_dtypes, name))
    given = kind((3,), dtype, cupy.asarray(np.zeros(3, f"u{dtype.itemsize}")).data)
    assert library.view("all_reduce", given).dtype == dtype
    assert library.give((given, None)).dtype == dtype
    cupy.end()
