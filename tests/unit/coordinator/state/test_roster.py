import pytest

from jupyter_dist.cluster.spec.host_list import parse_hosts
from jupyter_dist.coordinator.clients.snapshot import Snapshot
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.model.hosts.interfaces import Interface
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.protocol import host_agent_pb2 as pb


def view(cluster, rank, now_s=10.0, kind=""):
    verdict = HangVerdict(kind, "rank 0 waits" if kind else "")
    topology = Snapshot(cluster.roster).draw("ready", 1, verdict, {rank: 0.25}, now_s)
    return topology.engines[rank]


def in_collective(rank, is_running=True):
    last = pb.Collective(sequence=4, operation="barrier", seconds=2.5, is_running=is_running)
    return pb.EngineSample(engine=str(rank), cpu_percent=50, rss_bytes=1000, collective=last)


def test_every_rank_starts_on_its_host(starting):
    roster = starting.roster
    assert roster.ranks_in(EngineState.STARTING) == [0, 1, 2, 3]
    assert roster.group_by_host([3, 0, 2]) == {"b": [3, 2], "a": [0]}
    assert [engine.info.rank for engine in roster.on_host("b")] == [2, 3]


def test_an_engine_is_found_by_its_name_until_another_has_its_place(cluster):
    roster = cluster.roster
    first, last = roster[0], roster[3]
    roster.replace(0, first.info)
    assert (roster.find("0"), roster.find("0.1")) == (None, roster[0])
    roster.lose(1, "killed")
    roster.shrink()
    assert (roster.find("1"), roster.find("3"), last.info.rank) == (None, last, 2)


def test_work_makes_an_engine_busy_until_it_is_done(cluster):
    cluster.roster[1].start_work("In[3]", 7.0)
    assert view(cluster, 1).state == "busy"
    assert (view(cluster, 1).cell, view(cluster, 1).busy_s) == ("In[3]", 3.0)
    cluster.roster[1].end_work()
    idle = view(cluster, 1)
    assert (idle.state, idle.cell, idle.busy_s) == ("idle", "", 0)


def test_a_lost_engine_stays_lost_with_its_first_reason_and_without_load(cluster):
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(1)]))
    cluster.roster[1].start_work("In[3]", 7.0)
    assert cluster.roster.lose(1, "SIGKILL")
    assert not cluster.roster.lose(1, "silence")
    cluster.roster[1].end_work()  # a late result
    lost = view(cluster, 1)
    assert (lost.state, lost.reason) == ("lost", "SIGKILL")
    assert (lost.beat_age_s, lost.cpu_percent, lost.rss_bytes) == (0, 0, 0)
    assert cluster.roster.present_ranks() == [0, 2, 3]


@pytest.mark.parametrize(
    ("kind", "is_running", "state"),
    [
        *((kind, True, "collective") for kind in ("", "straggler", "stuck", "unsure")),
        ("hang", True, "hung"),
        ("hang", False, "busy"),
    ],
)
def test_a_busy_engine_is_shown_in_its_collective_as_hung_if_nobody_comes(
    cluster, kind, is_running, state
):
    cluster.roster[0].start_work("In[1]", 0.0)
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(0, is_running)]))
    shown = view(cluster, 0, kind=kind)
    assert (shown.state, shown.collective.operation) == (state, "barrier")


def test_telemetry_of_a_rank_that_does_not_exist_is_ignored(cluster):
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(99), in_collective(1)]))
    assert cluster.roster[1].sample.rss_bytes == 1000


# --- devices ---

UUIDS = ("GPU-1a2b", "GPU-1a2c")


def seen_devices(host, joined, oversubscribe=False, env=None, per_engine=1):
    """What the ranks of one host are given, and the GPUs at which they are shown."""
    gpus = [pb.GpuLinks(index=index, uuid=uuid) for index, uuid in enumerate(UUIDS)]
    spec = ClusterSpec(
        name="demo",
        hosts=(host,),
        oversubscribe=oversubscribe,
        devices_per_engine=per_engine,
        env=env or {},
    )
    roster = Roster(spec)
    roster.take_joined(
        "a", pb.Joined(**{"gpu_count": 2, "gpus": gpus, "devices": ["0", "1"], **joined})
    )
    roster.seat()
    views = Snapshot(roster).draw("ready", 1, HangVerdict(), {}, 0.0).engines
    return [(e.info.device, v.device) for e, v in zip(roster.engines, views, strict=True)]


