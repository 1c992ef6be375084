import pytest
from fakes.named import array, names, number

from jupyter_dist.cluster.variables.names_table import MOST_ROWS, tabulate_names
from jupyter_dist.model.ranks.variable_facts import NameInfo


def table(*ranks, problems=None, **more):
    return tabulate_names(dict(enumerate(ranks)), problems or {}, **more)


def row(*infos):
    """The only row, of ranks that have these each (None: lacks it)."""
    (found,) = table(*(names(*([info] if info else [])) for info in infos)).rows
    return found


@pytest.mark.parametrize(
    ("infos", "value", "remark"),
    [
        ([number("steps", 5)] * 3, "5", "same on all"),
        ([array("w")] * 3, "", "not compared"),
        ([array("w", digest="a"), array("w")], "", "not compared"),
        ([number("a", 1)], "1", ""),
        (
            [NameInfo("m", "Model", preview=f"<{each}>") for each in range(2)],
            "<0>, <1>",
            "not compared",
        ),
    ],
)
def test_only_what_was_compared_is_said_to_be_the_same(infos, value, remark):
    found = row(*infos)
    assert (found.value, found.remark, found.is_marked) == (value, remark, False)


def test_ranks_without_an_answer_are_not_said_to_have_the_same():
    found = table(*[names(number("a", 1))] * 2, problems={2: "stopped"})
    assert found.rows[0].remark.endswith(" ranks 0-1")
    assert [note.split(" from ")[1] for note in found.notes] == ["rank 2: stopped"]


@pytest.mark.parametrize(
    ("infos", "remark"),
    [
        ([number("a", 1), number("a", 1), None], "rank 2 lacks it"),
        ([number("a", 1), number("a", 1), number("a", 1), None, None], "ranks 3-4 lack it"),
        ([None, number("a", 1), None], "only rank 1 has it"),
        ([number("a", 1), number("a", 1), number("a", 2)], "differs: 2 on rank 2"),
        ([number("a", 1), number("a", 2)], "differs: 1 on rank 0, 2 on rank 1"),
        ([array("a", digest="x"), *[array("a", digest="y")] * 3], "differs on rank 0"),
        ([array("a", digest="x"), array("a", digest="y")], "differs between rank 0 and rank 1"),
        ([number("a", each) for each in range(6)], "differs: a different value on each rank"),
        ([number("a", each) for each in (0, 0, 1, 2, 3, 4)], "differs: 5 different values"),
        ([array("a"), array("a"), array("a", "5")], "shape differs: 5 on rank 2"),
        # Values are not compared where types or shapes differ.
        (
            [array("a", "4", digest="x"), array("a", "5", digest="y")],
            "shape differs: 4 on rank 0, 5 on rank 1",
        ),
        (
            [array("a"), array("a"), array("a", "", dtype="int8")],
            "shape differs: none on rank 2; dtype differs: int8 on rank 2",
        ),
        ([array("a"), number("a", 1), array("a")], "type differs: int on rank 1"),
        (
            [array("a", device="cuda:0"), array("a", device="cuda:0"), array("a")],
            "device differs: none on rank 2",
        ),
        (
            [number("a", 1), number("a", 2), number("a", 1), None],
            "rank 3 lacks it; differs: 2 on rank 1",
        ),
    ],
)
def test_differences_name_the_odd_ranks(infos, remark):
    found = row(*infos)
    assert (found.remark, found.is_marked) == (remark, True)


def test_differing_values_whose_beginnings_look_alike_are_not_shown_as_two():
    cut = [NameInfo("s", "str", preview="'aaa…", digest=each) for each in "xxy"]
    assert row(*cut).remark == "differs: 'aaa… on rank 2"
    both = [NameInfo("s", "str", preview="'aaa…", digest=each) for each in "xy"]
    assert row(*both).remark.endswith(" rank 0 and rank 1")


