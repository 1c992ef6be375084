from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from IPython.core.completer import provisionalcompleter

from jupyter_dist.errors import ClusterGone
from jupyter_dist.magics.shell.completion import find_place
from jupyter_dist.magics.spmd import AutoSpmd
from jupyter_dist.protocol.messages import Completions

NAMES = ("weights", "weights_of_all")


@pytest.fixture
def asked(world, cluster, monkeypatch):
    """Let ranks know NAMES; gives what they were asked."""
    asked = []

    def complete(_self, code, cursor, rank=0):
        asked.append((code, cursor, rank))
        word = code[:cursor].replace("(", " ").split(" ")[-1].split("\n")[-1]
        found = tuple(name for name in NAMES if name.startswith(word))
        return Completions(found, cursor - len(word), cursor)

    monkeypatch.setattr(world.kind, "complete", complete, raising=False)
    return asked


@pytest.fixture
def complete(shell):
    """Complete at the mark `|`, or at the end; gives the cell as each choice would leave it."""

    def completions(code):
        before, _, after = code.partition("|")
        with provisionalcompleter():
            found = list(shell.Completer.completions(before + after, len(before)))
        return {before[: each.start] + each.text + after for each in found}

    return completions


def test_in_a_cell_of_the_ranks_their_names_complete(run, complete, asked):
    run("weight_of_me = 1")
    assert complete("%%spmd\nx = weig") == {f"%%spmd\nx = {name}" for name in NAMES}
    assert asked == [("x = weig", 8, 0)]


def test_the_cursor_may_stand_in_the_middle(run, complete, asked):
    assert complete("%%spmd\nif 1:\n    f(weights_|)\ny = 2") == {
        "%%spmd\nif 1:\n    f(weights_of_all)\ny = 2"
    }
    assert asked == [("if 1:\n    f(weights_)\ny = 2", 20, 0)]


@pytest.mark.parametrize(
    ("options", "rank"),
    [("--ranks 1", 1), ("--ranks 9", 0), ("--ran", 0), ("--ranks", 0), ("--timeout 3s", 0)],
)
def test_the_first_rank_of_the_cell_is_asked(run, complete, asked, options, rank):
    complete(f"%%spmd {options}\nweig")
    assert [each for *_, each in asked] == [rank]


def test_elsewhere_the_notebooks_own_names_complete(run, complete, asked):
    run("weighbridge = 1")
    assert complete("weig") == {"weighbridge"}
    complete("%%time\nweig")
    complete("%%local\nweig")
    complete("%%spmd --ran")
    assert asked == []


def test_while_every_cell_runs_on_ranks_their_names_complete(run, complete, asked):
    run("%dist_auto on")
    assert complete("\nweights_") == {"\nweights_of_all"}
    complete("%%local\nweig")
    complete("%dist_pus")
    complete("%dist_push weig")
    assert [code for code, *_ in asked] == ["\nweights_"]


def test_where_ranks_know_nothing_ipython_offers_what_it_has(run, complete, asked):
    run("learning_rate = 1")
    assert complete("%%spmd\nlearn") == {"%%spmd\nlearning_rate"}
    assert len(asked) == 1


def test_without_a_cluster_nobody_is_asked(complete, capsys):
    assert complete("%%spmd\nweig") == set()
    assert capsys.readouterr() == ("", "")


def test_a_cluster_that_ends_meanwhile_leaves_completion_as_it_is(
    run, complete, world, monkeypatch, capsys
):
    fail = Mock(side_effect=ClusterGone("demo", "it was stopped meanwhile"))
    run("%dist_start")
    run("weighbridge = 1")
    monkeypatch.setattr(world.kind, "complete", fail, raising=False)
    assert complete("%%spmd\nweig") == {"%%spmd\nweighbridge"}
    assert capsys.readouterr() == ("", "")


def test_an_answer_for_another_place_is_not_used(run, complete, world, monkeypatch):
    run("%dist_start")
    ahead = Mock(return_value=Completions(NAMES, 4, 5))
    monkeypatch.setattr(world.kind, "complete", ahead, raising=False)
    assert complete("%%spmd\nweig|x") == set()


def context(text):
    """What IPython tells of a cell whose cursor is at `|`."""
    before, _, after = text.partition("|")
    line = before.split("\n")[-1]
    return SimpleNamespace(
        full_text=before + after,
        cursor_line=before.count("\n"),
        cursor_position=len(line),
        text_until_cursor=line,
    )


@pytest.mark.parametrize(
    ("text", "code", "cursor"),
    [
        ("%%spmd\n|", "", 0),
        ("\n%%spmd --quiet\na|b", "ab", 1),
        ("%%spmd\n%%time\nx|", "%%time\nx", 8),
        ("%%spmd\n%time x|", "%time x", 7),
    ],
)
def test_the_place_is_counted_from_the_first_line_that_ranks_run(text, code, cursor):
    assert find_place(context(text), AutoSpmd())[:2] == (code, cursor)


@pytest.mark.parametrize("text", ["|", "x|", "%%spmd|", "%%spmdx\ny|", "|\n%%spmd", "%%spmd\n%ti|"])
def test_some_places_belong_to_the_notebook(text):
    assert find_place(context(text), AutoSpmd()) is None
