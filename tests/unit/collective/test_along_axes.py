import threading

import pytest
from fakes.control import FakeControl, FakeHouse
from fakes.host_transport import EchoTransport

from jupyter_dist.collective.communicator import NoCommunicator
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.errors import CollectiveTimeout, UsageError
from jupyter_dist.model.hosts.axes import Axes, lay_out

SQUARE = lay_out([("data", 2), ("model", 2)], 4, (), (0, 2, 1, 3))


@pytest.fixture
def four():
    """The communicators of four ranks, of which each has a transport that tells its own arrays."""
    house = FakeHouse()
    ranks = []
    for rank in range(4):
        group = Group(rank, 4, 1)
        ranks.append(HostCommunicator(group, EchoTransport(group), None, FakeControl(rank, house)))
        ranks[-1].take_axes(SQUARE)
    return ranks


def all_along(ranks, *names):
    """Have these ranks call `axis` side by side; gives their communicators."""
    found = {}
    threads = [
        threading.Thread(target=lambda each=each: found.update({each.rank: each.axis(*names)}))
        for each in ranks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[each.rank] for each in ranks]


def test_a_rank_knows_its_coordinates(four):
    assert [each.coordinates for each in four] == [
        {"data": 0, "model": 0},
        {"data": 1, "model": 0},
        {"data": 0, "model": 1},
        {"data": 1, "model": 1},
    ]
    assert four[0].axes == {"data": 2, "model": 2}


def test_the_communicator_along_an_axis_has_the_ranks_that_differ_in_it_only(four):
    along = all_along(four, "model")
    assert [each.world_ranks for each in along] == [(0, 2), (1, 3), (0, 2), (1, 3)]
    assert [each.rank for each in along] == [0, 0, 1, 1]
    assert all_along(four, "data")[3].world_ranks == (1 + 1, 3)
    assert all_along(four, "model", "data")[0].world_ranks == (0, 2, 1, 3)


def test_only_the_ranks_along_it_must_come_and_only_once(four):
    some = [four[0], four[2]]
    along = all_along(some, "model")
    assert [each.axis("model") for each in some] == along
    four[0].take_axes(SQUARE)
    assert four[0].axis("model") is along[0], "they are the same axes"


def test_other_axes_have_other_communicators(four):
    before = all_along(four, "model")
    for each in four:
        each.take_axes(lay_out([("model", 4)], 4))
    after = all_along(four, "model")
    assert after[0].world_ranks == (0, 1, 2, 3)
    assert after[0] is not before[0]


@pytest.mark.parametrize("names", [(), ("pipe",), ("data", "pipe")])
def test_an_axis_that_there_is_not_is_refused_with_those_that_there_are(four, names):
    with pytest.raises(UsageError, match="data=2,model=2"):
        four[0].axis(*names)


def test_without_axes_the_way_to_name_them_is_told(four):
    four[0].take_axes(Axes())
    assert four[0].coordinates == {}
    with pytest.raises(UsageError, match="%dist_axes"):
        four[0].axis("data")


def test_a_communicator_along_an_axis_has_no_axes_itself(four):
    along = all_along(four, "data")[0]
    assert along.axes == {}
    with pytest.raises(UsageError, match="on `comm` itself"):
        along.axis("data")


def test_who_waits_in_vain_keeps_no_door_open(four):
    four[0].timeout_s = 0.1
    with pytest.raises(CollectiveTimeout):
        four[0].axis("model")
    assert four[0]._transport.prepared == 0


def test_inside_a_group_of_calls_it_is_refused(four):
    with four[0].group(), pytest.raises(UsageError, match="inside comm"):
        four[0].axis("data")


def test_coordinates_are_known_without_a_communicator():
    none = NoCommunicator(Group(1, 4, 1))
    none.take_axes(SQUARE)
    assert none.coordinates == {"data": 1, "model": 0}
