import pytest

from jupyter_dist.cluster.code.sync import RELOAD_COMMAND
from jupyter_dist.errors import ClusterExists, ClusterInUse, RankRaised, UsageError
from jupyter_dist.magics.command import say
from tests.facts import assert_tells


@pytest.mark.parametrize(
    ("line", "name", "hosts", "options"),
    [
        ("", "demo", "localhost:4", {}),
        ("-n $wanted", "demo", "localhost:3", {}),
        (
            "--hosts localhost:2 --name a --timeout 2m --env A=1 'B=two words'",
            "a",
            "localhost:2",
            {"timeout_s": 120.0, "env": {"A": "1", "B": "two words"}},
        ),
    ],
)
def test_start_hands_every_option_over(run, world, line, name, hosts, options):
    run("wanted = 3")
    assert run(f"%dist_start {line}").success
    started = world.clusters[name]
    assert (started.hosts, started.options) == (hosts, options)
    ((text,),) = world.views[0].finished
    assert text.startswith(f"cluster {name}: {started.world_size} ranks ")


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("%dist_start -n 0", "'0'"),
        ("%dist_start --nranks 4", "--nranks 4"),
        ("%dist_start -n 2 --hosts localhost:2", "--hosts"),
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


def test_check_examines_the_hosts_and_shows_what_was_found(run, shell, world):
    assert run("%dist_check --hosts a,b --ssh 'ssh -F file' --tunnel").success
    assert world.views[0].asked == {"hosts": ["a", "b"], "display": None}
    assert world.views[0].finished == [("found: a",)]
    object.__setattr__(shell, "kernel", object())
    assert run("%dist_check").success
    assert world.views[1].asked["hosts"] == ["localhost"]
    assert callable(world.views[1].asked["display"]), "it is displayed in a notebook"
    assert not world.clusters


def test_a_check_that_is_interrupted_says_so(run, world):
    assert not run("%dist_check --hosts trouble").success
    assert world.views[0].finished == [("failed: not examined: KeyboardInterrupt",)]


@pytest.mark.parametrize("again", ["%dist_start --name mine", "%dist_start"])
def test_running_the_start_cell_again_starts_nothing(run, world, again):
    run("%dist_start --name mine")
    result = run(again)
    assert isinstance(result.error_in_exec, ClusterExists)
    assert "'mine'" in result.text
    assert result.text.count("\n") == 1
    assert list(world.clusters) == ["mine"]


@pytest.mark.parametrize("again", ["", " --name mine", " --name mine -n 4"])
def test_a_running_cluster_is_reused_or_replaced_when_that_is_asked_for(run, world, shell, again):
    run("%dist_start --name mine")
    first = world.clusters["mine"]
    assert run(f"%dist_start{again} --reuse -o kept").success
    assert shell.user_ns["kept"] is first is world.clusters["mine"]
    assert run(f"%dist_start{again} --name mine --replace -o kept").success
    assert shell.user_ns["kept"] is world.clusters["mine"]
    assert shell.user_ns["kept"] is not first


def test_where_none_runs_it_is_started_whatever_is_to_become_of_it(run, world):
    assert run("%dist_start --name a --reuse").success
    assert run("%dist_start --name b --replace").success
    assert list(world.clusters) == ["a", "b"]


def test_a_cluster_of_another_notebook_is_attached_to_or_left_alone(run, world):
    other = world.kind.start(name="theirs")
    assert run("%dist_start --name theirs --reuse").success
    assert ("attach", False, False) in other.calls
    other.problem = UsageError("it is owned by notebook 2")
    run("%dist_start --name mine")
    for way in ("--reuse", "--replace"):
        assert "notebook 2" in run(f"%dist_start --name theirs {way}").text
    assert list(world.clusters) == ["theirs", "mine"]


def test_a_cluster_of_another_size_is_not_reused(run, world):
    run("%dist_start -n 2 --name mine")
    result = run("%dist_start -n 4 --name mine --reuse")
    assert isinstance(result.error_in_exec, UsageError)
    assert_tells(result.text, "2 ranks", "4", "--replace")
    assert "not allowed with" in run("%dist_start --reuse --replace").text
    assert len(world.clusters) == 1


def test_how_long_it_is_kept_can_be_said(run, world):
    run("%dist_start --name c --keep 5m")
    assert world.clusters["c"].options["keep_s"] == 300.0


def test_another_name_starts_a_second_one_and_says_that_the_first_goes_on(run, world):
    run("%dist_start --name a")
    assert "%dist_attach a " in run("%dist_start --name b").text
    assert list(world.clusters) == ["a", "b"]
    assert run("%dist_status").text == f"{world.clusters['b'].status()}\n"
    assert world.clusters["a"].calls == ["detach"], "else it would keep the owner's place there"
    assert world.clusters["b"].calls == []


def test_a_start_that_fails_ends_the_progress_and_is_one_line(run, world):
    result = run("%dist_start --cwd /broken")
    assert result.text == "StartFailed: rank 1 did not\ncome\n"
    assert world.views[0].finished == [("failed: not started: StartFailed",)]


