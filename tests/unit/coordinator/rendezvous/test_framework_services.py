import msgspec
import pytest

from jupyter_dist.coordinator.rendezvous.framework_services import FrameworkServices
from jupyter_dist.coordinator.rendezvous.store import Store
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    AwaitValue,
    RequestService,
    ServiceFound,
    ValueFound,
    service_key,
)


class Ranks:
    """Four ranks on the hosts a and b, and what they and the agents are told."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.sender = cluster.sender
        self.values = Store(cluster.rendezvous, cluster.sender)
        self.services = FrameworkServices(cluster.roster, self.values, cluster.sender)

    def want(self, *ranks, service="jax", at_rank=0, bind=""):
        generation = self.cluster.rendezvous.generation
        for rank in ranks:
            self.services.on_want(RequestService(rank, generation, service, at_rank, bind))

    def look(self, *ranks, service="jax", at_rank=0, bind=""):
        key = service_key(service, at_rank, bind)
        for rank in ranks:
            generation = self.cluster.rendezvous.generation
            self.values.on_message(AwaitValue(rank, generation, key), [])

    def answer(self, host, number, address="", problem=""):
        started = pb.ServiceStarted(
            request_id=f"service-{number}", address=address, problem=problem
        )
        self.services.on_event(host, pb.AgentEvent(service_started=started), 0.0)

    @property
    def started(self):
        commands = self.sender.commanded("start_service")
        return [(host, command.service, command.bind) for host, command in commands]

    @property
    def ended(self):
        commands = self.sender.commanded("end_service")
        return [(host, command.request_id) for host, command in commands]

    @property
    def found(self):
        """What ranks have been told since this was asked last."""
        told = [
            (rank, msgspec.msgpack.decode(frames[0], type=ServiceFound))
            for rank, message, frames in self.sender.engines
            if isinstance(message, ValueFound)
        ]
        self.sender.engines.clear()
        return told


@pytest.fixture
def ranks(cluster):
    return Ranks(cluster)


def test_the_same_wish_of_all_ranks_starts_one_process_on_the_host_of_the_rank(ranks):
    ranks.want(0, 1, 2, 3, at_rank=3)
    assert ranks.started == [("b", "jax", "")]
    ((_, command),) = ranks.sender.commands
    assert command.start_service.world_size == 4


def test_all_ranks_get_the_address_those_that_ask_later_too(ranks):
    ranks.want(0, 1, 2, 3)
    ranks.look(0, 1)
    assert ranks.found == []
    ranks.answer("a", 1, "10.0.0.1:4711")
    ranks.look(2)
    ranks.want(3)
    ranks.look(3)
    assert ranks.found == [(rank, ServiceFound("10.0.0.1:4711")) for rank in range(4)]
    assert len(ranks.started) == 1


def test_another_service_rank_address_or_generation_is_another_process(ranks):
    ranks.want(0)
    ranks.want(0, service="mpi")
    ranks.want(0, at_rank=2)
    ranks.want(0, bind="10.0.0.1:4711")
    ranks.cluster.rendezvous.regroup()
    ranks.want(0)
    assert ranks.started == [
        ("a", "jax", ""),
        ("a", "mpi", ""),
        ("b", "jax", ""),
        ("a", "jax", "10.0.0.1:4711"),
        ("a", "jax", ""),
    ]


def test_what_listens_at_a_port_that_is_wanted_again_ends_before(ranks):
    ranks.want(0, bind="10.0.0.1:4711")
    ranks.answer("a", 1, "10.0.0.1:4711")
    ranks.want(0)
    ranks.answer("a", 2, "10.0.0.1:4712/more")
    ranks.want(0, at_rank=2, bind="10.0.0.2:4711")
    ranks.want(0, bind="10.0.0.1:04711")
    assert ranks.ended == [("a", "service-1")]
    ranks.cluster.rendezvous.regroup()
    ranks.want(0, bind="10.0.0.1:4712")
    ranks.want(0, bind="10.0.0.1:4711")
    assert ranks.ended == [("a", f"service-{number}") for number in (1, 2, 4)]


def test_a_wish_or_an_answer_of_a_generation_before_is_dropped(ranks):
    ranks.want(0)
    ranks.cluster.rendezvous.regroup()
    ranks.services.on_want(RequestService(1, 1, "jax", 0, "10.0.0.1:4711"))
    ranks.look(1)
    ranks.answer("a", 1, "10.0.0.1:4711")
    assert ranks.found == []
    assert len(ranks.started) == 1


def test_all_ranks_hear_of_the_same_failure_before_one_may_try_again(ranks):
    ranks.want(0, 1)
    ranks.look(0)
    ranks.answer("a", 1, problem="the port is taken")
    ranks.want(1)
    ranks.look(1)
    told = ServiceFound("", "host a: the port is taken")
    assert ranks.found == [(0, told), (1, told)]
    assert len(ranks.started) == 1
    ranks.want(0, 1)
    ranks.look(0, 1)
    assert len(ranks.started) == 2
    ranks.answer("a", 2, "10.0.0.1:4711")
    assert ranks.found == [(0, ServiceFound("10.0.0.1:4711")), (1, ServiceFound("10.0.0.1:4711"))]


def test_one_that_has_ended_by_itself_is_started_again_when_it_is_wanted(ranks):
    ranks.want(0)
    ranks.answer("a", 1, "10.0.0.1:4711")
    ranks.answer("a", 1, problem="its process has ended (SIGKILL)")
    ranks.want(1)
    ranks.look(1)
    assert len(ranks.started) == 2
    assert ranks.found == []
    ranks.answer("a", 2, "10.0.0.1:4712")
    assert ranks.found == [(1, ServiceFound("10.0.0.1:4712"))]


@pytest.mark.parametrize(("at_rank", "named"), [(2, " host b "), (4, "rank 4 ")])
def test_that_a_host_has_no_agent_or_a_rank_does_not_exist_is_told_at_once(ranks, at_rank, named):
    ranks.sender.hosts_with_agents = {"a"}
    ranks.want(1, at_rank=at_rank)
    ranks.look(1, at_rank=at_rank)
    assert ranks.started == []
    ((rank, found),) = ranks.found
    assert (rank, found.address) == (1, "")
    assert named in found.problem


def test_who_waits_is_told_when_the_host_goes(ranks):
    ranks.want(0, 1, at_rank=2)
    ranks.look(0, 1, at_rank=2)
    ranks.services.on_gone("a")
    assert ranks.found == []
    ranks.services.on_gone("b")
    assert [rank for rank, found in ranks.found if " host b " in found.problem] == [0, 1]


def test_an_answer_counts_only_from_the_host_that_was_asked(ranks):
    ranks.want(0)
    ranks.look(0)
    ranks.answer("b", 1, "10.0.0.2:1")
    ranks.answer("a", 7, "10.0.0.1:1")
    assert ranks.found == []


def test_the_one_before_the_present_is_kept_and_older_ones_are_ended(ranks):
    for _generation in (1, 2, 3):
        ranks.want(0)
        ranks.want(0, service="mpi")
        ranks.want(0, at_rank=2)
        ranks.cluster.rendezvous.regroup()
    assert ranks.ended == [("a", "service-1"), ("b", "service-3"), ("a", "service-2")]


def test_one_that_is_not_wanted_again_is_kept_over_any_number_of_generations(ranks):
    ranks.want(0)
    for _generation in range(5):
        ranks.cluster.rendezvous.regroup()
        ranks.want(0, service="mpi")
    assert ("a", "service-1") not in ranks.ended
