import pytest

from jupyter_dist.errors import ClusterExists, ClusterInUse, RankRaised, UsageError
from jupyter_dist.magics.command import say


def test_start_without_options_asks_for_four_local_ranks(run, world):
    assert run("%dist_start").success
    assert world.clusters["demo"].hosts == "localhost:4"
    assert world.clusters["demo"].options == {}
    ((text,),) = world.views[0].finished
    assert text.startswith("cluster demo: 4 ranks ready in 0.")


def test_start_hands_every_option_over(run, world):
    line = "%dist_start --hosts localhost:2 --name a --timeout 2m --keep 1h --cwd /tmp --comm ring"
    assert run(line + " --env A=1 'B=two words' --env C=x=y").success
    assert world.clusters["a"].hosts == "localhost:2"
    assert world.clusters["a"].options == {
        "timeout_s": 120.0,
        "keep_s": 3600.0,
        "cwd": "/tmp",
        "comm": "ring",
        "env": {"A": "1", "B": "two words", "C": "x=y"},
    }


def test_a_variable_of_the_notebook_can_stand_in_an_option(run, world):
    run("wanted = 3")
    assert run("%dist_start -n $wanted").success
    assert world.clusters["demo"].world_size == 3


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("%dist_start -n 0", "'0'"),
        ("%dist_start -n x", "'x'"),
        ("%dist_start -n -1", "'-1'"),
        ("%dist_start -n", "-n"),
        ("%dist_start --nranks 4", "--nranks 4"),
        ("%dist_start -n 2 --hosts localhost:2", "--hosts"),
        ("%dist_start --env A", "'A'"),
        ("%dist_start --keep 3y", "'3y'"),
        ("%dist_start --timeout 0", "'0'"),
        ("%dist_start --comm mpi", "'mpi'"),
        ("%dist_start --help", "--help"),
        ('%dist_start --cwd "a b', "a b"),
    ],
)
def test_a_bad_option_is_answered_in_one_line(run, world, line, given):
    result = run(line)
    assert isinstance(result.error_in_exec, UsageError)
    (text,) = result.text.strip().splitlines()
    assert text.startswith("UsageError: %dist_start: ")
    assert given in text
    assert "--keep DURATION" in text
    assert "Example: %dist_start -n 4 --name demo" in text
    assert not world.clusters


def test_check_examines_the_hosts_and_shows_what_was_found(run, world):
    assert run("%dist_check --hosts a,b --ssh 'ssh -F file' --tunnel").success
    assert world.views[0].asked == {"hosts": ["a", "b"], "display": None}
    assert world.views[0].finished == [("what was found on a",)]
    assert not world.clusters


def test_check_without_options_looks_at_this_machine(run, world):
    assert run("%dist_check").success
    assert world.views[0].asked["hosts"] == ["localhost"]


def test_check_in_a_notebook_is_displayed(run, shell, world):
    object.__setattr__(shell, "kernel", object())
    assert run("%dist_check").success
    assert callable(world.views[0].asked["display"])


def test_a_check_that_is_interrupted_says_so(run, world):
    assert not run("%dist_check --hosts trouble").success
    assert world.views[0].finished == [("failed: not examined: KeyboardInterrupt",)]


def test_check_takes_no_options_of_a_start(run, world):
    result = run("%dist_check -n 4")
    assert "UsageError: %dist_check: unrecognized arguments: -n 4" in result.text
    assert "--tunnel" in result.text


def test_a_second_start_with_one_name_says_how_to_go_on(run, world):
    run("%dist_start")
    result = run("%dist_start --name demo")
    assert isinstance(result.error_in_exec, ClusterExists)
    assert result.text.startswith("ClusterExists: a cluster named 'demo' is already running.")
    assert result.text.count("\n") == 1


def test_running_the_start_cell_again_starts_nothing(run, world):
    run("%dist_start --name mine")
    result = run("%dist_start")
    assert isinstance(result.error_in_exec, ClusterExists)
    assert "'mine' is already running" in result.text
    assert list(world.clusters) == ["mine"]


def test_another_name_starts_a_second_one_and_says_that_the_first_goes_on(run, world):
    run("%dist_start --name a")
    assert "cluster a goes on; %dist_attach a takes it up" in run("%dist_start --name b").text
    assert list(world.clusters) == ["a", "b"]
    assert run("%dist_status").text == "table of b\n"
    assert world.clusters["a"].calls == ["detach"], "else it would keep the driver's place there"
    assert world.clusters["b"].calls == []


def test_a_start_that_fails_ends_the_progress_and_is_one_line(run, world):
    result = run("%dist_start --cwd /broken")
    assert result.text == "StartFailed: rank 1 did not come\n"
    assert world.views[0].finished == [("failed: not started: StartFailed",)]


@pytest.mark.parametrize(
    "line",
    [
        "%dist_status",
        "%dist_topology",
        "%dist_interrupt",
        "%dist_push x",
        "%dist_pull x",
        "%dist_sync x",
        "%dist_stop",
        "%dist_auto on",
        "%%spmd\n1",
    ],
)
def test_without_a_cluster_every_magic_names_dist_start(run, line):
    result = run(line)
    assert isinstance(result.error_in_exec, UsageError)
    assert result.text.startswith("UsageError: this notebook has no cluster. Start one with %dist_")
    assert result.text.count("\n") == 1


