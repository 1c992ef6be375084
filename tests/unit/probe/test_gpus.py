import pytest
from fakes.recorded_nvml import RecordedNvml

from jupyter_dist.model.hosts.topology import GpuLinks
from jupyter_dist.probe import gpus

H200 = {
    "Name": "NVIDIA H200",
    "UUID": "GPU-1a2b",
    "MaxPcieLinkGeneration": 5,
    "MaxPcieLinkWidth": 16,
    "Architecture": 9,
}


def nvml_of(*found):
    """NVML of a machine with these GPUs, each given as answers by question; None: one is lost."""
    return RecordedNvml(
        {
            "gpus": [
                gpu and {f"nvmlDeviceGet{question}": answer for question, answer in gpu.items()}
                for gpu in found
            ]
        }
    )


def nvlinks(codes):
    """Answers of a GPU with these NVLinks up: link -> NVML's code of its version."""
    return {
        "NvLinkState": [int(link in codes) for link in range(36)],
        "NvLinkVersion": [codes.get(link) for link in range(36)],
    }


def links_of(machine, *found):
    machine(nvml_of(*found))
    return gpus.gpu_links()


def test_a_gpu_tells_what_connects_it(machine):
    (found,) = links_of(machine, H200 | nvlinks(dict.fromkeys(range(18), 6)))
    assert found == GpuLinks(
        index=0,
        uuid="GPU-1a2b",
        name="NVIDIA H200",
        pcie_generation=5,
        pcie_lanes=16,
        nvlink_version=4,
        nvlink_count=18,
    )


@pytest.mark.parametrize(
    ("code", "version"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 5), (0, 0), (99, 0)]
)
def test_the_codes_of_nvml_are_no_versions(machine, code, version):
    (found,) = links_of(machine, {"Architecture": 7} | nvlinks({0: code}))
    assert found.nvlink_version == version


def test_a_hopper_that_says_nvlink_5_has_nvlink_4(machine):
    (found,) = links_of(machine, H200 | nvlinks({0: 7}))
    assert found.nvlink_version == 4


def test_only_links_that_are_up_count_and_the_oldest_version(machine):
    (found,) = links_of(machine, nvlinks({3: 6, 30: 4}))
    assert (found.nvlink_version, found.nvlink_count) == (3, 2)


def test_what_a_driver_does_not_tell_stays_empty(machine):
    assert links_of(machine, {}, {"Name": b"GRID T4"}) == (
        GpuLinks(index=0),
        GpuLinks(index=1, name="GRID T4"),
    )


def test_a_gpu_that_is_lost_is_left_out_and_still_counted(machine):
    found = links_of(machine, None, H200)
    assert [each.index for each in found] == [1]
    assert gpus.count_gpus() == 2


@pytest.fixture
def driverless():
    """NVML of a machine whose driver is not loaded."""
    nvml = nvml_of(H200)
    nvml.driver = 0
    return nvml


@pytest.mark.parametrize("has_nvml", [False, True])
def test_a_machine_without_nvml_or_driver_has_no_gpu(machine, driverless, has_nvml):
    machine(driverless if has_nvml else None, driver=False)
    assert (gpus.count_gpus(), gpus.gpu_addresses(), gpus.gpu_links()) == (0, {}, ())
    assert gpus.GpuWatch(lambda _: False).sample(0.0) == ()
    assert gpus.gpu_problem() == ""


def test_why_gpus_cannot_be_asked_is_told_where_a_driver_is_there(machine, driverless):
    machine(None)
    assert "nvidia-ml-py" in gpus.gpu_problem()
    machine(driverless)
    assert gpus.gpu_problem() == "NVML: Driver Not Loaded"
    machine(nvml_of(H200))
    assert gpus.gpu_problem() == ""


def test_a_device_has_an_address_on_the_bus_however_it_is_written(machine):
    first, second = ({"busId": bus} for bus in (b"00000000:3B:00.0", "00000000:3C:00.0"))
    other = {**H200, "UUID": "GPU-9f", "PciInfo": second}
    machine(nvml_of({**H200, "PciInfo": first}, other))
    assert gpus.bus_of("0") == "00000000:3B:00.0"
    assert gpus.bus_of("GPU-9f") == "00000000:3C:00.0"
    assert gpus.bus_of("") == ""
    assert gpus.gpu_addresses() == {0: "00000000:3B:00.0", 1: "00000000:3C:00.0"}


def test_a_device_that_cannot_be_asked_has_no_address(machine):
    machine(nvml_of(H200, None))
    assert [gpus.bus_of(device) for device in ("0", "1", "7", "MIG-1")] == [""] * 4


def test_whole_gpus_in_mig_mode_are_found_however_they_are_written(machine):
    divided = {"MigMode": (1, 1), "MaxMigDeviceCount": 0, "UUID": "GPU-1a2b"}
    machine(nvml_of(divided, {**H200, "UUID": "GPU-9f"}, None))
    assert gpus.divided_gpus(["0", "1", "2", ""]) == [0]
    assert gpus.divided_gpus(["GPU-1a2b", "GPU-9f"]) == [0]
    assert gpus.divided_gpus(["MIG-1a2b"]) == []
