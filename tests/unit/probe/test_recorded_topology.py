import msgspec
from fakes.recorded_nvml import DATA, read_record
from fakes.recorded_topology import draw, two_hgx, write

from jupyter_dist.model.hosts.topology import Topology

MADE = DATA / "topology_2x8_hgx.json"


def test_the_file_is_what_its_maker_makes():
    again = write(draw(two_hgx()))
    assert MADE.read_bytes() == again, "run: python tests/data/make_topology.py"


def test_two_hosts_of_eight_ranks_are_in_it():
    topology = msgspec.json.decode(MADE.read_bytes(), type=Topology)
    assert [host.name for host in topology.hosts] == ["hgx-a", "hgx-b"]
    assert [engine.device for engine in topology.engines] == [*range(8), *range(8)]
    assert [engine.rank for engine in topology.engines if engine.state != "collective"] == [15]
    healthy, troubled = topology.hosts
    assert [group.kind for group in healthy.links] == ["nvlink", "NODE", "NODE", "SYS"]
    assert not any(gpu.xid or gpu.strangers or gpu.is_throttled for gpu in healthy.gpus)
    assert (troubled.gpus[2].xid, troubled.gpus[2].ecc_errors) == (94, 1)
    assert troubled.gpus[5].is_throttled
    assert [each.name for each in troubled.gpus[7].strangers] == ["python3"]


def test_a_host_without_nvlink_is_drawn_as_well():
    (host,) = draw({"pcie": read_record("pcie_only")}).hosts
    assert [group.kind for group in host.links] == ["PIX", "NODE", "SYS"]
    assert [nic.is_up for nic in host.nics] == [True, False]
    assert host.gpus[3].pcie_lanes == 8
