import re

import pytest

from jupyter_dist.errors import RankRaised, UsageError
from jupyter_dist.magics.spmd import AutoSpmd
from jupyter_dist.options.output_options import OutputStyle


def test_a_cell_goes_to_the_cluster_with_its_options(run, cluster):
    assert run("%%spmd --ranks 0,1 --timeout 30s --setup\nx = 1").success
    (call,) = cluster.calls
    assert call.code == "#%%spmd --ranks 0,1 --timeout 30s --setup\nx = 1\n"
    assert (call.ranks, call.timeout_s, call.is_setup, call.label) == ((0, 1), 30.0, True, 2)


def test_what_becomes_of_the_others_when_a_rank_raises_is_an_option(run, cluster):
    run("%%spmd\nx = 1")
    run("%%spmd --on-error interrupt\nx = 1")
    assert [call.on_error for call in cluster.calls] == ["release", "interrupt"]
    problem = run("%%spmd --on-error stop\nx = 1").error_in_exec
    assert isinstance(problem, UsageError)
    assert "'stop'" in str(problem)
    assert all(word in str(problem) for word in ("release", "interrupt", "wait"))


def test_the_view_watches_the_cell_and_is_finished(run, cluster, world):
    run("%%spmd\nx = 1")
    view = world.views[-1]
    assert cluster.calls[0].watcher is view
    ((result, raised_rank),) = view.finished
    assert result.ok
    assert raised_rank is None


def test_a_rank_that_raises_is_the_error_of_the_cell_whose_result_is_stored(
    run, cluster, world, shell
):
    cluster.statuses = ["ok", "raised"]
    result = run("%%spmd -o out\n1/0")
    assert [each.status for each in shell.user_ns["out"]] == ["ok", "raised"]
    assert isinstance(result.error_in_exec, RankRaised)
    assert result.text.splitlines() == ["rank 1 raised", "Cell In[1], line 2", "1/0"]
    assert world.views[-1].finished[0][1] == 1


def test_a_cell_in_the_background_has_its_place_before_it_is_begun(run, cluster, world, shell):
    cluster.statuses = ["ok", "raised"]
    begun = run("%%spmd --background --timeout 5s\nx = 1")
    assert begun.success
    assert begun.result[0] == "begun"
    assert cluster.calls[-1].is_background
    assert cluster.calls[-1].timeout_s == 5.0
    assert [what for what, *_ in world.views[-1].finished] == ["note", "tick"]
    stored = run("%%spmd --background -o job\nx = 1")
    assert stored.result is None
    assert shell.user_ns["job"][0] == "begun"
    assert isinstance(run("%%spmd --background\nx =").error_in_exec, UsageError)
    assert world.views[-1].finished[-1] == (None,)


def test_quiet_shows_errors_only(run, cluster, world):
    cluster.statuses = ["raised", "ok"]
    assert "rank 0 raised" in run("%%spmd --quiet\n1/0").text
    asked = world.views[-1].asked
    style = OutputStyle(quiet=True)
    assert asked.pop("axes") is cluster.axes
    assert asked == {"world_size": 2, "shown": None, "style": style, "log_hint": "localhost:/logs"}


def test_a_cell_says_how_its_outputs_are_shown_or_it_is_as_the_notebook_has_it(run, cluster, world):
    run("%%spmd --group-outputs rank --figures row --times\nx = 1")
    asked = OutputStyle(group_outputs="rank", figures="row", times=True)
    assert world.views[-1].asked["style"] == asked
    assert "--group-outputs order" in run("%dist_output --final --group-outputs order").text
    run("%%spmd\nx = 1")
    assert world.views[-1].asked["style"] == OutputStyle(group_outputs="order", is_final=True)
    run("%%spmd --background --group-outputs same\nx = 1")
    assert world.views[-1].asked["style"] == OutputStyle(), "it has a place that is updated"
    run("%dist_output --live")
    run("%%spmd\nx = 1")
    assert world.views[-1].asked["style"] == OutputStyle(group_outputs="order")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%dist_output 3 --final", "--final and --live are for every cell"),
        ("%dist_output --group-outputs ranks", "Did you mean rank?"),
        ("%%spmd --figures rows\nx", "Did you mean row?"),
    ],
)
def test_what_cannot_be_said_of_outputs_is_named(run, cluster, line, words):
    result = run(line)
    assert isinstance(result.error_in_exec, UsageError)
    assert words in str(result.error_in_exec)


def test_the_outputs_of_some_ranks_are_shown_while_all_run(run, cluster, world):
    run("%%spmd --show 1\nx = 1")
    assert cluster.calls[-1].ranks is None
    assert world.views[-1].asked["shown"] == (1,)
    run("%%spmd --ranks 1\nx = 1")
    assert (world.views[-1].asked["world_size"], world.views[-1].asked["shown"]) == (1, None)


def test_a_rank_that_does_not_run_the_cell_cannot_be_shown(run, cluster):
    problem = run("%%spmd --ranks 1 --show 0-1\nx = 1").error_in_exec
    assert isinstance(problem, UsageError)
    assert re.search("--show 0-1: .* rank 1, .* rank 0[.]", str(problem))
    assert cluster.calls == []


