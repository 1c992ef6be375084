"""`cluster.vars`: what is asked of the cluster, and what is refused before that."""

import numpy as np
import pytest
from fakes.named import names, number

from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.variables.handles import FETCHED_WHOLE_BYTES, MOST_BYTES, Variables
from jupyter_dist.cluster.variables.names_table import tabulate_names
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.variable_facts import NameInfo

LARGE = FETCHED_WHOLE_BYTES // 8 + 1


class Cluster:
    """Three ranks whose variables are here; notes what is asked for."""

    world_size = 3

    def __init__(self):
        self.names = [
            {"x": rank, "w": np.arange(LARGE, dtype=float) + rank, "odd": np.zeros(rank + 1)}
            for rank in range(3)
        ]
        self.asked = []

    def who(self, patterns="", ranks=None):
        infos = {
            rank: names(*map(self._describe, own, own.values()))
            for rank, own in enumerate(self.names)
            if ranks in (None, rank)
        }
        return tabulate_names(infos, {})

    def _describe(self, name, value):
        if isinstance(value, np.ndarray):
            return NameInfo(name, "ndarray", str(len(value)), "float64", value.nbytes)
        return number(name, value)

    def run(self, code, ranks=None):
        self.asked.append((code, ranks))
        return SpmdResult([])

    def push(self, objects, ranks=None):
        self.asked.append((objects, ranks))

    def pull(self, name, ranks=None, *, most_bytes=0):
        assert most_bytes == MOST_BYTES
        self.asked.append((name, ranks))
        wanted = range(3) if ranks is None else [ranks]
        return {rank: eval(name, dict(self.names[rank])) for rank in wanted}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def variables(cluster):
    return Variables(cluster)


def test_a_variable_is_fetched_sent_and_deleted_on_one_rank_and_on_all(cluster, variables):
    assert variables.x[2] == 2
    assert list(variables.x) == [0, 1, 2]
    assert len(variables.x) == 3
    variables.x[np.int64(1)] = 5
    variables.x = 6
    del variables.x[0]
    del variables.x
    assert cluster.asked == [
        ("x", 2),
        ("x", None),
        ({"x": 5}, 1),
        ({"x": 6}, None),
        ("del x", 0),
        ("del x", None),
    ]


def test_of_a_large_array_only_what_is_wanted_travels(cluster, variables):
    w = variables.w[1]
    assert cluster.asked == []
    assert "1 MiB" in repr(w)
    assert w[:3].tolist() == [1.0, 2.0, 3.0]
    assert w[-1] == LARGE
    assert w[None, ..., 1:3].shape == (1, 2)
    assert w[(np.int64(4),)] == 5.0
    assert [name for name, _ in cluster.asked] == ["w[:3]", "w[-1]", "w[None, ..., 1:3]", "w[4,]"]
    assert np.asarray(w)[7] == w.fetch()[7] == 8.0
    assert np.asarray(w, dtype=np.float32).dtype == np.float32
    with pytest.raises(UsageError, match="Accepted: "):
        w[np.array([1, 2])]


def test_arrays_and_numbers_of_all_ranks_are_stacked(cluster, variables):
    assert variables.x.gather().tolist() == [0, 1, 2]
    assert variables.w.gather().shape == (3, LARGE)
    with pytest.raises(UsageError, match=r"\(1,\) on rank 0, \(2,\) on rank 1"):
        variables.odd.gather()
    for own in cluster.names:
        own["odd"] = {"a": 1}
    with pytest.raises(UsageError, match="no array"):
        variables.odd.gather()


@pytest.mark.parametrize("rank", [3, -1, "0", slice(2), 1.0, None])
def test_what_is_no_rank_is_refused(cluster, variables, rank):
    for use in (lambda: variables.x[rank], lambda: variables.x.__setitem__(rank, 1)):
        with pytest.raises(UsageError, match="Accepted: 0-2"):
            use()
    assert cluster.asked == []


def test_names_can_be_listed_and_what_others_look_for_is_not_a_variable(variables):
    assert dir(variables) == ["odd", "w", "x"]
    assert repr(variables).count("ndarray") == 2
    for name in ("_repr_html_", "__wrapped__"):
        assert not hasattr(variables, name)
