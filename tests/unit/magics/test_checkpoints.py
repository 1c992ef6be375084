import sys

import pytest
from msgspec.structs import replace

from jupyter_dist.cluster import checkpoints
from jupyter_dist.cluster.healing import Healed
from jupyter_dist.errors import ClusterGone, RankRaised, UsageError
from jupyter_dist.model.checkpoint_report import CheckpointRestored
from jupyter_dist.model.checkpoint_table import CheckpointSeen, RankFound, tabulate_checkpoints
from jupyter_dist.protocol.messages import Completions

SEEN = CheckpointSeen(
    id="1",
    name="",
    step=3,
    path="/d/my run/step-00000003",
    saved_at="2026-11-22T14:03:12Z",
    world_size=4,
    nbytes=1,
    variables=("w", "step"),
)


@pytest.fixture
def cluster(run, world):
    """A cluster of two ranks, which only remembers what it was asked."""
    run("%dist_start -n 2")
    return world.clusters["demo"]


RESTORED = CheckpointRestored(
    path=SEEN.path,
    step=3,
    world_size=2,
    nbytes=1,
    seconds=0.1,
    restored=("w", "rng"),
    not_restored={"rng": {"a pickle": (1,)}},
)


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """What ranks tell of restoring."""
    monkeypatch.setattr(checkpoints, "read_restored", lambda _result: RESTORED)


@pytest.fixture
def heals(world, monkeypatch):
    """Let clusters heal, and ranks say where was saved last; nowhere, to begin with."""
    kind = sys.modules["jupyter_dist.cluster.cluster"].Cluster
    healed = Healed(5, {1: "nodeB"}, (), (), {"w": (1,), "rng": (1,), "tmp": (1,)})
    monkeypatch.setattr(kind, "heal", lambda *_, **__: healed, raising=False)
    told = {"": RankFound("")}

    def look(_cluster, directory="", label=1):
        (found,) = told.values()
        if isinstance(found, Exception):
            raise found
        return tabulate_checkpoints(directory or found.directory, told)

    def find_last(cluster, label=1):
        return look(cluster).directory

    monkeypatch.setattr(checkpoints, "look", look)
    monkeypatch.setattr(checkpoints, "find_last", find_last)
    return told


def saving(*given, **options):
    usual = {"directory": None, "everything": False, "keep_last": None, "wait": True, "cache": None}
    return checkpoints.save_cell(checkpoints.saving(*given, **{**usual, **options}))


def restoring(*given, **options):
    return checkpoints.restore_cell(checkpoints.restoring(*given, **options))


def test_saving_runs_a_cell_on_all_ranks_that_is_shown_as_any_other(run, cluster, world):
    assert run("%dist_checkpoint run weights step").success
    (call,) = cluster.calls
    assert (call.code, call.ranks, call.label) == (saving("run", "weights step"), None, 2)
    view = world.views[-1]
    assert call.watcher is view
    ((result, raised),) = view.finished
    assert (len(result), raised) == (2, None)


def test_every_option_of_saving_reaches_the_cell(run, cluster):
    line = "run --all --dir /d --keep-last 2 --background --cache /c"
    assert run(f"%dist_checkpoint {line}").success
    more = {"everything": True, "directory": "/d", "keep_last": 2, "wait": False, "cache": "/c"}
    assert cluster.calls[0].code == saving("run", "", **more)


def test_every_option_of_restoring_reaches_the_cell(run, cluster):
    assert run("%dist_restore run w --dir /d --step 3 --objects --cache /c").success
    more = {"directory": "/d", "step": 3, "objects": True, "cache": "/c"}
    assert cluster.calls[0].code == restoring("run", "w", **more)


def test_a_directory_that_has_steps_itself_needs_no_name(run, cluster):
    assert run("%dist_restore --dir /d").success
    assert cluster.calls[0].code == restoring(None, directory="/d")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%dist_checkpoint", "NAME"),
        ("%dist_checkpoint ../x w", "checkpoint name '../x'"),
        ("%dist_checkpoint run w --all", "Leave one of both out"),
        ("%dist_checkpoint run w --keep-last 0", "'0' is not a number of checkpoints"),
        ("%dist_checkpoint run w.x", "'w.x' is not the name of a variable"),
        ("%dist_restore", "say what to restore"),
        ("%dist_restore run --step x", "'x' is not the number of a step"),
        ("%dist_checkpoints --all", "--all"),
    ],
)
def test_what_cannot_be_meant_is_answered_in_one_line(run, cluster, line, said):
    result = run(line)
    assert isinstance(result.error_in_exec, UsageError)
    (text,) = result.text.strip().splitlines()
    assert said in text
    assert cluster.calls == []


@pytest.mark.parametrize("line", ["%dist_checkpoint run w", "%dist_restore run"])
def test_a_rank_that_raises_is_the_error_of_the_cell(run, cluster, world, line):
    cluster.statuses[1] = "raised"
    assert isinstance(run(line).error_in_exec, RankRaised)
    ((result, raised),) = world.views[-1].finished
    assert (len(result), raised) == (2, 1)