def test_a_syntax_error_shows_as_that_of_a_local_cell(run, cluster):
    local = run("x = 1\nfor\n")
    there = run("%%spmd\nfor\n")
    assert type(there.error_in_exec).__name__ == "SyntaxError"
    assert there.text == local.text.replace("In[2]", "In[3]")
    assert "line 2" in there.text


def test_a_second_interrupt_comes_through(run, cluster, world):
    cluster.problem = KeyboardInterrupt()
    error = run("%%spmd\n1").error_in_exec
    assert isinstance(error, KeyboardInterrupt)
    assert error._render_traceback_() == ["KeyboardInterrupt"], "no stack of the notebook's side"
    assert world.views[-1].finished == [(None,)]


def test_an_unknown_option_runs_nothing(run, cluster):
    result = run("%%spmd --rank 0\n1")
    assert isinstance(result.error_in_exec, UsageError)
    assert "--ranks?" in result.text
    assert cluster.calls == []


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("above", ["# train\n", "# one\n\n  # two\n", "y = 1\n"])
@pytest.mark.parametrize("magic", ["%%spmd", "%%spmd --ranks 0", "%%local"])
def test_a_magic_below_other_lines_says_that_it_must_come_first(
    run, cluster, shell, auto, above, magic
):
    if auto:
        run("%dist_auto on")
    result = run(f"{above}{magic}\nx = 1")
    name = magic.partition(" ")[0]
    count = above.count("\n")
    assert result.text.startswith(f"UsageError: {name} ")
    assert ("line 1 " if count == 1 else f"lines 1-{count} ") in result.text
    assert result.text.count("\n") == 1
    assert not cluster.calls
    assert not {"x", "y"} & set(shell.user_ns), "nothing of the cell has run"


@pytest.mark.parametrize(
    "cell",
    ["x = '''\n%%spmd\n'''", "\n\n%%spmd\nx = 1", "%%time\n%%spmd\nx = 1", "# %%spmd\nx = 1"],
)
def test_a_magic_that_is_none_there_or_comes_first_after_all_is_left_alone(run, cluster, cell):
    assert run(cell).success


def test_unknown_ranks_are_one_line_and_nothing_runs(run, cluster, world):
    result = run("%%spmd --ranks 0,7\n1")
    assert result.text.startswith("UnknownRanks: ranks '0,7': ")
    assert result.text.count("\n") == 1
    assert cluster.calls == []


@pytest.fixture
def auto():
    auto = AutoSpmd()
    auto.is_on = True
    return auto


def test_auto_sends_plain_cells_as_they_are(run, cluster, shell):
    assert run("%dist_auto on").success
    assert cluster.is_auto
    assert run("x = 1\ny = 2").success
    assert [call.code for call in cluster.calls] == ["x = 1\ny = 2\n"]
    assert "x" not in shell.user_ns
    assert run("%dist_auto off").success
    assert not cluster.is_auto
    run("x = 1")
    assert shell.user_ns["x"] == 1


@pytest.mark.parametrize(
    "cell",
    [
        "%dist_status",
        "# look\n%dist_status\n\n%dist_topology",
        "got = %dist_pull x",
        "%load_ext jupyter_dist",
        "%dist_status \\\n",
        "%dist_start?",
        "%%time\n1",
        "%%spmd\n1",
        "%%local\n1",
        "\n",
    ],
)
def test_auto_leaves_cells_for_the_notebook_there(auto, cell):
    assert auto(cell.splitlines(keepends=True))[:1] != ["%%dist_auto\n"]


@pytest.mark.parametrize(
    "cell", ["x", "%time x", "!ls", "%dist_status\nx = 1", "# only a %dist\nx"]
)
def test_auto_sends_everything_else(auto, cell):
    assert auto(cell.splitlines(keepends=True))[0] == "%%dist_auto\n"


def test_local_runs_in_the_notebook_with_and_without_auto(run, cluster, shell):
    assert run("%%local\na = 1\na + 1").result == 2
    run("%dist_auto on")
    assert run("%%local\nb = 1\nb + 2").result == 3
    assert cluster.calls == []
    assert shell.user_ns["b"] == 1


def test_local_keeps_line_numbers_and_inner_cell_magics(run, cluster):
    assert "line 3" in run("%%local\nx = 1\n1/0").text
    assert run("%%local\n%%capture held\nprint('inner')").text == ""
    assert "UsageError: %%local" in run("%%local --ranks 0\n1").text


def test_auto_alone_tells_whether_it_is_on(run, cluster):
    for mode in ("off", "on"):
        run(f"%dist_auto {mode}")
        assert f"is {mode}:" in run("%dist_auto").text


def test_auto_without_a_cluster_says_how_to_leave_it(run, cluster):
    run("%dist_auto on")
    run("%dist_stop")
    assert "%dist_auto off" in run("x = 1").text
    assert run("%dist_auto off").success
    assert run("x = 1").success


def test_auto_does_not_change_what_a_whole_cell_is(run, cluster, shell):
    run("%dist_auto on")
    assert shell.check_complete("x = 1")[0] == "complete"
    assert shell.check_complete("for i in x:")[0] == "incomplete"
