import msgspec

from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology


def engine(rank):
    return EngineView(rank=rank, local_rank=0)


def test_engines_come_in_rank_order_over_all_hosts():
    topology = Topology(
        cluster="demo",
        hosts=(
            HostView(name="b", engines=(engine(2), engine(0))),
            HostView(name="a", engines=(engine(1),)),
        ),
    )
    assert [found.rank for found in topology.engines] == [0, 1, 2]


def test_a_topology_crosses_the_wire_unchanged():
    topology = Topology(cluster="demo", hosts=(HostView(name="a", engines=(engine(0),)),))
    packed = msgspec.msgpack.encode(topology)
    assert msgspec.msgpack.decode(packed, type=Topology) == topology
