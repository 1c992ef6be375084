import pytest

from jupyter_dist.model.bandwidth import (
    Promise,
    RankPath,
    network_gb_per_s,
    nvlink_gb_per_s,
    paths_of,
    pcie_gb_per_s,
    promise_of,
)
from jupyter_dist.model.topology import EngineView, GpuLinks, HostView, Topology

LOOPBACK = Promise(None, "unknown: loopback")
NVLINK = {"nvlink_version": 4, "nvlink_count": 18}
PCIE = {"pcie_generation": 5, "pcie_lanes": 16}


def on_gpu(index, host="a", interface="eth0", speed_mbps=25_000, **links):
    return RankPath(host, interface, speed_mbps, GpuLinks(index=index, **links))


def on_host(host, interface="eth0", speed_mbps=25_000):
    return RankPath(host, interface, speed_mbps)


@pytest.mark.parametrize(
    ("version", "links", "gb_per_s"),
    [(1, 4, 80), (2, 6, 150), (3, 12, 300), (4, 18, 450), (5, 18, 900), (9, 18, 0), (4, 0, 0)],
)
def test_nvlink_carries_so_much_by_version_and_number(version, links, gb_per_s):
    assert nvlink_gb_per_s(version, links) == gb_per_s


@pytest.mark.parametrize(
    ("generation", "lanes", "gb_per_s"),
    [(3, 16, 15.76), (4, 16, 31.504), (5, 16, 63.008), (6, 16, 120.96), (4, 8, 15.752), (0, 16, 0)],
)
def test_pcie_carries_so_much_by_generation_and_lanes(generation, lanes, gb_per_s):
    assert pcie_gb_per_s(generation, lanes) == pytest.approx(gb_per_s)


def test_a_network_carries_an_eighth_of_its_bits():
    assert network_gb_per_s(25_000) == 3.125
    assert network_gb_per_s(0) == 0


def test_within_a_host_nvlink_counts():
    paths = [on_gpu(0, **NVLINK, **PCIE), on_gpu(1, **NVLINK, **PCIE)]
    assert promise_of(paths) == Promise(450.0, "NVLink 4 \N{MULTIPLICATION SIGN} 18 links")


def test_the_gpu_with_the_fewest_links_holds_all_back():
    few = {"nvlink_version": 3, "nvlink_count": 1}
    assert promise_of([on_gpu(0, **NVLINK), on_gpu(1, **few)]) == Promise(
        25.0, "NVLink 3 \N{MULTIPLICATION SIGN} 1 link"
    )


def test_without_nvlink_on_every_gpu_pcie_counts():
    promise = promise_of([on_gpu(0, **NVLINK, **PCIE), on_gpu(1, **PCIE)])
    assert promise.gb_per_s == pytest.approx(63.008)
    assert promise.words == "PCIe 5 \N{MULTIPLICATION SIGN} 16 lanes"


def test_gpus_that_tell_nothing_promise_nothing():
    promise = promise_of([on_gpu(0, **PCIE), on_gpu(1)])
    assert promise == Promise(
        None, "unknown: the driver does not tell the speed of the GPUs' links"
    )


def test_ranks_on_one_device_have_no_link_between_them():
    assert promise_of([on_gpu(0, **NVLINK)] * 2) == Promise(None, "unknown: ranks share a device")


def test_a_single_rank_has_nobody_to_reach():
    assert promise_of([on_host("a")]) == Promise(None, "unknown: there is one rank only")


def test_in_the_memory_of_one_host_nothing_is_promised():
    assert promise_of([on_host("a"), on_host("a")]) == LOOPBACK
    assert promise_of([on_gpu(0, **NVLINK), on_host("a")]) == LOOPBACK


def test_between_hosts_the_slowest_interface_counts():
    paths = [on_host("a", "ib0", 200_000), on_host("a", "ib0", 200_000), on_host("b", "eth1", 2500)]
    assert promise_of(paths) == Promise(0.3125, "eth1, 2.5 Gbit/s")


def test_links_within_a_host_that_are_slower_than_the_network_count_as_well():
    slow = {"pcie_generation": 3, "pcie_lanes": 4}
    fast = {"speed_mbps": 400_000, "interface": "ib0"}
    paths = [on_gpu(0, **slow, **fast), on_gpu(1, **slow, **fast), on_gpu(0, "b", **NVLINK, **fast)]
    assert promise_of(paths) == Promise(3.94, "PCIe 3 \N{MULTIPLICATION SIGN} 4 lanes")
    assert promise_of(paths[1:]) == Promise(50.0, "ib0, 400 Gbit/s")


@pytest.mark.parametrize(
    ("interface", "speed_mbps", "words"),
    [("eth0", 0, "unknown: eth0 of b does not tell its speed"), ("", 0, "unknown: loopback")],
)
def test_an_interface_that_does_not_tell_promises_nothing(interface, speed_mbps, words):
    paths = [on_host("a"), on_host("b", interface, speed_mbps)]
    assert promise_of(paths) == Promise(None, words)


# --- where they come from ---


def topology():
    gpus = (GpuLinks(index=0, **NVLINK), GpuLinks(index=1, **PCIE))
    return Topology(
        cluster="demo",
        hosts=(
            HostView(
                name="b",
                interface="eth0",
                interface_mbps=25_000,
                gpu_links=gpus,
                engines=(
                    EngineView(rank=2, local_rank=0, device=1),
                    EngineView(rank=1, local_rank=1),
                ),
            ),
            HostView(name="a", engines=(EngineView(rank=0, local_rank=0, device=0),)),
        ),
    )


def test_with_nccl_data_goes_by_the_gpus_and_the_interface_of_each_rank():
    assert paths_of(topology(), "nccl") == (
        RankPath("a"),
        RankPath("b", "eth0", 25_000),
        RankPath("b", "eth0", 25_000, GpuLinks(index=1, **PCIE)),
    )


def test_with_any_other_communicator_data_goes_through_the_memory_of_the_hosts():
    assert all(path.gpu is None for path in paths_of(topology(), "ring"))
