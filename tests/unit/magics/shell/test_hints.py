from types import SimpleNamespace

import pytest

from jupyter_dist.errors import RankRaised
from jupyter_dist.magics.shell.hints import Hints


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("%dist_strat", "%dist_start"),
        ("%%spdm\nx = 1", "%%spmd"),
        ("%%dist_attach_\nx = 1", "%dist_attach"),
        ("%timeti 1", ""),
        ("1 / 0", ""),
    ],
)
def test_a_misspelled_magic_is_told_the_one_that_was_meant(run, typed, meant):
    text = run(typed).text
    if meant:
        assert f" {meant}?" in text
    else:
        assert "Did you mean" not in text


@pytest.mark.parametrize(
    ("name", "is_known"), [("answer", True), ("elsewhere", False), ("comm", False)]
)
def test_a_name_that_only_the_notebook_has_is_told_with_the_way_to_the_ranks(
    shell, capsys, name, is_known
):
    shell.user_ns["answer"] = 42
    error = RankRaised(0, "NameError", f"name '{name}' is not defined", ())
    Hints(shell)(SimpleNamespace(error_in_exec=error))
    assert (f"%dist_push {name}" in capsys.readouterr().out) is is_known


def test_other_errors_of_ranks_and_cells_that_end_well_get_no_hint(shell, capsys):
    for error in (None, RankRaised(0, "ValueError", "name 'a' is odd", ()), KeyError("a")):
        Hints(shell)(SimpleNamespace(error_in_exec=error))
    assert not capsys.readouterr().out
