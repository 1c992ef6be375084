from fakes.named import array, names, number
from fakes.notebook import Page

from jupyter_dist.cluster.variables.names_table import HEADS, tabulate_names
from jupyter_dist.views.tables.variables_table import names_html, names_text

DIFFERING = tabulate_names(
    {0: names(array("w"), number("loss", 0.5)), 1: names(array("w"), number("loss", 0.25))},
    {2: "<lost>"},
)


def test_the_text_explains_its_mark_before_the_notes():
    *_, marked, legend, note = names_text(DIFFERING).splitlines()
    assert marked.startswith("▶  loss")
    assert legend.startswith("▶ ")
    assert note == DIFFERING.notes[0]


def test_without_a_difference_no_mark_is_explained():
    assert "▶" not in names_text(tabulate_names({0: names(number("a", 1))}, {}))


def test_the_page_has_the_same_rows_as_the_text():
    page = Page(names_html(DIFFERING))
    assert page.rows == [
        ["", *HEADS[1:]],
        ["", "w", "ndarray", "4", "float32", "96 B, 48 B a rank", "", "not compared"],
        [
            *("▶", "loss", "float", "", "", "56 B, 28 B a rank", "0.5, 0.25"),
            "differs: 0.5 on rank 0, 0.25 on rank 1",
        ],
    ]
    assert page.text[0] == DIFFERING.memory
    assert page.text[-1].endswith("rank 2: <lost>")


def test_columns_in_which_nothing_stands_are_left_out():
    table = tabulate_names({0: names(number("a", 1))}, {})
    assert Page(names_html(table)).rows[0] == ["name", "type", "memory", "value"]


def test_no_names_and_no_ranks_are_told_as_such():
    nothing = tabulate_names({0: names()}, {})
    assert nothing.emptiness in Page(names_html(nothing)).text
    silent = tabulate_names({}, {0: "it is lost"})
    assert Page(names_html(silent)).text == list(silent.notes)
    assert names_text(silent).splitlines() == list(silent.notes)
