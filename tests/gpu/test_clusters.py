"""What a cluster does with real GPUs besides calls: devices, measurements, saving and moving."""

import subprocess

import pytest

from jupyter_dist.model.bench.measurements import OPS
from jupyter_dist.probe.gpus import GpuWatch, count_gpus

from .ranks_programs import HAS_CUDA, SMALL, call

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

SEEN = (
    "import os, cupy\n"
    "os.environ['CUDA_VISIBLE_DEVICES'], cupy.cuda.runtime.getDeviceCount(), "
    "float(comm.all_reduce(cupy.ones(2))[0])"
)


# --- devices -------------------------------------------------------------------------------------


@pytest.fixture
def gpus():
    """The GPUs of this machine, as NVML has them."""
    watch = GpuWatch(lambda _: False)
    watch.sample(0.0)
    return watch.sample(1.0)


def test_a_device_may_be_the_beginning_of_a_uuid(start, gpus, monkeypatch):
    last = gpus[-1]
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    uuids = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    assert len(uuids) == len(gpus)
    prefix = uuids[-1][:12]
    assert sum(uuid.startswith(prefix) for uuid in uuids) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", prefix)
    cluster = start("localhost:1", comm="nccl")
    result = cluster.run(SEEN, timeout_s=60)
    result.raise_first()
    assert result[0].value_repr == repr((prefix, 1, 1.0))
    (engine,) = cluster.topology().engines
    assert (engine.device, engine.devices) == (last.index, (last.index,))


def test_one_rank_may_have_all_devices(start):
    cluster = start("localhost:1", comm="nccl", devices_per_engine=count_gpus())
    result = cluster.run(SEEN, timeout_s=60)
    result.raise_first()
    every = tuple(range(count_gpus()))
    assert result[0].value_repr == repr((",".join(map(str, every)), len(every), 1.0))
    (engine,) = cluster.topology().engines
    assert engine.devices == every


def test_each_of_two_ranks_has_a_device(ranks):
    two = ranks(2)
    code = "import cupy\ncupy.cuda.runtime.getDeviceCount(), cupy.cuda.runtime.getDevice()"
    assert two.values(code) == ["(1, 0)"] * 2
    engines = two.cluster.topology().engines
    own = {engine.device for engine in engines}
    assert len(own) == min(2, count_gpus())


# --- measurements --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_every_collective_is_measured_and_right(ranks, count):
    made = ranks(count)
    report = made.cluster.bench("all", max_bytes="64K", factor=64)
    assert (report.kind, report.world_size, report.ops) == ("nccl", count, OPS)
    assert {point.wrong for point in report.points} == {0}
    assert all(0 < point.min_s <= point.median_s for point in report.points)


# --- what is saved and moved ---------------------------------------------------------------------


def libraries(made):
    """Which of torch and JAX are there with CUDA, as options of gpu_saved.make."""
    code = f"{HAS_CUDA}', '.join(f'{{name}}={{has_cuda(name)}}' for name in ('torch', 'jax'))"
    return made.values(code)[0].strip("'")


def test_arrays_are_saved_and_restored_bit_by_bit_where_they_lay(ranks, tmp_path):
    two = ranks(2, **SMALL)
    options = libraries(two)
    two.values(call("gpu_saved.devices", "{}"))
    two.values(f"made = gpu_saved.make(rank, {options})\nbefore = gpu_saved.devices(made)\nNone")
    two.cluster.checkpoint("arrays", ["made"], directory=tmp_path)
    two.values(f"made = gpu_saved.make(rank + 7, {options})\nNone")
    two.cluster.restore("arrays", directory=tmp_path)
    assert two.values(f"gpu_saved.differing(made, gpu_saved.make(rank, {options}))") == ["[]"] * 2
    # Tensors of torch come back in host memory, unless `like` says where: docs/how_to/checkpoints.md.
    expected = "sorted({'cpu' if each == 'cuda' else each for each in before})"
    assert two.values(f"gpu_saved.devices(made) == {expected}") == ["True"] * 2


def test_arrays_are_pushed_and_pulled(ranks):
    import cupy

    two = ranks(2)
    two.cluster.push({"given": cupy.arange(6, dtype="f4").reshape(2, 3)})
    assert (
        two.values("type(given).__module__, given.device.id, float(given.sum())")
        == ["('cupy', 0, 15.0)"] * 2
    )
    two.values("mine = given + rank\nNone")
    found = two.cluster.pull("mine")
    assert [float(found[rank].sum()) for rank in (0, 1)] == [15.0, 21.0]
    assert all(isinstance(each, cupy.ndarray) for each in found.values())
