import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.cluster.axes.selection import select_ranks
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.axes import Axes, lay_out
from jupyter_dist.model.hosts.rank import format_ranks

HOSTS = {"node01": (0, 1, 2, 3), "node02": (4, 5), "b": (6, 7)}
AXES = lay_out([("data", 4), ("model", 2)], 8, HOSTS)


@pytest.mark.parametrize(
    ("on", "ranks"),
    [
        ("b", (6, 7)),
        ("b,node01", (0, 1, 2, 3, 6, 7)),
        ("node[01-02]", (0, 1, 2, 3, 4, 5)),
        ("node[01,02], b", tuple(range(8))),
        ("data=0", (0, 1)),
        ("data=0-1,model=1", (1, 3)),
        ("data=0,2,model=0", (0, 4)),
        (" model = 1 , data = 3", (7,)),
        ("node02,model=1", (5,)),
        ({"data": 0}, (0, 1)),
        ({"data": [0, 3], "model": 1}, (1, 7)),
        ({"data": range(2)}, (0, 1, 2, 3)),
        ({"data": "1-2", "model": (0,)}, (2, 4)),
    ],
)
def test_ranks_are_selected_by_host_and_by_coordinate(on, ranks):
    assert select_ranks(None, on, HOSTS, AXES) == ranks


@pytest.mark.parametrize(
    "on",
    [
        "nodeC",
        "",
        ",",
        "node[02-03]",
        "b:2",
        "node[x]",
        "pipe=0",
        "data=4",
        "data=-1",
        "data=",
        "data=a",
        "data=0,data=1",
        "=0",
        "b,data=0",
        {},
        {"data": []},
        {"data": 1.5},
        {"data": None},
        {"pipe": 0},
    ],
)
def test_what_there_is_not_is_refused(on):
    with pytest.raises(UsageError):
        select_ranks(None, on, HOSTS, AXES)


def test_a_misspelled_host_is_guessed():
    with pytest.raises(UsageError, match="Did you mean node01"):
        select_ranks(None, "node1", HOSTS, AXES)


def test_without_axes_the_way_to_name_them_is_told():
    with pytest.raises(UsageError, match="%dist_axes"):
        select_ranks(None, "data=0", HOSTS, Axes())


def test_both_must_hold_where_ranks_are_named_too():
    assert select_ranks("0-4", "model=1", HOSTS, AXES) == (1, 3)
    assert select_ranks([7], {"data": 3}, HOSTS, AXES) == (7,)
    with pytest.raises(UsageError, match="no rank is left"):
        select_ranks("0-1", "b", HOSTS, AXES)
    assert select_ranks("3", None, HOSTS, AXES) == (3,)
    assert select_ranks(None, None, HOSTS, AXES) is None


@given(
    st.sets(st.integers(0, 3), min_size=1),
    st.sets(st.integers(0, 1), min_size=1),
    st.sets(st.sampled_from(sorted(HOSTS))),
)
def test_text_and_mapping_mean_the_ranks_that_fit(data, model, hosts):
    fitting = tuple(
        rank
        for rank in range(8)
        if rank // 2 in data
        and rank % 2 in model
        and (not hosts or any(rank in HOSTS[host] for host in hosts))
    )
    text = ",".join([*hosts, f"data={format_ranks(data)}", f"model={format_ranks(model)}"])
    if fitting:
        assert select_ranks(None, text, HOSTS, AXES) == fitting
    if fitting and not hosts:
        assert select_ranks(None, {"model": model, "data": data}, HOSTS, AXES) == fitting
