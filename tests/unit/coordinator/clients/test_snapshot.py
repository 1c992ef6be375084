import pytest
from fakes.batch_job import FakeJob
from msgspec.msgpack import encode

from jupyter_dist.coordinator.clients.snapshot import Snapshot
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.state.engine_state import EngineEvent
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.model.hosts.topology import GpuProcess, GpuView, LinkGroup, NicView
from jupyter_dist.model.spec.batch import JobSeen, JobState
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.protocol import host_agent_pb2 as pb

GPU = GpuView(
    index=3,
    name="NVIDIA H200",
    utilisation_percent=97.0,
    memory_used_bytes=118 * 10**9,
    memory_total_bytes=150 * 10**9,
    power_w=612.3,
    power_limit_w=700.0,
    temperature_c=58.0,
    ecc_errors=1,
    xid=94,
    xid_age_s=12.5,
    pcie_generation=5,
    pcie_lanes=16,
    mig="3 instances",
    is_throttled=True,
    strangers=(GpuProcess(pid=7, name="ffmpeg", memory_bytes=5),),
    problem="GPU is lost",
)
NIC = NicView(
    name="ib0",
    speed_mbps=400_000,
    rdma="mlx5_0",
    is_up=False,
    numa_node=1,
    nearest_gpus=(0, 1),
    distance="PIX",
)
LINKS = (
    LinkGroup(kind="nvlink", gpus=(0, 1, 2), lanes=18, is_switched=True),
    LinkGroup(kind="PIX", gpus=(0, 1)),
    LinkGroup(kind="SYS", gpus=(0, 1, 2)),
)


@pytest.fixture
def host():
    """One host of one rank, with what its agent tells at second 100; `look(now_s)` draws it."""

    def make(joined=None, per_engine=1, **telemetry):
        spec = HostSpec("a", 1)
        roster = Roster(ClusterSpec(name="demo", hosts=(spec,), devices_per_engine=per_engine))
        roster.take_joined("a", joined or pb.Joined())
        roster.seat()
        if telemetry:
            roster.take_telemetry("a", pb.Telemetry(**telemetry), 100.0)
        return lambda now_s=100.0: (
            Snapshot(roster).draw("ready", 1, HangVerdict(), {}, now_s).hosts[0]
        )

    return make


def test_cards_links_and_numa_nodes_are_drawn_as_they_were_told(host):
    links = encode(LINKS)
    look = host(pb.Joined(links=links, numa_nodes=2), nics=encode((NIC,)), gpus=encode((GPU,)))
    assert look().gpus == (GPU,)
    assert look().links == LINKS
    assert look().nics == (NIC,)
    assert look().numa_nodes == 2


def test_the_age_of_a_sample_grows_until_the_next_comes(host):
    look = host(age_s=0.5, gpus=encode((GPU, GpuView(index=0))))
    assert look().sampled_s == 0.5
    assert look(107.0).sampled_s == 7.5
    erring, sound = look(107.0).gpus
    assert (erring.xid_age_s, sound.xid_age_s) == (12.5 + 7.5, 0.0)
    assert host()(50.0).sampled_s == 0.0, "without a sample there is no age"


def test_an_engine_tells_all_of_its_gpus(host):
    gpus = [pb.GpuLinks(index=i, uuid=f"GPU-{i}") for i in range(4)]
    joined = pb.Joined(gpu_count=4, gpus=gpus, devices=["GPU-2", "0", "MIG-7", "3"])
    (engine,) = host(joined, per_engine=4)().engines
    assert engine.device == 2
    assert engine.devices == (2, 0, 3), "of a MIG device NVML has no number"
    (engine,) = host()().engines
    assert (engine.device, engine.devices) == (None, ())


def test_what_a_rank_uses_of_its_gpus_is_drawn_with_it(host):
    look = host(engines=[pb.EngineSample(engine="0", gpu_memory_bytes=7 * 10**9)])
    assert look().engines[0].gpu_memory_bytes == 7 * 10**9
    assert host()().engines[0].gpu_memory_bytes == 0, "unknown"


def test_a_job_is_drawn_with_what_needs_attention_beside_the_verdict():
    roster = Roster(ClusterSpec(name="demo", hosts=(HostSpec("a", 1),)))
    job = JobWatch(FakeJob, "Slurm job 12")
    job.seen = JobSeen(JobState.RUNNING, "RUNNING")

    drawing, verdict = Snapshot(roster, job), HangVerdict("hang", "rank 0 waits")

    def draw(verdict):
        return drawing.draw("ready", 1, verdict, {}, 0.0)

    first, second = draw(HangVerdict()), draw(verdict)
    assert first.sequence < second.sequence
    assert (first.job, second.note) == ("Slurm job 12, RUNNING", verdict.text)
    job.problem = "Slurm job 12 reached its time limit (TIMEOUT)"
    assert draw(verdict).note == f"{verdict.text}; {job.problem}"
    assert draw(HangVerdict()).note == job.problem
    assert Snapshot(roster).draw("ready", 1, HangVerdict(), {}, 0.0).job == ""


def test_a_task_of_ipyparallel_is_what_its_rank_does_and_a_cell_waits_behind_it():
    roster = Roster(ClusterSpec(name="demo", hosts=(HostSpec("a", 2),)))
    for engine in roster.engines:
        engine.apply(EngineEvent.JOINED)
    roster.start_task(1, "apply train", 6.0)

    def draw():
        return Snapshot(roster).draw("ready", 1, HangVerdict(), {}, 10.0).engines

    idle, busy = draw()
    assert (idle.state, idle.cell, idle.busy_s) == ("idle", "", 0.0)
    assert (busy.state, busy.cell, busy.busy_s) == ("busy", "apply train (ipyparallel)", 4.0)
    roster[1].start_work("In[3]", 9.0)
    assert draw()[1].cell == "apply train (ipyparallel), then In[3]"
    roster.end_task(1)
    assert (draw()[1].cell, draw()[1].busy_s) == ("In[3]", 1.0)
    roster.start_task(1, "apply train", 6.0)
    roster.lose(1, "its process was killed")
    assert (draw()[1].state, draw()[1].cell) == ("lost", "")
