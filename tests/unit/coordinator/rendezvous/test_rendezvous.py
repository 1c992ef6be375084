import pytest

from jupyter_dist.cluster.spec.host_list import parse_hosts
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.model.ranks.initialized import Formed, FrameworkPlan
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    Hello,
    NotReady,
    Ready,
    Regroup,
    Welcome,
)
from jupyter_dist.protocol.places import Place


def say_hello(cluster, *ranks, generation=None):
    generation = cluster.rendezvous.generation if generation is None else generation
    for rank in ranks:
        cluster.rendezvous.on_hello(Hello(rank, generation, 100 + rank, f"peer-{rank}"))


def say_ready(cluster, *ranks):
    for rank in ranks:
        cluster.rendezvous.on_ready(Ready(rank, cluster.rendezvous.generation))


def test_nobody_is_welcomed_before_the_last_hello(starting):
    say_hello(starting, 3, 1, 0)
    assert starting.sender.engines == []
    say_hello(starting, 2)
    welcomes = starting.sender.sent_to_ranks(Welcome)
    assert sorted(welcomes) == [0, 1, 2, 3]
    (welcome,) = welcomes[2]
    hosts = ("a", "a", "b", "b")
    assert welcome.peers == {rank: Place(f"peer-{rank}", hosts[rank]) for rank in range(4)}
    assert welcome.info == starting.roster[2].info
    assert (welcome.generation, welcome.communicator) == (1, "ring")
    assert starting.roster[2].pid == 102


@pytest.mark.parametrize(
    ("address", "hosts"), [("10.0.0.1:400{}", ((1, 4),)), ("10.0.0.{}:4000", ((4, 1),))]
)
def test_ranks_are_on_one_host_if_only_their_ports_differ(starting, address, hosts):
    for rank in range(4):
        hello = Hello(rank, 1, 100 + rank, address.format(rank))
        starting.rendezvous.on_hello(hello)
    told = starting.sender.sent_to_ranks(Welcome)
    assert {each[0].hosts for each in told.values()} == {hosts}


def test_everyone_gets_the_same_secret_and_every_generation_another(starting):
    starting.join()
    starting.rendezvous.regroup()
    starting.join()
    welcomes = starting.sender.sent_to_ranks(Welcome)
    first = {messages[0].key for messages in welcomes.values()}
    second = {messages[1].key for messages in welcomes.values()}
    assert len(first) == len(second) == 1
    assert first != second
    assert len(first.pop()) == 32


def test_it_is_complete_when_the_last_rank_is_ready(starting):
    say_hello(starting, 0, 1, 3)
    assert starting.rendezvous.awaited_ranks == [2]
    say_hello(starting, 2)
    say_ready(starting, 0, 1, 2, 2)
    assert not starting.rendezvous.is_complete
    assert starting.rendezvous.missing_ranks == starting.rendezvous.awaited_ranks == [3]
    say_ready(starting, 3)
    assert starting.rendezvous.is_complete
    assert starting.roster.ranks_in(EngineState.IDLE) == [0, 1, 2, 3]


def test_messages_of_an_older_generation_are_dropped(cluster):
    cluster.rendezvous.regroup()
    cluster.sender.forget()
    say_hello(cluster, 0, 1, 2, 3, generation=1)
    cluster.rendezvous.on_ready(Ready(0, 1))
    cluster.rendezvous.on_not_ready(NotReady(0, 1, "old"))
    assert cluster.sender.engines == []
    assert cluster.rendezvous.missing_ranks == [0, 1, 2, 3]
    assert cluster.rendezvous.problem == ""


def test_a_rank_that_cannot_join_is_the_problem(starting):
    say_hello(starting, 0, 1, 2, 3)
    say_ready(starting, 0, 1, 2, 3)
    starting.rendezvous.on_not_ready(NotReady(2, 1, "no route"))
    assert not starting.rendezvous.is_complete
    assert starting.rendezvous.problem == "rank 2: no route"


