import pytest

from jupyter_dist.model.bench.bandwidth import Promise, RankPath, paths_of, promise_of
from jupyter_dist.model.hosts.topology import EngineView, GpuLinks, HostView, Topology

TIMES = "\N{MULTIPLICATION SIGN}"
NVLINK = {"nvlink_version": 4, "nvlink_count": 18}
ONE_LINK = {"nvlink_version": 3, "nvlink_count": 1}
PCIE = {"pcie_generation": 5, "pcie_lanes": 16}


def on_gpu(index, host="a", interface="eth0", speed_mbps=25_000, **links):
    return RankPath(host, interface, speed_mbps, GpuLinks(index=index, **links))


def on_host(host, interface="eth0", speed_mbps=25_000):
    return RankPath(host, interface, speed_mbps)


@pytest.mark.parametrize(
    ("kind", "version", "count", "gb_per_s"),
    [
        *(("nvlink", *each) for each in [(1, 4, 80), (2, 6, 150), (3, 12, 300), (5, 18, 900)]),
        *(("nvlink", *each) for each in [(9, 18, None), (4, 0, None)]),
        *(("pcie", *each) for each in [(3, 16, 15.76), (4, 16, 31.504), (5, 16, 63.008)]),
        *(("pcie", *each) for each in [(6, 16, 120.96), (4, 8, 15.752), (0, 16, None)]),
    ],
)
def test_a_link_carries_so_much_by_its_version_and_width(kind, version, count, gb_per_s):
    names = {
        "nvlink": ("nvlink_version", "nvlink_count"),
        "pcie": ("pcie_generation", "pcie_lanes"),
    }
    links = dict(zip(names[kind], (version, count), strict=True))
    found = promise_of([on_gpu(0, **links), on_gpu(1, **links)]).gb_per_s
    assert found == (gb_per_s and pytest.approx(gb_per_s))


IB = on_host("a", "ib0", 200_000)


@pytest.mark.parametrize(
    ("paths", "gb_per_s", "words"),
    [
        ([on_gpu(index, **NVLINK, **PCIE) for index in (0, 1)], 450, f"NVLink 4 {TIMES} 18 links"),
        ([on_gpu(0, **NVLINK), on_gpu(1, **ONE_LINK)], 25, f"NVLink 3 {TIMES} 1 link"),
        ([on_gpu(0, **NVLINK, **PCIE), on_gpu(1, **PCIE)], 63.008, f"PCIe 5 {TIMES} 16 lanes"),
        ([IB, IB, on_host("b", "eth1", 2500)], 0.3125, "eth1, 2.5 Gbit/s"),
    ],
    ids=[
        *("within a host NVLink counts", "who has the fewest links holds all back"),
        *("without NVLink everywhere PCIe counts", "between hosts the slowest interface counts"),
    ],
)
def test_the_slowest_link_that_all_data_must_pass_counts(paths, gb_per_s, words):
    promise = promise_of(paths)
    assert (promise.gb_per_s, promise.words) == (pytest.approx(gb_per_s), words)


def test_links_within_a_host_that_are_slower_than_the_network_count_as_well():
    slow = {"pcie_generation": 3, "pcie_lanes": 4}
    fast = {"speed_mbps": 400_000, "interface": "ib0"}
    paths = [on_gpu(0, **slow, **fast), on_gpu(1, **slow, **fast), on_gpu(0, "b", **NVLINK, **fast)]
    assert promise_of(paths) == Promise(3.94, f"PCIe 3 {TIMES} 4 lanes")
    assert promise_of(paths[1:]) == Promise(50.0, "ib0, 400 Gbit/s")


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([on_gpu(0, **PCIE), on_gpu(1)], "GPU"),
        ([on_gpu(0, **NVLINK)] * 2, "device"),
        ([on_host("a")], "one rank"),
        ([on_host("a"), on_host("a")], "loopback"),
        ([on_gpu(0, **NVLINK), on_host("a")], "loopback"),
        ([on_host("a"), on_host("b", "eth0", 0)], "eth0 of b"),
        ([on_host("a"), on_host("b", "", 0)], "loopback"),
    ],
)
def test_what_does_not_tell_its_speed_promises_nothing(paths, words):
    promise = promise_of(paths)
    assert promise.gb_per_s is None
    assert words in promise.words


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