NONE = {"gpu_count": 0, "gpus": [], "devices": []}
FOUR = {"gpu_count": 4, "gpus": [], "devices": ["3", "0", "1", "2"]}


@pytest.mark.parametrize(
    ("host", "joined", "options", "found"),
    [
        (HostSpec("a", 1), {}, {}, [("0", 0)]),
        (HostSpec("a", 3), {}, {}, [("", None)] * 3),
        (HostSpec("a", 3), {}, {"oversubscribe": True}, [("0", 0), ("1", 1), ("0", 0)]),
        # What was asked for goes before what the agent sees, and the user's variables before all.
        (HostSpec("a", 2, devices=(1, 0)), {}, {}, [("1", 1), ("0", 0)]),
        (HostSpec("a", 2, devices=(1, 0)), NONE, {}, [("1", None), ("0", None)]),
        (HostSpec("a", devices=(0, 1)), {}, {"env": {"CUDA_VISIBLE_DEVICES": "1"}}, [("1", 1)]),
        (HostSpec("a", 2, env={"CUDA_VISIBLE_DEVICES": ""}), {}, {}, [("", None)] * 2),
        (
            HostSpec("a", 2),
            {"devices": ["GPU-1a2c", "MIG-7"]},
            {},
            [("GPU-1a2c", 1), ("MIG-7", None)],
        ),
        # Where devices are hidden, cores count.
        (HostSpec("a"), {"devices": [], "cpu_count": 3}, {}, [("", None)] * 3),
        # A rank with several is shown at the first; all for one rank mean one rank, if any or not.
        (HostSpec("a"), FOUR, {"per_engine": 2}, [("3,0", 3), ("1,2", 1)]),
        (HostSpec("a", 1), FOUR, {"per_engine": 2}, [("3,0", 3)]),
        (HostSpec("a"), FOUR, {"per_engine": 4}, [("3,0,1,2", 3)]),
        (HostSpec("a"), FOUR, {"per_engine": 0}, [("3,0,1,2", 3)]),
        (HostSpec("a", 1), FOUR, {"per_engine": 3}, [("3,0,1", 3)]),
        (HostSpec("a"), {**NONE, "cpu_count": 8}, {"per_engine": 0}, [("", None)]),
    ],
)
def test_ranks_have_devices_and_are_shown_at_their_gpus(host, joined, options, found):
    assert seen_devices(host, joined, **options) == found


def test_what_connects_gpus_and_hosts_is_shown():
    roster = roster_of("a:1")

    def shown():
        (host,) = Snapshot(roster).draw("ready", 1, HangVerdict(), {}, 0.0).hosts
        return host

    assert (shown().interface, shown().address) == ("", "")
    gpu = pb.GpuLinks(index=0, uuid="GPU-1", pcie_generation=5, pcie_lanes=16, nvlink_version=4)
    roster.take_joined("a", pb.Joined(gpus=[gpu]))
    roster.hosts["a"].interface = Interface("ib0", "10.1.0.1", 16, 200_000)
    (links,) = shown().gpu_links
    assert (links.index, links.pcie_generation, links.pcie_lanes) == (0, 5, 16)
    assert (links.nvlink_version, links.nvlink_count) == (4, 0)
    assert (shown().interface, shown().address) == ("ib0", "10.1.0.1")
    assert shown().interface_mbps == 200_000


# --- hosts ---


def test_a_host_is_up_once_its_agent_has_joined_and_lost_when_it_is_gone(starting):
    host = starting.roster.hosts["a"]

    def state():
        return Snapshot(starting.roster).draw("starting", 1, HangVerdict(), {}, 0.0).hosts[0].state

    assert state() == "starting"
    host.joined = pb.Joined(host="a", cpu_count=8)
    assert state() == "up"
    host.is_lost = True
    assert state() == "lost"


def test_an_engine_that_is_not_busy_is_in_no_collective(cluster):
    cluster.roster[0].start_work("In[1]", 0.0)
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(0)]))
    cluster.roster[0].end_work()
    assert view(cluster, 0).state == "idle"
    assert not view(cluster, 0).collective.is_running
    cluster.roster[0].start_work("In[2]", 1.0)
    assert view(cluster, 0).state == "busy", "the last sample was of another cell"


# --- hosts that join ---


def roster_of(hosts):
    hosts = parse_hosts(hosts) if isinstance(hosts, str) else hosts
    return Roster(ClusterSpec(name="demo", hosts=hosts))


def names(records):
    return [record.name for record in records]