def test_columns_show_what_most_ranks_have():
    found = row(array("a"), array("a"), array("a", "5x3", dtype="int8"))
    assert (found.type_name, found.shape, found.dtype) == ("ndarray", "4", "float32")
    split = row(array("a"), array("a", "5"))
    assert (split.type_name, split.shape, split.dtype) == ("ndarray", "", "float32")
    assert row(array("a", device="cuda:0")).type_name.split()[::2] == ["ndarray", "cuda:0"]


def test_where_all_values_differ_the_first_ones_are_shown():
    assert row(*(number("a", each) for each in range(3))).value == "0, 1, 2"
    assert row(*(number("a", each) for each in range(6))).value == "0, 1, 2, …"
    assert row(*(number("a", "x" * 30, digest=each) for each in "abc")).value == "x" * 30


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((48,), "48 B"),
        ((48, 48), "96 B, 48 B a rank"),
        ((48, 2048), "2.05 KiB, 48 B to 2 KiB a rank"),
        ((-1, -1), ""),
        ((-1, 48), "48 B"),
    ],
)
def test_memory_is_told_in_all_and_for_a_rank(sizes, text):
    assert row(*(array("a", nbytes=each) for each in sizes)).memory == text


def test_memory_of_ranks_that_are_alike_is_told_together():
    found = table(*(names(rss_mib=each) for each in (100, 110, 400, 120)))
    expected = "memory of processes: ranks 0-1,3 100 MiB to 120 MiB, rank 2 400 MiB"
    assert found.memory == expected
    assert table(names(rss_mib=0)).memory == "", "it is not known"


def test_names_keep_the_order_in_which_they_came_to_be():
    one, two, three = (number(name, 1) for name in ("one", "two", "three"))
    found = table(names(one, three), names(one, two, three))
    assert [each.name for each in found.rows] == ["one", "two", "three"]


def test_too_many_names_are_cut_but_never_those_that_differ():
    same = [number(f"n{each}", 1) for each in range(300)]
    found = table(names(*same, number("odd", 1)), names(*same, number("odd", 2)))
    assert len(found.rows) == MOST_ROWS
    assert found.rows[0].name == "n0"
    assert found.rows[-1].name == "odd"
    assert [note[:8] for note in found.notes] == ["and 101 "]


def test_a_rank_that_has_not_told_all_is_not_said_to_lack_a_name():
    found = table(names(number("a", 1)), names(number("a", 1), number("b", 1)), names(omitted=7))
    a, b = found.rows
    assert (a.remark[-10:], a.is_marked) == (" ranks 0-1", False)
    assert b.remark == "rank 0 lacks it"
    assert [note[:9] for note in found.notes] == ["rank 2: 7"]


def test_ranks_without_an_answer_are_named_by_reason():
    problems = {1: "lost", 2: "lost", 3: "late"}
    notes = tabulate_names({0: names()}, problems).notes
    assert [note.split(" from ")[1] for note in notes] == ["ranks 1-2: lost", "rank 3: late"]


def test_the_text_has_memory_rows_and_notes():
    found = table(
        names(array("w", "4x3", "x"), number("loss", 0.5)),
        names(array("w", "4x3", "x"), number("loss", 0.25)),
        problems={2: "it is lost"},
    )
    differs = "differs: 0.5 on rank 0, 0.25 on rank 1"
    assert str(found).splitlines() == [
        "memory of processes: ranks 0-1 100 MiB",
        "   name  type     shape  dtype    memory             value      on the ranks",
        "   w     ndarray  4x3    float32  96 B, 48 B a rank             same on ranks 0-1",
        f"▶  loss  float                    56 B, 28 B a rank  0.5, 0.25  {differs}",
        "no answer from rank 2: it is lost",
    ]


def test_columns_in_which_nothing_stands_are_left_out():
    assert str(table(names(number("a", 1), rss_mib=0))).splitlines() == [
        "name  type  memory  value",
        "a     int   28 B    1",
    ]


def test_ranks_without_such_variables_are_told_of():
    assert str(table(names(rss_mib=0), names(rss_mib=0))).startswith("ranks 0-1 ")
    assert str(tabulate_names({}, {0: "lost"})).endswith(" rank 0: lost")
