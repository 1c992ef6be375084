import pytest

from jupyter_dist.cluster.spec.host_list import parse_hosts
from jupyter_dist.errors import UnknownRanks
from jupyter_dist.model.hosts.axes import Axes, lay_out
from jupyter_dist.model.hosts.rank import (
    RankInfo,
    assign_ranks,
    default_slots,
    format_ranks,
    name_along,
    name_ranks,
    naming_along,
    number_ranks,
    parse_ranks,
)


def test_ranks_are_dense_over_hosts_in_the_order_given():
    assert assign_ranks(parse_hosts("b:2,a:1")) == (
        RankInfo(0, 3, 0, 2, 0, "b"),
        RankInfo(1, 3, 1, 2, 0, "b"),
        RankInfo(2, 3, 0, 1, 1, "a"),
    )


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("0", (0,)), ("0,2-3", (0, 2, 3)), (" 3 , 1 ", (1, 3)), ("1-1", (1,)), ("2,0-2", (0, 1, 2))],
)
def test_ranks_are_read_sorted_and_once(text, ranks):
    assert parse_ranks(text, 4) == ranks


@pytest.mark.parametrize(
    "text", ["", ",", "4", "-1", "2-1", "0-4", "a", "1-", "0 1", "0-99999999999"]
)
def test_ranks_that_are_not_there_are_refused(text):
    with pytest.raises(UnknownRanks) as caught:
        parse_ranks(text, 4)
    assert (caught.value.given, caught.value.world_size) == (text, 4)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([], ""), ([3], "3"), ([3, 0, 2, 7], "0,2-3,7"), ([1, 1, 0], "0-1"), (range(8), "0-7")],
)
def test_ranks_are_written_the_short_way(ranks, text):
    assert format_ranks(ranks) == text


def test_what_is_written_can_be_read_again():
    assert parse_ranks(format_ranks([0, 2, 3, 7]), 8) == (0, 2, 3, 7)


@pytest.mark.parametrize(
    ("ranks", "text"), [([2], "rank 2"), ([2, 2], "rank 2"), ([0, 1, 2, 5], "ranks 0-2,5")]
)
def test_ranks_are_named_in_the_right_number(ranks, text):
    assert name_ranks(ranks) == text


def test_ranks_of_an_iterator_are_named_too():
    assert name_ranks(rank for rank in (1, 2)) == "ranks 1-2"


@pytest.mark.parametrize(
    ("devices", "cores", "per_engine", "slots"),
    [
        (8, 64, 1, 8),
        (8, 64, 2, 4),
        (8, 64, 8, 1),
        (8, 64, 0, 1),
        (0, 64, 0, 1),
        (0, 64, 1, 4),
        (0, 2, 1, 2),
        (0, 0, 1, 1),
    ],
)
def test_a_host_takes_a_rank_for_each_share_of_its_devices(devices, cores, per_engine, slots):
    assert default_slots(devices, cores, per_engine) == slots


@pytest.fixture
def square():
    """Axes that end with the test, in all sentences of this process."""
    yield lay_out([("data", 2), ("model", 2)], 4)
    name_along(Axes())


def test_ranks_have_their_coordinates_beside_them_where_axes_are_named(square):
    name_along(square)
    assert name_ranks([3]) == "rank 3 (data=1, model=1)"
    assert name_ranks([2, 3]) == "ranks 2-3 (data=1)"
    assert name_ranks(range(4)) == "ranks 0-3"
    assert number_ranks([3]) == "rank 3"


def test_a_client_names_them_along_the_axes_of_the_cluster_that_it_speaks_of(square):
    with naming_along(square):
        assert name_ranks([3]) == "rank 3 (data=1, model=1)"
        with naming_along(Axes()):
            assert name_ranks([3]) == "rank 3"
    assert name_ranks([3]) == "rank 3"