def test_without_slots_nobody_is_seated_before_all_have_joined():
    roster = roster_of("a,b:3")
    assert roster.world_size == 0
    assert roster.present_ranks() == []
    roster.take_joined("a", pb.Joined(gpu_count=2, devices=["0", "1"], cpu_count=64))
    roster.take_joined("b", pb.Joined(gpu_count=8, cpu_count=64))
    roster.seat()
    assert {engine.info.world_size for engine in roster.engines} == {5}
    places = [f"{engine.info.host}{engine.info.local_rank}" for engine in roster.engines]
    assert places == ["a0", "a1", "b0", "b1", "b2"]


EIGHT = {"gpu_count": 8, "devices": [str(index) for index in range(8)]}


def test_ranks_that_are_seated_keep_their_seats(starting):
    engines = list(starting.roster.engines)
    starting.roster.seat()
    assert starting.roster.engines == engines
    assert all(one is other for one, other in zip(starting.roster.engines, engines, strict=True))


@pytest.mark.parametrize(
    ("host", "joined", "slots"),
    [
        (HostSpec("a", 3), {"slots": 2, **EIGHT}, 3),
        (HostSpec("a"), {"slots": 2, **EIGHT}, 2),
        (HostSpec("a", devices=(4, 5, 6)), {"gpu_count": 8}, 3),
        (HostSpec("a"), {**EIGHT, "cpu_count": 64}, 8),
        (HostSpec("a"), {"gpu_count": 8, "devices": ["6", "GPU-7"], "cpu_count": 64}, 2),
        (HostSpec("a"), {"cpu_count": 64}, 4),
        (HostSpec("a"), {"cpu_count": 2}, 2),
        (HostSpec("a"), {}, 1),
    ],
)
def test_a_host_takes_as_many_ranks_as_was_said_or_it_has_gpus_or_cores(host, joined, slots):
    roster = roster_of((host,))
    roster.take_joined("a", pb.Joined(**joined))
    roster.seat()
    assert roster.world_size == slots
    assert roster.hosts["a"].spec.slots == slots


def test_those_that_join_take_the_places_kept_for_them_in_the_order_they_come():
    roster = roster_of("a:1,join:2,b:1")
    for name, slots in (("y", 1), ("b", 0), ("x", 1)):
        assert "a" in names(roster.missing_hosts)
        roster.take_joined(name, pb.Joined(slots=slots))
    assert names(roster.missing_hosts) == ["a"]
    roster.take_joined("a", pb.Joined())
    assert roster.missing_hosts == []
    roster.seat()
    assert list(roster.hosts) == ["a", "y", "x", "b"]
    assert [engine.info.host for engine in roster.engines] == ["a", "y", "x", "b"]


def test_nobody_is_seated_before_those_that_join_have_brought_their_names():
    hosts = tuple(HostSpec(f"slurm-{n}", slots=2, launcher="join") for n in (1, 2))
    roster = roster_of(hosts)
    assert roster.engines == []
    for name in ("nodeA", "nodeB"):
        roster.take_joined(name, pb.Joined(slots=2))
    roster.seat()
    assert [engine.info.host for engine in roster.engines] == ["nodeA", "nodeA", "nodeB", "nodeB"]


def test_one_that_brings_the_name_of_a_place_takes_that_place():
    roster = roster_of("join:2")
    for name in ("join-2", "other"):
        roster.take_joined(name, pb.Joined(slots=1))
    assert list(roster.hosts) == ["other", "join-2"]


def test_a_host_tells_its_interfaces_and_keeps_its_wish():
    roster = roster_of((HostSpec("a", 1, interface="ib0"),))
    assert roster.hosts["a"].network.interfaces == ()
    interface = pb.Interface(name="ib0", address="10.1.0.1", prefix_length=16, speed_mbps=200_000)
    joined = pb.Joined(interfaces=[interface], local_address="10.0.0.1", machine="m")
    roster.take_joined("a", joined)
    network = roster.hosts["a"].network
    assert network.interfaces == (Interface("ib0", "10.1.0.1", 16, 200_000),)
    assert (network.local_address, network.wish, network.machine) == ("10.0.0.1", "ib0", "m")


def test_an_agent_that_comes_back_finds_its_host_as_it_was():
    roster = roster_of("a")
    roster.take_joined("a", pb.Joined(slots=2))
    roster.hosts["a"].is_lost = True
    roster.take_joined("a", pb.Joined(slots=7))
    assert not roster.hosts["a"].is_lost
    assert roster.hosts["a"].spec.slots == 2
