from pathlib import Path

import pytest
from fakes.batch_job import FakeJob
from fakes.outbox import RecordingOutbox

from jupyter_dist.coordinator.arrivals import Arrivals
from jupyter_dist.coordinator.deployment import Deployment
from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.hosts import Hosts, Reach
from jupyter_dist.coordinator.job_watch import JobWatch
from jupyter_dist.coordinator.losses import Losses
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.model.host_list import parse_hosts
from jupyter_dist.model.spec import ClusterSpec
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.credentials import Credentials, KeyPair
from jupyter_dist.version import WIRE

CREDENTIALS = Credentials("server", KeyPair("public", "secret"))
GPUS = {"gpu_count": 2, "devices": ["0", "1"]}
READY = {**GPUS, "versions": {"cupy": "14.2.0", "nccl": "2.30.7"}}


class House:
    """Hosts a and b, two ranks on each, and what their agents are told."""

    def __init__(self, hosts="a:2,b:2", job=None, **options):
        spec = ClusterSpec(name="demo", hosts=parse_hosts(hosts), **options)
        self.roster, outbox = Roster(spec), RecordingOutbox()
        self.rendezvous = Rendezvous(self.roster, outbox)
        fence = Fence(self.roster, self.rendezvous, outbox)
        losses = Losses(self.roster, self.rendezvous, fence, lambda _: None)
        self.orders = {}
        deployment = Deployment(spec, CREDENTIALS)
        self.hosts = Hosts(
            self.roster,
            self.rendezvous,
            fence,
            losses,
            Reach(deployment, Arrivals({}, Path(), job), self._send),
        )

    def _send(self, host, command):
        self.orders[host] = command.start_engines
        return True

    def join(self, host, **facts):
        joined = pb.Joined(wire=WIRE, machine=host, **facts)
        self.hosts.on_event(host, pb.AgentEvent(joined=joined), 0.0)

    @property
    def kinds(self):
        """The kind of communicator, as each part has it."""
        told = {order.communicator for order in self.orders.values()}
        return {*told, self.rendezvous.communicator}


def test_the_communicator_is_chosen_once_the_last_host_has_told_what_it_has():
    house = House()
    house.join("a", **READY)
    assert (house.orders, house.rendezvous.communicator) == ({}, "")
    house.join("b", **READY)
    assert sorted(house.orders) == ["a", "b"]
    assert house.kinds == {"nccl"}
    assert house.hosts.problem == ""


def test_ranks_are_seated_with_their_devices():
    house = House()
    house.join("a", **READY)
    house.join("b", gpu_count=2, devices=["GPU-x", "GPU-y"])
    assert [engine.info.device for engine in house.roster.engines] == ["0", "1", "GPU-x", "GPU-y"]
    assert [place.device for place in house.orders["b"].places] == ["GPU-x", "GPU-y"]


def test_why_it_is_not_nccl_is_a_note():
    house = House()
    house.join("a", **READY)
    house.join("b")
    assert house.kinds == {"ring"}
    assert house.hosts.list_notes()[0] == (
        "comm is ring, in the memory of the hosts, not nccl: b: it has no GPU"
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"communicator": "nccl"}, "--comm nccl cannot be: b: it has no GPU"),
        ({"communicator": "gloo"}, "--comm gloo cannot be: torch is missing on a, b"),
    ],
)
def test_what_cannot_be_is_refused_before_any_engine_is_started(options, problem):
    house = House(**options)
    house.join("a", **READY)
    house.join("b")
    assert house.hosts.problem.startswith(problem)
    assert house.orders == {}


def test_more_ranks_than_devices_are_refused_for_nccl_before_any_engine_is_started():
    house = House(communicator="nccl")
    house.join("a", **READY)
    house.join("b", **{**READY, "gpu_count": 1, "devices": ["0"]})
    assert "b: 2 ranks on 1 device" in house.hosts.problem
    assert "Ask for b:1, or let ranks share devices with --oversubscribe" in house.hosts.problem
    assert house.orders == {}


def test_ranks_that_share_a_device_may_have_nccl():
    house = House(communicator="nccl", oversubscribe=True)
    house.join("a", **READY)
    house.join("b", **{**READY, "gpu_count": 1, "devices": ["0"]})
    assert house.kinds == {"nccl"}
    assert [place.device for place in house.orders["b"].places] == ["0", "0"]


def test_an_agent_that_comes_after_the_cluster_went_on_without_its_host_is_sent_away():
    house = House()
    for host in ("a", "b"):
        house.join(host)
    house.stopped = []
    house.hosts._send = lambda host, command: house.stopped.append((host, command))
    del house.roster.hosts["b"]
    house.join("b")
    assert [(host, command.WhichOneof("command")) for host, command in house.stopped] == [
        ("b", "stop")
    ]


@pytest.mark.parametrize(("lost", "told"), [((1,), "1"), ((0, 1), None)])
def test_a_new_engine_is_told_of_the_devices_of_those_that_are_there(lost, told):
    house = House(communicator="nccl", oversubscribe=True)
    house.join("a", **READY)
    house.join("b", **{**READY, "gpu_count": 1, "devices": ["0"]})
    for rank in lost:
        house.roster.lose(rank + 2, "killed")
    house.roster.replace(3, house.roster[3].info)
    house.hosts.start_engines((3,))
    assert house.orders["b"].env.get("NCCL_MULTI_RANK_GPU_ENABLE") == told


@pytest.mark.parametrize(
    ("job", "order"),
    [
        (None, ["node10", "node9"]),
        (JobWatch(FakeJob, "the Slurm job"), ["node9", "node10"]),
    ],
    ids=["by themselves", "of a job"],
)
def test_nodes_of_a_job_get_ranks_in_the_order_of_their_names(job, order):
    house = House("join:2", job)
    for host in ("node10", "node9"):
        house.join(host, slots=1, **READY)
    assert [engine.info.host for engine in house.roster.engines] == order
    assert [engine.info.host_rank for engine in house.roster.engines] == [0, 1]
