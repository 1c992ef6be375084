import json

import pytest

from jupyter_dist.errors import UnknownRanks


def test_variables_are_written_as_a_table(dist, demo):
    status, out, err = dist("who")
    assert (status, err) == (0, "")
    assert "   name  type  memory" in out
    assert "differs: 1 on rank 0, 2 on rank 1" in out
    assert dist("who", "demo", "--only", "w*", "loss", "--ranks", "0-1")[0] == 0
    assert demo.calls == [("who", (), None), ("who", ("w*", "loss"), (0, 1))]
    demo.problem = UnknownRanks("9", 4)
    assert dist("who", "--ranks", "9")[0] == 2


def test_stacks_are_written(dist, demo):
    status, out, err = dist("stacks", "demo")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1].startswith("rank 1 (")
    assert dist("stacks", "--native", "--ranks", "2")[0] == 0
    assert demo.calls == [("stacks", None, False), ("stacks", (2,), True)]


def test_a_command_line_names_what_interrupts_there_instead_of_a_button(dist, demo):
    said = "no cell runs on demo; `jupyter dist interrupt demo` ends nothing\n"
    assert dist("explain") == (0, said, "")


def test_collectives_are_written_as_a_table(dist, demo):
    status, out, err = dist("collectives")
    assert (status, err) == (0, "")
    assert out.splitlines()[1].split()[:4] == ["▶", "1", "barrier()", "In[1]:7"]
    assert dist("collectives", "demo", "--last", "3")[0] == 0
    assert demo.calls == [("collectives", 20), ("collectives", 3)]


def test_a_timeline_is_written_to_the_file_that_is_named(dist, demo):
    status, out, err = dist("timeline", "trace.json")
    assert (status, out.endswith(" trace.json\n"), err) == (0, True, "")
    assert dist("timeline", "trace.json", "demo", "--force")[0] == 0
    assert demo.calls == [("timeline", "trace.json", False), ("timeline", "trace.json", True)]


@pytest.mark.parametrize("command", ["who", "stacks", "explain", "collectives", "timeline x.json"])
def test_a_cluster_that_does_not_run_is_named(dist, command):
    assert "'nope'" in dist(*command.split(), "nope")[2]


def test_a_profile_is_told_as_text_or_as_json(dist, demo):
    status, out, _ = dist("profile", "demo", "--for", "3s")
    assert (status, "idle" in out) == (0, True)
    status, out, _ = dist("profile", "demo", "--json", "--ranks", "0")
    told = json.loads(out)
    assert (status, told["slow_ranks"], told["kind"]) == (0, [], "sampling")
    assert demo.calls == [
        ("profile", 3.0, None, "sampling", False),
        ("profile", 5.0, (0,), "sampling", False),
    ]