@pytest.mark.parametrize(
    "line",
    [
        *("%dist_status", "%dist_topology", "%dist_interrupt", "%dist_stop", "%dist_auto on"),
        *("%dist_push x", "%dist_pull x", "%dist_sync x", "%%spmd\n1"),
        *("%dist_who", "%dist_stacks", "%dist_explain", "%dist_heal", "%dist_shrink"),
        *("%dist_collectives", "%dist_timeline x.json", "%dist_output", "%dist_ipyparallel"),
        *("%dist_bench", "%dist_checkpoint run w", "%dist_restore run"),
    ],
)
def test_without_a_cluster_every_magic_names_dist_start(run, line):
    result = run(line)
    assert isinstance(result.error_in_exec, UsageError)
    assert "%dist_start" in result.text
    assert result.text.count("\n") == 1


def test_a_cluster_that_runs_elsewhere_is_offered(run, shell, world):
    run("%dist_start --name elsewhere")
    shell.run_line_magic("unload_ext", "jupyter_dist")
    from jupyter_dist.magics import extension

    extension._CURRENT.clear()
    shell.run_line_magic("load_ext", "jupyter_dist")
    assert "%dist_attach NAME (elsewhere)" in run("%dist_status").text
    assert run("%dist_attach").text.endswith(" elsewhere: ranks 0-3\n")
    assert run("%dist_status").text == f"{world.clusters['elsewhere'].status()}\n"


def test_attach_to_an_unknown_cluster_names_those_that_run(run):
    run("%dist_start")
    assert "Running now: demo" in run("%dist_attach other").text


def test_push_hands_the_objects_over(run, cluster):
    run("a, b = 1, [2]")
    assert run("%dist_push a, b --ranks 0-1").success
    assert cluster.calls == [({"a": 1, "b": [2]}, "0-1")]
    assert cluster.on_stage is say


def test_push_takes_values_too(run, cluster):
    run("a = 1")
    assert run("""%dist_push a b=a+1 c="x y" 'd=[a, a]'""").success
    assert cluster.calls == [({"a": 1, "b": 2, "c": "x y", "d": [1, 1]}, None)]
    for line in ("%dist_push b=nope", "%dist_push b=", "%dist_push b=(1"):
        assert "UsageError: b=" in run(line).text
    assert len(cluster.calls) == 1


@pytest.mark.parametrize("line", ["%dist_push a", "%dist_pull a", "%dist_sync mypkg"])
def test_what_takes_long_is_shown_by_a_bar_that_is_removed(run, world, line):
    run("%dist_start -n 2")
    run("a = 1")
    assert run(line).success
    bar = world.views[-1]
    assert world.clusters["demo"].on_moved == bar.on_moved
    assert bar.finished == [()]


def test_push_names_every_unknown_variable_and_pushes_nothing(run, cluster):
    run("a = 1")
    result = run("%dist_push a nope neither")
    assert "UsageError: " in result.text
    assert " nope, neither;" in result.text
    assert cluster.calls == []


def test_pull_gives_objects_by_rank(run, shell):
    run("%dist_start -n 2")
    pulled = run("%dist_pull x")
    assert pulled.result == {0: "x0", 1: "x1"}
    assert "waits: rank 1 " in pulled.text
    assert run("%dist_pull x -o got").result is None
    assert shell.user_ns["got"] == {0: "x0", 1: "x1"}
    assert run("%dist_pull x -o 1x").text.startswith("UsageError: %dist_pull: argument -o: '1x'")


def test_interrupt_names_the_ranks(run, cluster):
    assert run("%dist_interrupt --ranks 0-1").text == "interrupted ranks 0-1\n"
    assert cluster.calls == [("interrupt", (0, 1))]


def test_stop_ends_the_cluster_and_the_next_magic_names_dist_start(run, world):
    run("%dist_start")
    assert run("%dist_stop").text.startswith("cluster demo ")
    assert not world.clusters
    assert "%dist_start" in run("%dist_status").text


def test_who_may_not_stop_the_cluster_goes_on_with_it(run, cluster):
    cluster.problem = ClusterInUse("not yours")
    assert run("%dist_stop").text == "ClusterInUse: not yours\n"
    assert run("%dist_status").text == f"{cluster.status()}\n"


def test_topology_is_drawn_in_a_notebook_and_written_in_a_terminal(run, shell, world, cluster):
    assert run("%dist_topology").text == f"drawn: {cluster.topology()}\n"
    assert world.shown == []
    object.__setattr__(shell, "kernel", object())
    run("%dist_topology")
    assert world.shown == [cluster]


def test_sync_says_what_was_copied_and_what_to_do_next(run, cluster):
    result = run("%dist_sync mypkg 'my src/' --force")
    assert cluster.calls == [("sync", ("mypkg", "my src/"), True)]
    copied, lost, hint = result.text.splitlines()
    assert copied.startswith("copied mypkg, my src/ (2 files")
    assert lost.startswith("c is lost")
    assert hint.startswith("mypkg.model ")
    assert hint.endswith(": %dist_sync mypkg 'my src/' --reload")


def test_sync_with_reload_runs_a_cell_that_is_shown_as_any_other(run, world):
    run("%dist_start -n 2")
    result = run("%dist_sync mypkg --reload")
    sync, cell = world.clusters["demo"].calls
    assert sync == ("sync", ("mypkg",), False)
    assert cell.code == RELOAD_COMMAND
    assert cell.watcher is world.views[-1]
    assert world.views[-1].asked == {"world_size": 2}
    assert world.views[-1].finished[0][0].ok
    assert "--reload" not in result.text
    world.clusters["demo"].statuses[1] = "raised"
    result = run("%dist_sync mypkg --reload")
    assert isinstance(result.error_in_exec, RankRaised)
    assert "copied mypkg" in result.text
    assert "Cell In[1], line 2" in result.text
