import sys

import pytest
from fakes.named import names, number

from jupyter_dist.cluster.questions import Stacks
from jupyter_dist.errors import ClusterGone, UsageError
from jupyter_dist.model.names_table import tabulate_names
from jupyter_dist.model.stacks import Frame, RankStacks, ThreadStack

TABLE = tabulate_names({0: names(number("a", 1)), 1: names(number("a", 2))}, {})
MAIN = ThreadStack("MainThread", True, (Frame("<module>", "In[1]:2"),))
STACKS = Stacks({0: RankStacks(threads=(MAIN,)), 1: RankStacks("none", note="it is lost")})


@pytest.fixture
def asked(world, monkeypatch):
    """Let the cluster answer; gives what it was asked."""
    asked = []
    kind = sys.modules["jupyter_dist.cluster.cluster"].Cluster

    def who(_self, patterns, ranks):
        asked.append(("who", patterns, ranks))
        return TABLE

    def stacks(_self, ranks, *, native):
        asked.append(("stacks", ranks, native))
        return STACKS

    def explain(self):
        return f"no cell runs on {self.name}; ■ ends nothing"

    for method in (who, stacks, explain):
        monkeypatch.setattr(kind, method.__name__, method, raising=False)
    return asked


def test_variables_of_all_ranks_are_shown(run, asked):
    run("%dist_start -n 2")
    result = run("%dist_who")
    assert result.success
    assert asked == [("who", [], None)]
    assert "▶  a " in result.text
    assert "1 on rank 0, 2 on rank 1" in result.text


def test_names_and_ranks_can_be_chosen(run, asked):
    run("%dist_start")
    assert run("%dist_who w* loss --ranks 0-1").success
    assert run("%dist_who --ranks 1 x*").success
    assert asked == [("who", ["w*", "loss"], "0-1"), ("who", ["x*"], "1")]


def test_stacks_are_shown(run, asked):
    run("%dist_start")
    head, *_, problem = run("%dist_stacks").text.splitlines()
    assert (head, problem) == ("rank 0", "rank 1 (it is lost)")
    run("%dist_stacks --native --ranks 2")
    assert asked == [("stacks", None, False), ("stacks", "2", True)]


def test_what_is_the_matter_is_told(run, asked):
    run("%dist_start")
    text = run("%dist_explain").text
    assert text == "no cell runs on demo; Ctrl-C ends nothing\n", "a terminal has no button"


def test_in_a_notebook_tables_are_displayed(run, shell, asked, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *given, **how: shown.append((given, how)))
    run("%dist_start")
    object.__setattr__(shell, "kernel", object())
    assert run("%dist_who").text == ""
    assert run("%dist_stacks").text == ""
    assert [set(bundle) for (bundle,), _ in shown] == [{"text/html", "text/plain"}] * 2
    assert all(how["raw"] for _, how in shown)


@pytest.mark.parametrize("line", ["%dist_who", "%dist_stacks", "%dist_explain"])
def test_without_a_cluster_dist_start_is_named(run, line):
    result = run(line)
    assert isinstance(result.error_in_exec, UsageError)
    assert result.text.startswith("UsageError: this notebook has no cluster. Start one with %dist_")


def test_an_option_that_is_not_there_is_answered_in_one_line(run, asked):
    run("%dist_start")
    (text,) = run("%dist_who --natve").text.strip().splitlines()
    assert "Options: --ranks RANKS, [PATTERN…]. Example: %dist_who w* loss --ranks 0-1" in text
    assert asked == []


def test_a_cluster_that_is_gone_says_so(run, asked, monkeypatch):
    def fail(_self, *_asked):
        raise ClusterGone("demo", "its coordinator has ended")

    run("%dist_start")
    monkeypatch.setattr(sys.modules["jupyter_dist.cluster.cluster"].Cluster, "who", fail)
    assert run("%dist_who").text.startswith("ClusterGone: ")