def test_a_cluster_that_runs_elsewhere_is_offered(run, shell, world):
    run("%dist_start --name elsewhere")
    shell.run_line_magic("unload_ext", "jupyter_dist")
    from jupyter_dist.magics import extension

    extension._CURRENT.clear()
    shell.run_line_magic("load_ext", "jupyter_dist")
    assert "%dist_attach NAME (elsewhere)" in run("%dist_status").text
    assert run("%dist_attach").text == "attached to cluster elsewhere: ranks 0-3\n"
    assert run("%dist_status").text == "table of elsewhere\n"


def test_attach_to_an_unknown_cluster_names_those_that_run(run):
    run("%dist_start")
    assert "Running now: demo" in run("%dist_attach other").text


def test_push_hands_the_objects_over(run, world):
    run("%dist_start")
    run("a, b = 1, [2]")
    assert run("%dist_push a, b --ranks 0-1").success
    assert world.clusters["demo"].calls == [({"a": 1, "b": [2]}, "0-1")]
    assert world.clusters["demo"].on_stage is say


@pytest.mark.parametrize("line", ["%dist_push a", "%dist_pull a", "%dist_sync mypkg"])
def test_what_takes_long_is_shown_by_a_bar_that_is_removed(run, world, line):
    run("%dist_start -n 2")
    run("a = 1")
    assert run(line).success
    bar = world.views[-1]
    assert world.clusters["demo"].on_moved == bar.on_moved
    assert bar.finished == [()]


def test_push_names_every_unknown_variable_and_pushes_nothing(run, world):
    run("%dist_start")
    run("a = 1")
    result = run("%dist_push a nope neither")
    assert "UsageError: the notebook has no variable named nope, neither" in result.text
    assert world.clusters["demo"].calls == []


def test_pull_gives_objects_by_rank(run, shell):
    run("%dist_start -n 2")
    pulled = run("%dist_pull x")
    assert pulled.result == {0: "x0", 1: "x1"}
    assert "waits: rank 1 is still busy\n" in pulled.text
    assert run("%dist_pull x -o got").result is None
    assert shell.user_ns["got"] == {0: "x0", 1: "x1"}
    assert run("%dist_pull x -o 1x").text.startswith("UsageError: %dist_pull: argument -o: '1x'")


def test_interrupt_names_the_ranks(run, world):
    run("%dist_start")
    assert run("%dist_interrupt --ranks 0-1").text == "interrupted ranks 0-1\n"
    assert world.clusters["demo"].calls == ["0-1"]


def test_stop_ends_the_cluster_and_the_next_magic_names_dist_start(run, world):
    run("%dist_start")
    assert run("%dist_stop").text == "cluster demo is stopped\n"
    assert not world.clusters
    assert "%dist_start" in run("%dist_status").text


def test_who_may_not_stop_the_cluster_goes_on_with_it(run, world):
    run("%dist_start")
    world.clusters["demo"].problem = ClusterInUse("this client only watches cluster 'demo'")
    assert run("%dist_stop").text == "ClusterInUse: this client only watches cluster 'demo'\n"
    assert run("%dist_status").text == "table of demo\n"


def test_topology_is_drawn_in_a_notebook_and_written_in_a_terminal(run, shell, world):
    run("%dist_start")
    assert run("%dist_topology").text == "text of topology of demo\n"
    assert world.shown == []
    object.__setattr__(shell, "kernel", object())
    run("%dist_topology")
    assert world.shown == [world.clusters["demo"]]


def test_sync_says_what_was_copied_and_what_to_do_next(run, world):
    run("%dist_start")
    result = run("%dist_sync mypkg 'my src/' --force")
    assert world.clusters["demo"].calls == [("sync", ("mypkg", "my src/"), True)]
    copied, lost, hint = result.text.splitlines()
    assert copied == "copied mypkg, my src/ (2 files, 34 B) to 2 hosts in 0.1 s (1 file changed)"
    assert lost == "c is lost: it has no new code"
    assert hint.startswith("mypkg.model changed on 2 hosts and is imported already: ")
    assert hint.endswith(": %dist_sync mypkg 'my src/' --reload")


def test_sync_with_reload_runs_a_cell_that_is_shown_as_any_other(run, world):
    run("%dist_start -n 2")
    result = run("%dist_sync mypkg --reload")
    sync, cell = world.clusters["demo"].calls
    assert sync == ("sync", ("mypkg",), False)
    assert "reload_changed()" in cell.code
    assert cell.watcher is world.views[-1]
    assert world.views[-1].asked == {"world_size": 2}
    assert world.views[-1].finished[0][0].ok
    assert "imported already" not in result.text
    world.clusters["demo"].statuses[1] = "raised"
    result = run("%dist_sync mypkg --reload")
    assert isinstance(result.error_in_exec, RankRaised)
    assert "copied mypkg" in result.text
    assert "Cell In[1], line 2" in result.text


def test_a_sync_that_failed_is_told_in_one_line(run):
    run("%dist_start")
    assert run("%dist_sync nope").text == (
        "SyncFailed: b: its agent is gone. Nothing was changed on any host.\n"
    )


def test_sync_wants_a_path(run):
    run("%dist_start")
    assert "PATH…" in run("%dist_sync --reload").text
