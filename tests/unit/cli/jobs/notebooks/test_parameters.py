"""Parameters of notebooks: which there are, how they are typed, where they are put."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from jupyter_dist.cli.jobs.notebooks.parameters import (
    inject_parameters,
    read_parameters,
    usual_values,
)
from jupyter_dist.errors import UsageError

USUAL = {
    "lr": 0.5,
    "steps": 3,
    "is_quick": False,
    "name": "run",
    "sizes": [1, 2],
    "seed": None,
}


def notebook(source="lr = 0.5\nsteps = 3", *others):
    cell = new_code_cell(source, metadata={"tags": ["parameters"]})
    return new_notebook(cells=[new_markdown_cell("# Train"), cell, *others, new_code_cell("lr")])


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("lr", "0.1", 0.1),
        ("lr", "1e-3", 0.001),
        ("lr", "2", 2.0),
        ("lr", "None", None),
        ("steps", "-4", -4),
        ("is_quick", "True", True),
        ("name", "night", "night"),
        ("name", "007", "007"),
        ("name", "'a b'", "a b"),
        ("sizes", "[3]", [3]),
        ("seed", "7", 7),
        ("seed", "now", "now"),
    ],
)
def test_a_value_is_a_literal_of_the_usual_kind(name, text, value):
    read = read_parameters(USUAL, [(name, text)])[name]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("lr", "fast", "float"),
        ("lr", "True", "float"),
        ("steps", "1.5", "int"),
        ("steps", "True", "int"),
        ("is_quick", "true", "True or False"),
        ("is_quick", "1", "True or False"),
        ("sizes", "(1, 2)", "list"),
        ("lrr", "1", "Did you mean lr"),
        ("class", "1", "Accepted: lr"),
    ],
)
def test_another_kind_and_an_unknown_name_are_refused(name, text, said):
    with pytest.raises(UsageError, match=said):
        read_parameters(USUAL, [(name, text)])


def test_of_two_values_the_last_one_counts():
    assert read_parameters(USUAL, [("lr", "1"), ("lr", "2")]) == {"lr": 2.0}


def test_the_usual_values_are_what_the_cell_assigns():
    source = "%%spmd --quiet\n# usual\nlr: float = 0.5\na = b = 1\nx = f()\n%time\nprint(1)"
    found = usual_values(source)
    assert {name: found[name] for name in ("lr", "a", "b")} == {"lr": 0.5, "a": 1, "b": 1}
    assert read_parameters(found, [("x", "(1,)")]) == {"x": (1,)}


def test_values_stand_in_a_cell_of_their_own_after_the_usual_ones():
    made = notebook()
    inject_parameters(made, [("lr", "0.1"), ("steps", "7")])
    _, usual, injected, _ = made.cells
    assert usual.source == "lr = 0.5\nsteps = 3"
    assert injected.source == "# Parameters\nlr = 0.1\nsteps = 7"
    assert injected.metadata.tags == ["injected-parameters"]


def test_a_cell_that_an_earlier_run_has_put_in_is_replaced():
    old = new_code_cell("# Parameters\nlr = 9", metadata={"tags": ["injected-parameters"]})
    made = notebook("lr = 0.5", old)
    inject_parameters(made, [("lr", "0.1")])
    assert [cell.source for cell in made.cells[1:]] == [
        "lr = 0.5",
        "# Parameters\nlr = 0.1",
        "lr",
    ]


def test_parameters_of_ranks_go_to_ranks():
    made = notebook("%%spmd --quiet\nlr = 0.5")
    inject_parameters(made, [("lr", "0.1")])
    assert made.cells[2].source == "%%spmd --quiet\n# Parameters\nlr = 0.1"


@pytest.mark.parametrize(
    ("made", "said"),
    [(new_notebook(cells=[new_code_cell("x = 1")]), "tag"), (notebook("x = ="), "line 1")],
)
def test_a_notebook_that_says_nothing_of_parameters_accepts_none(made, said):
    inject_parameters(made, [])
    with pytest.raises(UsageError, match=said):
        inject_parameters(made, [("x", "1")])