def test_regrouping_asks_everyone_for_a_new_hello(cluster):
    cluster.rendezvous.is_broken = cluster.rendezvous.is_forming_frameworks = True
    cluster.rendezvous.regroup()
    asked = cluster.sender.sent_to_ranks(Regroup)
    assert [[message.generation for message in asked[rank]] for rank in range(4)] == [[2]] * 4
    assert cluster.roster.ranks_in(EngineState.STARTING) == [0, 1, 2, 3]
    assert not cluster.rendezvous.is_broken
    assert not cluster.rendezvous.is_forming_frameworks
    cluster.join()
    assert cluster.rendezvous.is_complete


def test_a_loss_in_the_first_round_welcomes_nobody(starting):
    say_hello(starting, 0, 1, 2)
    starting.lose(3)
    say_hello(starting, 2)
    assert starting.sender.sent_to_ranks(Welcome) == {}


def test_a_loss_while_regrouping_does_not_strand_the_others(cluster):
    cluster.rendezvous.regroup()
    cluster.sender.forget()
    say_hello(cluster, 0, 1)
    cluster.lose(2)
    say_hello(cluster, 3)
    assert cluster.roster.ranks_in(EngineState.IDLE) == [0, 1, 3]
    assert cluster.sender.sent_to_ranks(Welcome) == {}


def test_a_rank_that_is_ready_after_such_a_loss_may_be_at_work_already(cluster):
    cluster.rendezvous.regroup()
    say_hello(cluster, 0, 1, 2, 3)
    cluster.lose(2)
    cluster.roster[0].start_work("In[1]", 0.0)
    say_ready(cluster, 0, 1, 3)
    assert cluster.roster[0].state is EngineState.BUSY
    assert cluster.roster.ranks_in(EngineState.IDLE) == [1, 3]


@pytest.fixture
def uncounted(starting):
    """A host that has not told how many ranks it takes."""
    return type(starting)(ClusterSpec(name="demo", hosts=parse_hosts("a")))


def test_nothing_is_complete_before_ranks_are_counted_and_all_are_waited_for(uncounted):
    assert not uncounted.rendezvous.is_complete
    assert uncounted.rendezvous.missing_ranks == []
    uncounted.roster.take_joined("a", pb.Joined(slots=2))
    uncounted.roster.seat()
    uncounted.rendezvous.expect_all()
    assert uncounted.rendezvous.missing_ranks == [0, 1]
    say_hello(uncounted, 0)
    assert uncounted.sender.sent_to_ranks(Welcome) == {}
    say_hello(uncounted, 1)
    assert sorted(uncounted.sender.sent_to_ranks(Welcome)) == [0, 1]
    say_ready(uncounted, 0, 1)
    assert uncounted.rendezvous.is_complete


def test_ranks_that_join_are_told_of_a_loss_and_what_they_say_of_it_is_no_news(cluster):
    cluster.rendezvous.regroup()
    say_hello(cluster, 0, 1, 2, 3)
    cluster.lose(2)
    told = cluster.sender.sent_to_ranks(AbortCommunicator)
    assert sorted(told) == [0, 1, 3]
    assert told[0][0].failed_rank == 2
    cluster.rendezvous.on_not_ready(NotReady(0, cluster.rendezvous.generation, "rank 2 was lost"))
    assert cluster.rendezvous.problem == ""


# --- what frameworks have formed --------------------------------------------------------------

JAX = Formed("jax", 1, 4, calls=5)


def regroup_with(cluster, *formed):
    """Form another generation, to which each rank brings what it has formed."""
    cluster.rendezvous.regroup()
    for rank, each in enumerate(formed):
        hello = Hello(rank, cluster.rendezvous.generation, 100 + rank, "peer", each)
        cluster.rendezvous.on_hello(hello)
    return {
        welcome.frameworks
        for messages in cluster.sender.sent_to_ranks(Welcome).values()
        for welcome in messages
        if welcome.generation == cluster.rendezvous.generation
    }


def test_all_ranks_are_told_the_same_of_what_frameworks_have_formed(cluster):
    (plans,) = regroup_with(cluster, (JAX,), (JAX,), (JAX,), (JAX,))
    assert plans == (FrameworkPlan("jax", is_kept=True),)
    assert not cluster.rendezvous.is_forming_frameworks
    for rank in range(4):
        say_ready(cluster, rank)
    ((plan,),) = regroup_with(cluster, (JAX,), (), (JAX,), (JAX,))
    assert (plan.name, plan.is_kept) == ("jax", False)
    assert "rank 1" in plan.reason
    assert cluster.rendezvous.is_forming_frameworks, "more than a communicator"


