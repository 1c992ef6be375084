import pytest

from jupyter_dist.coordinator.rendezvous.store import Store
from jupyter_dist.protocol.messages import AwaitValue, PutValue, ValueFound
from jupyter_dist.protocol.places import key_of, read_place


@pytest.fixture
def values(cluster):
    found = Store(cluster.rendezvous, cluster.sender)
    cluster.values = found
    return found


def found(cluster):
    return [
        (rank, message.key, frames)
        for rank, message, frames in cluster.sender.engines
        if isinstance(message, ValueFound)
    ]


def test_who_waits_gets_the_value_when_it_comes(values, cluster):
    values.on_message(AwaitValue(3, 1, "id"), [])
    values.on_message(AwaitValue(1, 1, "id"), [])
    values.on_message(AwaitValue(1, 1, "other"), [])
    assert found(cluster) == []
    values.on_message(PutValue(0, 1, "id"), [b"secret"])
    assert found(cluster) == [(1, "id", [b"secret"]), (3, "id", [b"secret"])]


def test_a_value_that_is_there_is_sent_at_once_until_it_is_replaced(values, cluster):
    values.on_message(PutValue(0, 1, "id"), [b"first"])
    values.on_message(AwaitValue(2, 1, "id"), [])
    values.on_message(AwaitValue(1, 1, "id"), [])
    values.on_message(PutValue(2, 1, "id"), [b"second"])
    values.on_message(AwaitValue(1, 1, "id"), [])
    assert found(cluster) == [
        (2, "id", [b"first"]),
        (1, "id", [b"first"]),
        (1, "id", [b"second"]),
    ]
    assert cluster.sender.engines[0][1].generation == 1


def test_a_new_generation_knows_nothing_of_the_one_before(values, cluster):
    values.on_message(PutValue(0, 1, "id"), [b"old"])
    values.on_message(AwaitValue(3, 1, "late"), [])
    cluster.rendezvous.regroup()
    values.on_message(AwaitValue(1, 2, "id"), [])
    values.on_message(PutValue(0, 2, "late"), [b"new"])
    assert found(cluster) == []
    values.on_message(PutValue(0, 2, "id"), [b"new"])
    assert found(cluster) == [(1, "id", [b"new"])]


def test_who_asks_for_the_place_of_a_rank_is_told_in_its_generation_only(values, starting):
    starting.join()
    store = Store(starting.rendezvous, starting.sender)
    starting.sender.forget()
    store.on_message(AwaitValue(3, 1, key_of(1)), [])
    ((rank, key, (value,)),) = found(starting)
    assert (rank, key, read_place(value).host) == (3, key_of(1), "a")
    starting.rendezvous.regroup()
    starting.sender.forget()
    store.on_message(AwaitValue(3, 2, key_of(1)), [])
    assert found(starting) == []


def test_messages_of_another_generation_are_dropped(values, cluster):
    values.on_message(PutValue(0, 7, "id"), [b"early"])
    values.on_message(AwaitValue(1, 7, "id"), [])
    values.on_message(AwaitValue(1, 1, "id"), [])
    assert found(cluster) == []


@pytest.mark.parametrize("frames", [[], [b"a", b"b"]])
def test_a_value_is_one_frame(values, cluster, frames):
    values.on_message(AwaitValue(1, 1, "id"), [])
    values.on_message(PutValue(0, 1, "id"), frames)
    assert found(cluster) == []


def test_a_value_of_the_coordinator_reaches_who_waits_and_who_comes_later(values, cluster):
    values.on_message(AwaitValue(3, 1, "service"), [])
    values.tell(1, "service", b"here")
    values.on_message(AwaitValue(1, 1, "service"), [])
    assert found(cluster) == [(3, "service", [b"here"]), (1, "service", [b"here"])]


def test_a_value_of_the_coordinator_is_dropped_when_its_generation_is_over(values, cluster):
    cluster.rendezvous.regroup()
    values.tell(1, "service", b"here")
    values.on_message(AwaitValue(1, 2, "service"), [])
    assert found(cluster) == []
    assert not values.withdraw(1, "service")


def test_a_value_is_withdrawn_for_ranks_that_have_got_it(values, cluster):
    values.on_message(AwaitValue(0, 1, "service"), [])
    values.tell(1, "service", b"no")
    assert not values.withdraw(1, "service", 1)
    assert values.withdraw(1, "service", 0)
    values.on_message(AwaitValue(1, 1, "service"), [])
    assert found(cluster) == [(0, "service", [b"no"])]
    values.tell(1, "service", b"yes")
    assert found(cluster)[1:] == [(1, "service", [b"yes"])]
