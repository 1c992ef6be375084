import pytest

from jupyter_dist.coordinator.clients.axes_naming import AxesNaming
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.rank import name_along, name_ranks
from jupyter_dist.protocol.messages import (
    LocateRanks,
    NameAxes,
    TakeAxes,
    Welcome,
)


@pytest.fixture
def naming(cluster):
    """Take requests of `me` over four ranks on hosts a and b; gives the answer."""
    desk = AxesNaming(cluster.roster, cluster.rendezvous, cluster.sender)

    def ask(request):
        handle = desk.on_locate if isinstance(request, LocateRanks) else desk.on_name
        handle(b"me", request, 1.0)
        return cluster.sender.clients[-1][1]

    yield ask
    name_along(Axes())


def test_clients_learn_which_ranks_are_where(naming):
    found = naming(LocateRanks("r1"))
    assert found.hosts == {"a": (0, 1), "b": (2, 3)}
    assert not found.axes


def test_ranks_learn_of_axes_at_once_and_with_each_generation(cluster, naming):
    axes = naming(NameAxes("r1", ("data", "model"), (-1, 2))).axes
    assert (axes.sizes, axes.version) == ((2, 2), 1)
    told = cluster.sender.sent_to_ranks(TakeAxes)
    assert set(told) == {0, 1, 2, 3}
    assert told[0][-1].axes == axes
    assert name_ranks([3]) == "rank 3 (data=1, model=1)"
    cluster.rendezvous.regroup()
    cluster.join()
    assert cluster.sender.sent_to_ranks(Welcome)[2][-1].axes == axes


@pytest.mark.parametrize(
    ("names", "sizes", "order"),
    [
        (("data",), (3,), ()),
        (("data", "data"), (2, 2), ()),
        (("a",), (4,), ()),
        (("data",), (4,), (0, 1, 2, 2)),
        (("data", "model"), (4,), ()),
        (("data",), (0,), ()),
    ],
)
def test_axes_that_do_not_fit_are_refused_and_nothing_changes(cluster, naming, names, sizes, order):
    cluster.roster.axes = before = Axes(("data",), (4,))
    refused = naming(NameAxes("r1", names, sizes, order))
    assert refused.code is ErrorCode.USAGE_ERROR
    assert cluster.roster.axes.names == before.names
    assert not cluster.sender.sent_to_ranks(TakeAxes)


def test_no_names_drop_them(cluster, naming):
    naming(NameAxes("r1", ("data",), (4,)))
    axes = naming(NameAxes("r2")).axes
    assert (axes.names, axes.version) == ((), 2)
    assert name_ranks([3]) == "rank 3"


def test_who_leaves_takes_the_axes_along(cluster, naming):
    naming(NameAxes("r1", ("data",), (4,)))
    cluster.lose(1)
    assert naming(LocateRanks("r2")).hosts["a"] == (0, 1), "a lost rank keeps its place"
    cluster.roster.shrink()
    assert not naming(LocateRanks("r3")).axes
