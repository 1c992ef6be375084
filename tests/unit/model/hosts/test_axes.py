from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.axes import Axes, lay_out, read_sizes, write_sizes

SQUARE = lay_out(read_sizes("data=4,model=2"), 8)


@st.composite
def some_axes(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = draw(st.one_of(st.just([]), st.permutations(range(prod(sizes)))))
    return lay_out([(f"axis{i}", size) for i, size in enumerate(sizes)], prod(sizes), (), order)


def test_the_last_axis_is_the_fastest():
    assert SQUARE.coordinates(5) == {"data": 2, "model": 1}
    assert SQUARE.select({"data": (2,)}) == (4, 5)
    assert SQUARE.along(5, ["data"]) == (1, 3, 5, 7)


@given(some_axes(), st.data())
def test_a_rank_is_alone_at_its_coordinates(axes, data):
    rank = data.draw(st.sampled_from(range(prod(axes.sizes))))
    at = axes.coordinates(rank)
    assert axes.select({name: (index,) for name, index in at.items()}) == (rank,)


@given(some_axes(), st.data())
def test_ranks_are_selected_by_their_coordinates(axes, data):
    wanted = {
        name: data.draw(st.sets(st.sampled_from(range(size)), min_size=1))
        for name, size in axes.shape.items()
        if data.draw(st.booleans())
    }
    fitting = {
        rank
        for rank in range(prod(axes.sizes))
        if all(axes.coordinates(rank)[name] in among for name, among in wanted.items())
    }
    assert set(axes.select(wanted)) == fitting
    assert len(axes.select(wanted)) == len(fitting)


@given(some_axes(), st.data())
def test_ranks_along_an_axis_are_ordered_by_it_and_divide_the_world(axes, data):
    name = data.draw(st.sampled_from(axes.names))
    world = range(prod(axes.sizes))
    for rank in world:
        mates = axes.along(rank, [name])
        assert [axes.coordinates(mate)[name] for mate in mates] == list(range(axes.shape[name]))
        assert all(axes.along(mate, [name]) == mates for mate in mates)
    assert axes.along(0, axes.names) == axes.select({})


@given(some_axes())
def test_what_is_written_can_be_read_again(axes):
    again = lay_out(read_sizes(write_sizes(axes.shape)), prod(axes.sizes), (), axes.order)
    assert again == axes


def test_one_size_may_follow():
    assert lay_out(read_sizes("pod=2, data=-1, model=2"), 8).sizes == (2, 2, 2)
    assert lay_out(read_sizes("data=-1,model=8"), 8).sizes == (1, 8)


@pytest.mark.parametrize(
    "text",
    [
        "data=4,model=3",
        "data=4",
        "data=-1,model=3",
        "data=-1,model=-1",
        "data=0,model=8",
        "data=-2,model=4",
        "data=4,data=2",
        "1a=8",
        "for=8",
        "=8",
        "nodeA=8",
        "data",
        "data=",
        "data=4,",
        "data=four",
        "data=8.0",
        "",
        ",".join(f"a{number}=1" for number in range(17)),
    ],
)
def test_axes_that_do_not_fit_the_ranks_are_refused(text):
    with pytest.raises(UsageError):
        lay_out(read_sizes(text), 8, ["nodeA"])


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 1, 2, 2), (1, 2, 3, 4)])
def test_an_order_has_each_rank_once(order):
    with pytest.raises(UsageError):
        lay_out([("data", 4)], 4, (), order)


def test_an_order_that_says_nothing_new_is_none():
    assert lay_out([("data", 4)], 4, (), (0, 1, 2, 3)).order == ()
    assert lay_out([("data", 4)], 4, (), (3, 2, 1, 0)).coordinates(3) == {"data": 0}


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ((5,), " (data=2, model=1)"),
        ((4, 5), " (data=2)"),
        ((1, 3), " (model=1)"),
        (range(8), ""),
        ((), ""),
        ((8,), ""),  # of a cluster that has shrunk since
    ],
)
def test_what_ranks_share_is_told(ranks, told):
    assert SQUARE.tell(ranks) == told
    assert Axes().tell(ranks) == ""


def test_the_table_has_each_rank_in_its_place():
    assert str(lay_out(read_sizes("data=2,model=2"), 4)).splitlines() == [
        "data  model=0  model=1",
        "   0  rank 0   rank 1",
        "   1  rank 2   rank 3",
    ]
    assert str(lay_out([("data", 2)], 2)).splitlines() == ["data=0  data=1", "rank 0  rank 1"]
