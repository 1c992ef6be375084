import pytest
from fakes.batch_job import FakeJob
from fakes.outbox import RecordingSender
from fakes.recovery import make_hosts

from jupyter_dist.cluster.spec.host_list import parse_hosts
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.version import WIRE

GPUS = {"gpu_count": 2, "devices": ["0", "1"]}
READY = {**GPUS, "versions": {"cupy": "14.2.0", "nccl": "2.30.7"}}


class House:
    """Hosts a and b, two ranks on each, and what their agents are told."""

    def __init__(self, hosts="a:2,b:2", job=None, **options):
        self.spec = ClusterSpec(name="demo", hosts=parse_hosts(hosts), **options)
        self.roster, self.sender = Roster(self.spec), RecordingSender()
        self.rendezvous = Rendezvous(self.roster, self.sender)
        make_hosts(self, lambda _: None, job)

    @property
    def orders(self):
        return dict(self.sender.commanded("start_engines"))

    def join(self, host, **facts):
        joined = pb.Joined(**{"wire": WIRE, "machine": host, **facts})
        self.say(host, joined=joined)

    def say(self, host, **event):
        self.hosts.on_event(host, pb.AgentEvent(**event), 0.0)

    @property
    def kinds(self):
        """The kind of communicator, as each part has it."""
        told = {order.communicator for order in self.orders.values()}
        return {*told, self.rendezvous.communicator}


def test_once_the_last_host_has_told_what_it_has_each_starts_its_own_ranks_with_one_communicator():
    server = House()
    for number, host in enumerate("ab"):
        assert (server.orders, server.rendezvous.communicator) == ({}, "")
        interface = pb.Interface(name="eth0", address=f"10.0.0.{number}", prefix_length=24)
        server.join(host, interfaces=[interface], **READY)
    a, b = server.orders.values()
    assert [(order.bind_host, order.interface) for order in (a, b)] == [
        ("10.0.0.0", "eth0"),
        ("10.0.0.1", "eth0"),
    ]
    assert [(place.rank, place.local_rank) for place in b.places] == [(2, 0), (3, 1)]
    assert b.generation == server.rendezvous.generation
    assert server.kinds == {"nccl"}
    assert server.hosts.problem == ""


@pytest.mark.parametrize(
    ("facts", "data"),
    [
        ({"wire": "jupyter-dist/0"}, ("a: ", "jupyter-dist/0", WIRE)),
        ({"machine": "b", "hostname": "vm"}, ("a and b ", "(vm)", "a:4")),
    ],
)
def test_an_agent_of_another_version_or_twice_on_a_machine_ends_the_start(facts, data):
    server = House()
    server.join("a", **facts)
    server.join("b", hostname="vm")
    assert server.orders == {}
    assert [each for each in data if each not in server.hosts.problem] == []


def test_what_hosts_tell_or_differ_in_is_noted_with_their_names():
    server = House()
    server.join("a", versions={"numpy": "1.26.4"})
    server.join("b", versions={"numpy": "0.1"})
    for host in ("a", "a", "b", "b"):
        server.say(host, note=pb.Note(text="no /data here"))
    server.say("b", note=pb.Note(text="slow"))
    *differences, first, second = server.hosts.list_notes()
    assert (first, second) == ("a, b: no /data here", "b: slow")
    assert any("numpy" in note and "0.1 on b" in note for note in differences)
    server.say("a", start_problem=pb.StartProblem(reason="no zygote"))
    assert server.hosts.problem == "a: no zygote"


def test_why_it_is_not_nccl_is_a_note():
    server = House()
    server.join("a", **READY)
    server.join("b")
    assert server.kinds == {"ring"}
    assert "b: " in server.hosts.list_notes()[0]


@pytest.mark.parametrize("oversubscribe", [False, True])
def test_ranks_that_share_a_device_may_have_nccl_if_that_was_asked_for(oversubscribe):
    server = House(communicator="nccl", oversubscribe=oversubscribe)
    server.join("a", **READY)
    server.join("b", **{**READY, "gpu_count": 1, "devices": ["0"]})
    if oversubscribe:
        assert server.kinds == {"nccl"}
        assert [place.device for place in server.orders["b"].places] == ["0", "0"]
    else:
        assert "b: 2 ranks on 1 device" in server.hosts.problem
        assert server.orders == {}, "no engine is started"


def test_an_agent_that_comes_after_the_cluster_went_on_without_its_host_is_sent_away():
    server = House()
    for host in ("a", "b"):
        server.join(host)
    del server.roster.hosts["b"]
    server.join("b")
    assert [host for host, _ in server.sender.commanded("stop")] == ["b"]


@pytest.mark.parametrize(("lost", "told"), [((1,), "1"), ((0, 1), None)])
def test_a_new_engine_is_told_of_the_devices_of_those_that_are_there(lost, told):
    server = House(communicator="nccl", oversubscribe=True)
    server.join("a", **READY)
    server.join("b", **{**READY, "gpu_count": 1, "devices": ["0"]})
    for rank in lost:
        server.roster.lose(rank + 2, "killed")
    server.roster.replace(3, server.roster[3].info)
    server.hosts.start_engines((3,))
    assert server.orders["b"].env.get("NCCL_MULTI_RANK_GPU_ENABLE") == told


@pytest.mark.parametrize(
    ("job", "order"),
    [
        (None, ["node10", "node9"]),
        (JobWatch(FakeJob, "the Slurm job"), ["node9", "node10"]),
    ],
    ids=["on their own", "of a job"],
)
def test_nodes_of_a_job_get_ranks_in_the_order_of_their_names(job, order):
    server = House("join:2", job)
    for host in ("node10", "node9"):
        server.join(host, slots=1, **READY)
    assert [engine.info.host for engine in server.roster.engines] == order
    assert [engine.info.host_rank for engine in server.roster.engines] == [0, 1]
