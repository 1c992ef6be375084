import sys

import pytest
from fakes.recorded import call, host, rank

from jupyter_dist.cluster.collectives import CollectiveLog
from jupyter_dist.errors import ClusterGone, UsageError

HANG = CollectiveLog(
    (host("a", rank(0, call("barrier", 1, 48_000)), rank(1, cells=())),),
    {"b": "its agent is gone"},
    3,
)


@pytest.fixture
def recorded(world, monkeypatch):
    """Let the cluster have records; gives what it was asked."""
    asked = []
    kind = sys.modules["jupyter_dist.cluster.cluster"].Cluster

    def collectives(_self, last):
        asked.append(last)
        return HANG

    def timeline(self, path, *, force):
        asked.append((path, force))
        if path == "mine.json":
            raise UsageError("mine.json is there already and is no timeline of ours.")
        return f"wrote it to {path}"

    monkeypatch.setattr(kind, "collectives", collectives, raising=False)
    monkeypatch.setattr(kind, "timeline", timeline, raising=False)
    return asked


def test_the_last_calls_are_shown_with_the_place_where_ranks_went_apart(run, recorded):
    run("%dist_start -n 3")
    result = run("%dist_collectives")
    assert result.success
    assert recorded == [20]
    head, marked, verdict, *_, host_problem, unknown = result.text.splitlines()
    assert head.split() == ["#", "call", "site", "0", "1", "2"]
    assert marked.startswith("▶  1  barrier()  In[1]:7  ⧗ 12 s")
    assert verdict.endswith("rank 1 has not begun the cell")
    assert (host_problem, unknown) == ("b: its agent is gone", "nothing is known of rank 2")


def test_so_many_calls_are_shown_as_were_asked_for(run, recorded):
    run("%dist_start")
    assert run("%dist_collectives --last 50").success
    assert recorded == [50]


@pytest.mark.parametrize("last", ["0", "-3", "many", "1.5"])
def test_a_number_that_cannot_be_meant_is_answered_in_one_line(run, recorded, last):
    run("%dist_start")
    (text,) = run(f"%dist_collectives --last {last}").text.strip().splitlines()
    assert text.startswith("UsageError: %dist_collectives: argument --last: ")
    assert "Example: %dist_collectives --last 50" in text
    assert recorded == []


def test_in_a_notebook_the_table_is_displayed(run, shell, recorded, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *given, **how: shown.append((given, how)))
    run("%dist_start")
    object.__setattr__(shell, "kernel", object())
    assert run("%dist_collectives").text == ""
    (((bundle,), how),) = shown
    assert how["raw"]
    assert set(bundle) == {"text/html", "text/plain"}
    assert "<table" in bundle["text/html"]


def test_a_timeline_is_written_and_told_of(run, recorded):
    run("%dist_start")
    assert run("%dist_timeline trace.json").text == "wrote it to trace.json\n"
    assert run("%dist_timeline 'my traces/a.json' --force").success
    assert recorded == [("trace.json", False), ("my traces/a.json", True)]


def test_a_file_that_may_not_be_overwritten_is_told_in_one_line(run, recorded):
    run("%dist_start")
    text = run("%dist_timeline mine.json").text
    assert text == "UsageError: mine.json is there already and is no timeline of ours.\n"


def test_a_timeline_wants_a_file(run, recorded):
    run("%dist_start")
    assert "FILE" in run("%dist_timeline").text
    assert recorded == []


@pytest.mark.parametrize("line", ["%dist_collectives", "%dist_timeline x.json"])
def test_without_a_cluster_dist_start_is_named(run, line):
    result = run(line)
    assert isinstance(result.error_in_exec, UsageError)
    assert result.text.startswith("UsageError: this notebook has no cluster. Start one with %dist_")


def test_a_cluster_that_is_gone_says_so(run, recorded, monkeypatch):
    def fail(_self, last):
        raise ClusterGone("demo", "its coordinator has ended")

    run("%dist_start")
    kind = sys.modules["jupyter_dist.cluster.cluster"].Cluster
    monkeypatch.setattr(kind, "collectives", fail)
    assert run("%dist_collectives").text.startswith("ClusterGone: ")
