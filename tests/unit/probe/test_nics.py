import socket

import pytest
from fakes.recorded_nvml import build_sysfs, read_record

from jupyter_dist.model.hosts.topology import NicView
from jupyter_dist.probe import nics
from jupyter_dist.probe.nics import NicWatch

CARDS = ["eno1", *(f"ib{i}" for i in range(8))]
"""Of hgx_h200."""


@pytest.fixture
def seen(tmp_path):
    """What a machine of tests/data has for cards, by name; `change` takes its record before."""

    def look(name, change=lambda _: None, **more):
        record = read_record(name)
        change(record)
        interfaces = build_sysfs(record, tmp_path)
        buses = {i: gpu["nvmlDeviceGetPciInfo"]["busId"] for i, gpu in enumerate(record["gpus"])}
        interfaces.update(more)
        return {nic.name: nic for nic in NicWatch(buses, tmp_path).sample(interfaces)}

    return look


@pytest.mark.parametrize("gone", [{}, {"veth7": 99}])
def test_each_card_is_near_to_the_gpu_at_its_switch(seen, gone):
    found = seen("hgx_h200", **gone)
    assert sorted(found) == CARDS
    for i in range(8):
        assert found[f"ib{i}"] == NicView(
            name=f"ib{i}",
            speed_mbps=400_000,
            rdma=f"mlx5_{i}",
            is_up=True,
            numa_node=i // 4,
            nearest_gpus=(i,),
            distance="PIX",
        )


def forget_numa_nodes(record):
    for place in record["pci"].values():
        place["numa_node"] = -1


def keep_first_socket(record):
    record["gpus"] = record["gpus"][:2]
    record["pci"]["0000:29:00.0"]["numa_node"] = 1


@pytest.mark.parametrize(
    ("change", "nearest", "distance", "numa_node"),
    [
        (lambda _: None, (0, 1, 2, 3), "NODE", 0),
        (forget_numa_nodes, (), "", -1),
        (keep_first_socket, (0, 1), "SYS", 1),
    ],
    ids=["that of its NUMA node", "unknown", "the other socket"],
)
def test_a_card_beside_no_gpu_is_as_far_as_numa_nodes_tell(
    seen, change, nearest, distance, numa_node
):
    eno1 = seen("hgx_h200", change)["eno1"]
    assert (eno1.nearest_gpus, eno1.distance, eno1.numa_node) == (nearest, distance, numa_node)
    assert (eno1.rdma, eno1.speed_mbps) == ("", 25_000)


def test_a_card_behind_the_same_host_bridge_and_one_that_is_down(seen):
    found = seen("pcie_only")
    assert (found["enp229s0f0"].nearest_gpus, found["enp229s0f0"].distance) == ((3,), "PHB")
    assert found["enp229s0f0"].is_up
    assert not found["enp229s0f1"].is_up
    assert found["enp229s0f1"].speed_mbps == 0


def test_virtual_interfaces_are_shown_only_where_there_is_nothing_else(seen):
    def remove_cards(record):
        record["infiniband"] = {}
        record["net"] = {name: card for name, card in record["net"].items() if not card["pci"]}
        record["net"]["ifb0"] = {"pci": None, "speed": None, "operstate": "down"}

    assert list(seen("hgx_h200", remove_cards)) == ["docker0"]


def test_loopback_is_shown_where_it_is_all_there_is(seen):
    def remove_all(record):
        record["infiniband"] = {}
        record["net"] = {"lo": record["net"]["lo"]}

    assert seen("hgx_h200", remove_all) == {"lo": NicView(name="lo")}


def test_an_rdma_device_without_an_interface_has_its_own_name(seen):
    def unplug(record):
        del record["net"]["ib3"]
        record["infiniband"]["mlx5_3"]["state"] = "1: DOWN"

    found = seen("hgx_h200", unplug)["mlx5_3"]
    assert (found.rdma, found.speed_mbps, found.is_up) == ("mlx5_3", 400_000, False)
    assert (found.nearest_gpus, found.distance) == ((3,), "PIX")


def test_a_card_that_does_not_tell_its_speed_has_that_of_its_rdma_device(seen):
    found = seen("hgx_h200", lambda record: record["net"]["ib0"].update(speed=-1))
    assert found["ib0"].speed_mbps == 400_000


def test_files_of_another_network_namespace_are_not_believed(tmp_path, monkeypatch):
    class State:
        isup, speed = True, 100

    build_sysfs(read_record("hgx_h200"), tmp_path)
    monkeypatch.setattr(nics.psutil, "net_if_stats", lambda: {"lo": State, "eno1": State})
    found = NicWatch({}, tmp_path).sample({"lo": 10, "eno1": 2})
    assert found == (NicView(name="eno1", speed_mbps=100),)


def test_state_and_speed_are_read_each_time_and_places_once(tmp_path):
    record = read_record("pcie_only")
    interfaces = build_sysfs(record, tmp_path)
    watch = NicWatch({}, tmp_path)
    assert [nic.is_up for nic in watch.sample(interfaces)] == [True, False]
    card = tmp_path / "class" / "net" / "enp229s0f1"
    (card / "operstate").write_text("up\n")
    (card / "speed").write_text("10000\n")
    (card / "device" / "numa_node").write_text("0\n")
    plugged = watch.sample(interfaces)[1]
    assert (plugged.is_up, plugged.speed_mbps, plugged.numa_node) == (True, 10_000, 1)


def test_a_file_that_cannot_be_read_leaves_its_place_empty(seen, tmp_path):
    seen("hgx_h200")
    speed = tmp_path / "class" / "net" / "eno1" / "speed"
    speed.unlink()
    speed.mkdir()
    (found,) = NicWatch({}, tmp_path).sample({"eno1": 9})[:1]
    assert (found.name, found.speed_mbps, found.nearest_gpus) == ("eno1", 0, ())


def test_the_cards_of_this_machine_are_found():
    names = {name for _, name in socket.if_nameindex()}
    found = NicWatch({}).sample()
    assert {nic.name for nic in found if not nic.rdma} <= names
