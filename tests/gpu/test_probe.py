"""What is told of real GPUs: asked of NVML here, and compared with what nvidia-smi says."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from jupyter_dist.probe.gpu_wiring import link_groups
from jupyter_dist.probe.gpus import GpuWatch, count_gpus, gpu_addresses
from jupyter_dist.probe.nics import NicWatch

from ..processes.leftovers import wait_until  # noqa: TID252  (as the conftest beside)

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

DATA = Path(__file__).parents[1] / "data"
SLOW_SAMPLE_S = 0.5
"""Half of the usual interval, for all GPUs of a machine."""
FIELDS = (
    "index,name,memory.total,power.limit,temperature.gpu,pcie.link.width.current,"
    "pcie.link.gen.current"
)


def sample(is_ours=lambda _: False):
    watch = GpuWatch(is_ours)
    watch.sample(0.0)
    return watch.sample(1.0)


def number(cell):
    """What nvidia-smi does not know it calls [N/A]; ours are 0 then."""
    return float(cell) if cell.replace(".", "", 1).isdecimal() else 0.0


def ask_nvidia_smi():
    """One row of FIELDS for each GPU."""
    command = ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"nvidia-smi does not run: {problem}")
    return [[cell.strip() for cell in line.split(",")] for line in run.stdout.splitlines()]


def test_a_gpu_is_told_as_nvidia_smi_tells_it():
    rows = ask_nvidia_smi()
    gpus = sample()
    assert len(gpus) == len(rows) == count_gpus()
    for gpu, (index, name, total_mib, limit_w, celsius, lanes, generation) in zip(
        gpus, rows, strict=True
    ):
        assert (gpu.index, gpu.name, gpu.problem) == (int(index), name, "")
        assert gpu.memory_total_bytes == pytest.approx(number(total_mib) * 2**20, rel=0.01)
        assert gpu.power_limit_w == pytest.approx(number(limit_w), abs=1)
        assert gpu.temperature_c == pytest.approx(number(celsius), abs=10)
        assert (gpu.pcie_lanes, gpu.pcie_generation) == (number(lanes), number(generation))
        assert gpu.power_w > 0
        assert 0 <= gpu.utilisation_percent <= 100
        assert 0 <= gpu.memory_used_bytes <= gpu.memory_total_bytes


def test_every_two_gpus_are_joined_by_something():
    groups = link_groups()
    for one in range(count_gpus()):
        for other in range(one + 1, count_gpus()):
            assert any({one, other} <= set(group.gpus) for group in groups), (one, other)


def test_a_gpu_has_a_place_on_the_bus_and_cards_a_way_to_it():
    addresses = gpu_addresses()
    assert len(addresses) == count_gpus()
    assert all(addresses.values())
    for nic in NicWatch(addresses).sample():
        assert bool(nic.nearest_gpus) is bool(nic.distance)
        assert set(nic.nearest_gpus) <= set(addresses)


def test_a_sample_of_all_gpus_is_quick():
    watch = GpuWatch(lambda _: False)
    watch.sample(0.0)
    began_s = time.perf_counter()
    watch.sample(1.0)
    took_s = time.perf_counter() - began_s
    print(f"{count_gpus()} GPUs: {took_s * 1000:.1f} ms a sample")
    assert took_s < SLOW_SAMPLE_S


@pytest.mark.parametrize("name", ["hgx_h200", "pcie_only"])
def test_functions_of_the_recorded_machines_are_there(name):
    import pynvml

    record = json.loads((DATA / f"{name}.json").read_text())
    functions = {*record["each_gpu"], *(each for gpu in record["gpus"] for each in gpu)}
    assert [each for each in sorted(functions) if not hasattr(pynvml, each)] == []


def test_ranks_are_no_strangers_and_their_memory_is_seen(ranks):
    one = ranks(1)
    one.values("import cupy\nblock = cupy.zeros(2**28, 'f4')\nblock.sum().item()")
    pid = one.cluster.topology().engines[0].pid

    def seen():
        """The host, once the rank's gigabyte is in use on its GPU."""
        (host,) = one.cluster.topology().hosts
        used = {gpu.index: gpu.memory_used_bytes for gpu in host.gpus}
        return host if used.get(host.engines[0].device, 0) >= 2**30 else None

    host = wait_until(seen, 30, "a GiB is in use")
    engine = host.engines[0]
    assert pid not in [each.pid for gpu in host.gpus for each in gpu.strangers]
    assert engine.gpu_memory_bytes == 0 or engine.gpu_memory_bytes >= 2**30, "0: it is not told"
    assert engine.devices == (engine.device,)
