"""One variable by rank: who has the same, and who has not."""

import pytest
from fakes.named import array, names, number

from jupyter_dist.cluster.variables.names_table import HERE, tabulate_names
from jupyter_dist.cluster.variables.rank_table import write_rank_table


def rows(*infos, problems=None):
    """The lines below the name, of ranks that have these each (None: lacks it)."""
    answers = dict(enumerate(names(*([info] if info else [])) for info in infos))
    name, *lines = write_rank_table("x", tabulate_names(answers, problems or {})).splitlines()
    assert name == "x"
    return lines


def test_ranks_with_the_same_are_one_row():
    head, row = rows(*[number("x", 5)] * 3)
    assert head.split()[:3] == ["ranks", "type", "memory"]
    assert row.split()[:3] == ["ranks", "0-2", "int"]
    assert "5" in row.split()


@pytest.mark.parametrize(
    ("values", "marked"), [([1, 1, 2], ["2"]), ([1, 2, 3], ["0", "1", "2"]), ([2, 1, 1], ["0"])]
)
def test_those_that_are_not_as_on_most_ranks_are_marked(values, marked):
    _, *table = rows(*[number("x", value) for value in values])
    assert [line.split()[2] for line in table if line.startswith(HERE)] == marked


def test_what_differs_may_be_the_digest_alone():
    _, *table = rows(*[array("x", digest=each * 64) for each in "aab"])
    assert [line.split()[-1] for line in table] == ["a" * 8, "b" * 8]


def test_who_lacks_it_and_who_has_not_answered_is_told():
    *_, lacking, silent = rows(number("x", 5), None, problems={2: "stopped"})
    assert "rank 1 lacks" in lacking
    assert "rank 2" in silent
    assert len(rows(None, None)) == 1