def test_what_the_cluster_was_started_with_is_formed_by_all(starting):
    starting.rendezvous.always_formed = ("jax",)
    say_hello(starting, 0, 1, 2, 3)
    welcome = starting.sender.sent_to_ranks(Welcome)[2][0]
    assert [(plan.name, plan.is_kept) for plan in welcome.frameworks] == [("jax", False)]


def test_notes_name_the_ranks_that_say_so_and_are_given_once(starting):
    say_hello(starting, 0, 1, 2, 3)
    for rank in range(4):
        notes = ("from all", "w is stale") if rank in {1, 2} else ("from all",)
        starting.rendezvous.on_ready(Ready(rank, 1, notes))
    assert starting.rendezvous.take_notes() == ("from all", "ranks 1-2: w is stale")
    assert starting.rendezvous.take_notes() == ()


def test_notes_of_a_generation_that_never_stood_are_not_told(cluster):
    cluster.rendezvous.regroup()
    say_hello(cluster, 0, 1, 2, 3)
    cluster.rendezvous.on_ready(Ready(0, cluster.rendezvous.generation, ("w is stale",)))
    cluster.lose(2)
    cluster.rendezvous.on_ready(Ready(1, cluster.rendezvous.generation, ("rank 2 is in the way",)))
    cluster.rendezvous.regroup()
    assert cluster.rendezvous.take_notes() == ()


def test_who_is_there_and_who_is_ready_is_known(starting):
    rendezvous = starting.rendezvous
    assert (rendezvous.generation, rendezvous.lost_rank) == (1, -1)
    assert not rendezvous.is_welcomed
    assert not rendezvous.is_forming_frameworks
    say_hello(starting, 0, 1, 2)
    assert (rendezvous.present_ranks, rendezvous.ready_ranks) == ({0, 1, 2}, set())
    assert not rendezvous.is_welcomed
    say_hello(starting, 3)
    say_ready(starting, 1)
    assert (rendezvous.present_ranks, rendezvous.ready_ranks) == ({0, 1, 2, 3}, {1})
    assert rendezvous.is_welcomed
    rendezvous.regroup()
    assert (rendezvous.present_ranks, rendezvous.ready_ranks) == (set(), set())
    assert not rendezvous.is_welcomed


def test_ranks_are_the_same_in_all_generations_since_the_last_loss(cluster):
    def whole():
        return [cluster.rendezvous.is_whole_since(generation) for generation in range(5)]

    assert whole() == [False, True, False, False, False]
    cluster.rendezvous.regroup()
    cluster.join()
    assert whole() == [False, True, True, False, False]
    cluster.lose(2)
    assert (cluster.rendezvous.lost_rank, cluster.rendezvous.is_broken) == (2, True)
    assert whole() == [False] * 5
    cluster.rendezvous.regroup()
    assert whole() == [False, False, False, True, False]


def test_after_a_loss_members_are_idle_and_newcomers_wait_until_they_have_come(cluster):
    cluster.lose(3)
    for rank in (0, 1, 2):
        assert cluster.roster[rank].state is EngineState.IDLE
    cluster.roster.replace(3, cluster.roster[3].info)
    cluster.rendezvous.regroup([3])
    cluster.rendezvous.on_lost(2)
    assert cluster.roster[3].state is EngineState.STARTING, "it has not said Hello"


def test_a_newcomer_that_is_there_is_idle_when_a_generation_fails(cluster):
    cluster.lose(3)
    cluster.roster.replace(3, cluster.roster[3].info)
    cluster.rendezvous.regroup([3])
    say_hello(cluster, 3)
    cluster.rendezvous.give_up("no route")
    assert cluster.rendezvous.is_broken
    assert cluster.roster.ranks_in(EngineState.IDLE) == [0, 1, 2, 3]


def test_a_single_rank_is_complete_on_its_own(starting):
    alone = type(starting)(ClusterSpec(name="demo", hosts=parse_hosts("a:1")))
    assert not alone.rendezvous.is_complete
    alone.join()
    assert alone.rendezvous.is_complete
