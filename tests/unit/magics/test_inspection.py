from unittest.mock import Mock

import pytest

from jupyter_dist.errors import ClusterGone
from jupyter_dist.magics import extension
from jupyter_dist.magics.inspection import RankInspector


@pytest.fixture
def asked(world, cluster, monkeypatch):
    """Let rank 0 know of `weights` alone; gives what it was asked."""
    asked = []

    def inspect(_self, name, rank=0, *, detail=0):
        asked.append((name, rank, detail))
        return {"text/plain": "an <array>"} if name.startswith("weights") else {}

    monkeypatch.setattr(world.kind, "inspect", inspect, raising=False)
    return asked


def test_a_name_that_the_notebook_has_is_looked_up_there(run, shell, asked):
    run("weights = 3")
    assert "on rank" not in shell.object_inspect_mime("weights")["text/plain"]
    assert asked == []


def test_a_name_that_only_ranks_have_is_looked_up_on_rank_0(run, shell, asked):
    bundle = shell.object_inspect_mime("weights.shape", detail_level=1, omit_sections=())
    assert bundle["text/plain"] == "on rank 0\nan <array>"
    assert bundle["text/html"] == "<div>on rank 0</div><pre>an &lt;array&gt;</pre>"
    assert asked == [("weights.shape", 0, 1)]


@pytest.mark.parametrize("name", ["biases", "", "%nope", "weights[0]", "weights.", "f(x)", "3"])
def test_what_nobody_has_is_not_found_and_what_is_no_name_not_asked_for(run, shell, asked, name):
    with pytest.raises(KeyError):
        shell.object_inspect_mime(name)
    assert asked == ([("biases", 0, 0)] if name == "biases" else [])


def test_without_a_cluster_nobody_is_asked(run, shell, asked):
    run("%dist_stop")
    with pytest.raises(KeyError):
        shell.object_inspect_mime("weights")
    assert asked == []


def test_a_cluster_that_ends_meanwhile_is_as_if_nobody_had_the_name(run, shell, world, monkeypatch):
    fail = Mock(side_effect=ClusterGone("demo", "it was stopped meanwhile"))
    run("%dist_start")
    monkeypatch.setattr(world.kind, "inspect", fail, raising=False)
    with pytest.raises(KeyError):
        shell.object_inspect_mime("weights")


@pytest.mark.parametrize(("code", "detail"), [("weights?", 0), ("?weights", 0), ("weights??", 1)])
def test_a_question_mark_shows_what_a_rank_knows(run, asked, code, detail):
    assert run(code).text.strip() == "on rank 0\nan <array>"
    assert asked == [("weights", 0, detail)]


def test_a_question_mark_shows_what_the_notebook_knows_first(run, asked):
    run("weights = 3")
    assert "int" in run("weights?").text
    assert "Start a cluster" in run("%dist_start?").text
    assert "range" in run("rang*?").text
    assert asked == []
    assert "`biases` not found" in run("biases?").text


def test_unloading_leaves_inspection_as_it_was(run, shell, asked):
    extension.load(shell)
    assert shell.object_inspect_mime("weights")["text/plain"].count("on rank 0") == 1
    run("%unload_ext jupyter_dist")
    assert not isinstance(shell.object_inspect_mime, RankInspector)
    assert "`weights` not found" in run("weights?").text
    with pytest.raises(KeyError):
        shell.object_inspect_mime("weights")


def test_unloading_leaves_what_somebody_else_has_put_there(run, shell, asked):
    mine = lambda *_given: {"text/plain": "mine"}  # noqa: E731
    shell.object_inspect_mime = mine
    extension.unload(shell)
    assert shell.object_inspect_mime is mine
