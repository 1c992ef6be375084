import pytest
from fakes.cluster import HANG, STACKS


def test_variables_of_all_ranks_are_shown(run, cluster):
    result = run("%dist_who")
    assert result.success
    assert cluster.calls == [("who", (), None)]
    assert "▶  a " in result.text
    assert "1 on rank 0, 2 on rank 1" in result.text


def test_names_and_ranks_can_be_chosen(run, cluster):
    assert run("%dist_who w* loss --ranks 0-1").success
    assert run("%dist_who --ranks 1 x*").success
    assert cluster.calls == [("who", ("w*", "loss"), (0, 1)), ("who", ("x*",), (1,))]


def test_stacks_are_shown(run, cluster):
    head, *_, problem = run("%dist_stacks").text.splitlines()
    assert (head, problem) == ("rank 0", f"rank 1 ({STACKS[1].note})")
    run("%dist_stacks --native --ranks 1")
    assert cluster.calls == [("stacks", None, False), ("stacks", (1,), True)]


def test_what_is_the_matter_is_told(run, cluster):
    told = cluster.explain().replace("■", "Ctrl-C")  # a terminal has no button
    assert run("%dist_explain").text == f"{told}\n"


def test_the_last_calls_are_shown_with_the_place_where_ranks_went_apart(run, cluster):
    result = run("%dist_collectives")
    assert result.success
    head, marked, verdict, *_, host_problem, unknown = result.text.splitlines()
    assert head.split() == ["#", "call", "site", "0", "1", "2"]
    assert marked.startswith("▶  1  barrier()  In[1]:7  ⧗ 12 s")
    assert "; rank 1 " in verdict
    assert host_problem == f"b: {HANG.problems['b']}"
    assert unknown.endswith(" rank 2")
    assert run("%dist_collectives --last 50").success
    assert cluster.calls == [("collectives", 20), ("collectives", 50)]


@pytest.mark.parametrize("line", ["%dist_who", "%dist_stacks", "%dist_collectives"])
def test_in_a_notebook_tables_are_displayed(run, cluster, displayed, line):
    assert run(line).text == ""
    ((bundle, how),) = displayed
    assert how["raw"]
    assert set(bundle) == {"text/html", "text/plain"}
    assert "<table" in bundle["text/html"] or line == "%dist_stacks"


def test_a_timeline_is_written_and_told_of(run, cluster):
    assert run("%dist_timeline trace.json").text.endswith(" trace.json\n")
    assert run("%dist_timeline 'my traces/a.json' --force").success
    assert cluster.calls == [
        ("timeline", "trace.json", False),
        ("timeline", "my traces/a.json", True),
    ]
    assert run("%dist_timeline mine.json").text.startswith("UsageError: mine.json ")
