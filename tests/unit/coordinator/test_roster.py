import pytest

from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.protocol import host_agent_pb2 as pb


def view(cluster, rank, now_s=10.0, note=""):
    topology = cluster.roster.topology("ready", 1, note, {rank: 0.25}, now_s)
    return topology.engines[rank]


def in_collective(rank, is_running=True):
    last = pb.Collective(sequence=4, operation="barrier", seconds=2.5, is_running=is_running)
    return pb.EngineSample(rank=rank, cpu_percent=50, rss_bytes=1000, collective=last)


def test_every_rank_starts_on_its_host(starting):
    roster = starting.roster
    assert roster.ranks_in(EngineState.STARTING) == [0, 1, 2, 3]
    assert roster.group_by_host([3, 0, 2]) == {"b": [3, 2], "a": [0]}
    assert [engine.info.rank for engine in roster.on_host("b")] == [2, 3]


def test_work_makes_an_engine_busy_until_it_is_done(cluster):
    cluster.roster.start_work(1, "In[3]", 7.0)
    assert view(cluster, 1).state == "busy"
    assert (view(cluster, 1).cell, view(cluster, 1).busy_s) == ("In[3]", 3.0)
    cluster.roster.end_work(1)
    assert (view(cluster, 1).state, view(cluster, 1).cell, view(cluster, 1).busy_s) == (
        "idle",
        "",
        0,
    )


def test_a_late_result_does_not_bring_a_lost_engine_back(cluster):
    cluster.roster.start_work(1, "In[3]", 7.0)
    cluster.roster.lose(1, "killed")
    cluster.roster.end_work(1)
    assert cluster.roster[1].state is EngineState.LOST


def test_a_loss_is_news_only_once_and_keeps_its_first_reason(cluster):
    assert cluster.roster.lose(2, "killed by SIGKILL")
    assert not cluster.roster.lose(2, "no heartbeat")
    assert view(cluster, 2).reason == "killed by SIGKILL"
    assert cluster.roster.present_ranks() == [0, 1, 3]


def test_a_lost_engine_has_no_beat_and_no_load(cluster):
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(0)]))
    cluster.roster.lose(0, "killed")
    lost = view(cluster, 0)
    assert (lost.beat_age_s, lost.cpu_percent, lost.rss_bytes) == (0, 0, 0)


def test_a_busy_engine_inside_a_collective_is_shown_in_it(cluster):
    cluster.roster.start_work(0, "In[1]", 0.0)
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(0)]))
    assert view(cluster, 0).state == "collective"
    assert view(cluster, 0).collective.operation == "barrier"


def test_a_collective_that_nobody_completes_is_shown_as_hung(cluster):
    cluster.roster.start_work(0, "In[1]", 0.0)
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(0)]))
    assert view(cluster, 0, note="rank 0 waits").state == "hung"


def test_a_collective_that_is_over_is_not_a_state(cluster):
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(0, is_running=False)]))
    cluster.roster.start_work(0, "In[1]", 0.0)
    assert view(cluster, 0).state == "busy"


def test_telemetry_of_a_rank_that_does_not_exist_is_ignored(cluster):
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(99), in_collective(1)]))
    assert cluster.roster[1].sample.rss_bytes == 1000


@pytest.mark.parametrize(("rank", "device"), [(0, 0), (1, None), (2, None)])
def test_a_rank_has_the_gpu_of_its_place_when_there_is_one(cluster, rank, device):
    cluster.roster.take_telemetry("a", pb.Telemetry(gpus=[pb.GpuSample(index=0, name="H200")]))
    assert view(cluster, rank).device == device


def test_a_host_is_up_once_its_agent_has_joined_and_lost_when_it_is_gone(starting):
    host = starting.roster.hosts["a"]

    def state():
        return starting.roster.topology("starting", 1, "", {}, 0.0).hosts[0].state

    assert state() == "starting"
    host.joined = pb.Joined(host="a", cpu_count=8)
    assert state() == "up"
    host.is_lost = True
    assert state() == "lost"


def test_each_snapshot_has_a_higher_number(cluster):
    numbers = [cluster.roster.topology("ready", 1, "", {}, 0.0).sequence for _ in range(3)]
    assert numbers == sorted(set(numbers))


def test_an_engine_that_is_not_busy_is_in_no_collective(cluster):
    cluster.roster.start_work(0, "In[1]", 0.0)
    cluster.roster.take_telemetry("a", pb.Telemetry(engines=[in_collective(0)]))
    cluster.roster.end_work(0)
    assert view(cluster, 0).state == "idle"
    assert not view(cluster, 0).collective.is_running
    cluster.roster.start_work(0, "In[2]", 1.0)
    assert view(cluster, 0).state == "busy", "the last sample was of another cell"