def test_a_save_that_is_given_up_says_so(run, cluster, world):
    cluster.problem = KeyboardInterrupt()
    assert not run("%dist_checkpoint run w").success
    assert world.views[-1].finished == [(None,)]


def test_without_a_cluster_the_way_to_one_is_told(run, world):
    for line in ("%dist_checkpoint run w", "%dist_restore run"):
        result = run(line)
        assert isinstance(result.error_in_exec, UsageError)
        assert "%dist_start" in result.text


def test_without_a_cluster_this_machine_is_looked_at(run, world, tmp_path):
    assert run(f"%dist_checkpoints --dir {tmp_path}").text == f"no checkpoint in {tmp_path}\n"


def test_the_hosts_of_a_cluster_are_asked_what_there_is(run, cluster, monkeypatch):
    monkeypatch.setattr(type(cluster), "checkpoints", lambda _, path: f"in {path}", raising=False)
    assert run("%dist_checkpoints --dir /d").text == "in /d\n"
    assert run("%dist_checkpoints").text == "in None\n"


# --- after a healing, after a start ---


def test_a_healing_says_from_where_all_ranks_could_go_on(run, cluster, heals):
    heals[""] = RankFound("/d/my run", "/d/my run", (SEEN,))
    *_, last = run("%dist_heal").text.splitlines()
    assert last == (
        "all ranks can go back to step 3 (w, step), saved at 2026-11-22 14:03:12 UTC: "
        "%dist_restore --dir '/d/my run'"
    )
    assert cluster.calls == []


@pytest.mark.parametrize("found", [RankFound(""), ClusterGone("demo", "it has ended")])
def test_a_healing_says_nothing_of_what_is_not_there(run, cluster, heals, found):
    heals[""] = found
    result = run("%dist_heal")
    assert result.success
    assert "step" not in result.text


def test_a_healing_resumes_from_where_was_saved_last(run, cluster, heals):
    heals[""] = RankFound("/d/my run", "/d/my run", (SEEN,))
    result = run("%dist_heal --resume")
    assert result.text.startswith("replaced rank 1 on nodeB")
    assert [call.code for call in cluster.calls] == [restoring(None, directory="/d/my run")]
    assert "rank 1 lacks rng, tmp" in result.text, "what was restored is not missing"


def test_a_healing_resumes_from_a_directory_that_is_named(run, cluster, heals):
    assert run("%dist_heal --resume /d --ranks 1").success
    assert [call.code for call in cluster.calls] == [restoring(None, directory="/d")]


def test_a_healing_that_has_nothing_to_resume_has_healed_and_says_what_to_do(run, cluster, heals):
    result = run("%dist_heal --resume")
    assert isinstance(result.error_in_exec, UsageError)
    assert result.text.startswith("replaced rank 1 on nodeB")
    assert "--resume DIR" in result.text
    assert "rank 1 lacks w, rng, tmp" in result.text


def test_a_start_goes_on_from_a_checkpoint(run, world):
    assert run("%dist_start -n 2 --resume /d").success
    (call,) = world.clusters["demo"].calls
    assert call.code == restoring(None, directory="/d")
    assert "resume" not in world.clusters["demo"].options


def test_a_start_whose_checkpoint_is_not_restored_leaves_the_cluster_running(
    run, world, monkeypatch
):
    def fail(*_given, **_more):
        raise ClusterGone("demo", "why not")

    monkeypatch.setattr(sys.modules["jupyter_dist.cluster.cluster"].Cluster, "run", fail)
    result = run("%dist_start -n 2 --resume /d")
    assert isinstance(result.error_in_exec, ClusterGone)
    assert "cluster demo runs, and nothing was restored" in result.text
    assert "demo" in world.clusters
    assert run("%dist_status").success


def test_the_options_complete(shell, world):
    from IPython.core.completer import provisionalcompleter

    def complete(code):
        with provisionalcompleter():
            return {found.text for found in shell.Completer.completions(code, len(code))}

    assert complete("%dist_checkpoint run --b") == {"--background"}
    assert complete("%dist_restore run --o") == {"--objects"}
    assert complete("%dist_start --res") == {"--resume"}


def test_names_of_checkpoints_and_of_variables_complete(shell, run, cluster, monkeypatch):
    from IPython.core.completer import provisionalcompleter

    def complete(code):
        with provisionalcompleter():
            return {found.text for found in shell.Completer.completions(code, len(code))}

    def list_here(directory):
        listed = RankFound("", "", (replace(SEEN, name="run" if directory is None else "far"),))
        return tabulate_checkpoints("/d", {"": listed})

    def complete_there(_cluster, code, cursor, rank=0):
        names = ("weights", "while", "w.T", "warnings_seen", "zip")
        return Completions(names, 0, cursor)

    monkeypatch.setattr(checkpoints, "list_here", list_here)
    monkeypatch.setattr(type(cluster), "complete", complete_there, raising=False)
    assert complete("%dist_restore r") == {"run"}
    assert complete("%dist_restore --dir /d f") == {"far"}
    assert complete("%dist_restore run w") == {"w"}
    assert complete("%dist_restore run --step 3 s") == {"step"}
    assert complete("%dist_checkpoint r") == {"run"}
    assert complete("%dist_checkpoint run w") == {"weights", "warnings_seen"}
