from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from jupyter_dist.checkpoint.report import CheckpointRestored
from jupyter_dist.checkpoint.table import CheckpointSeen, RankFound, tabulate_checkpoints
from jupyter_dist.cluster import checkpoints
from jupyter_dist.cluster.checkpoints import restoring, saving
from jupyter_dist.cluster.healing import Healed
from jupyter_dist.errors import ClusterGone, RankRaised, UsageError
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
    healed = Healed(5, {1: "nodeB"}, (), (), {"w": (1,), "rng": (1,), "tmp": (1,)})
    monkeypatch.setattr(world.kind, "heal", lambda *_, **__: healed, raising=False)
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


def test_saving_runs_a_cell_on_all_ranks_that_is_shown_as_any_other(run, cluster, world):
    line = "%dist_checkpoint run weights step"
    assert run(line).success
    (call,) = cluster.calls
    assert (call.code, call.ranks, call.label) == (saving("run", "weights step"), None, 2)
    view = world.views[-1]
    assert call.watcher is view
    ((result, raised),) = view.finished
    assert (len(result), raised) == (2, None)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (
            "%dist_checkpoint --dir /d run --keep-last 2 --background --cache /c --all",
            saving("run", everything=True, directory="/d", keep_last=2, wait=False, cache="/c"),
        ),
        (
            "%dist_restore run w --dir /d --step 3 --objects --cache /c",
            restoring("run", "w", directory="/d", step=3, objects=True, cache="/c"),
        ),
        # A directory that has steps itself needs no name.
        ("%dist_restore --dir /d", restoring(None, directory="/d")),
    ],
)
def test_every_option_reaches_the_command(run, cluster, line, command):
    assert run(line).success
    assert cluster.calls[0].code == command


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%dist_checkpoint", "NAME"),
        ("%dist_checkpoint ../x w", "checkpoint name '../x'"),
        ("%dist_checkpoint run w --all", " w by "),
        ("%dist_checkpoint run w --keep-last 0", "'0'"),
        ("%dist_checkpoint run w.x", "'w.x'"),
        ("%dist_restore", "--dir PATH"),
        ("%dist_restore run --step x", "'x'"),
        ("%dist_restore run --step -1", "--step"),
        ("%dist_start --resume", "--resume DIR"),
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


def test_without_a_cluster_this_machine_is_looked_at(run, world, tmp_path):
    assert run(f"%dist_checkpoints --dir {tmp_path}").text.endswith(f" {tmp_path}\n")


def test_the_hosts_of_a_cluster_are_asked_what_there_is(run, cluster, monkeypatch):
    monkeypatch.setattr(type(cluster), "checkpoints", lambda _, path: f"in {path}", raising=False)
    assert run("%dist_checkpoints --dir /d").text == "in /d\n"
    assert run("%dist_checkpoints").text == "in None\n"


def test_a_healing_says_from_where_all_ranks_could_go_on(run, cluster, heals):
    heals[""] = RankFound("/d/my run", "/d/my run", (SEEN,))
    *_, last = run("%dist_heal").text.splitlines()
    assert " step 3 (w, step), saved at 2026-11-22 14:03:12 UTC" in last
    assert last.endswith(": %dist_restore --dir '/d/my run'")
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
    assert run("%dist_heal --resume /d --ranks 1").success
    assert cluster.calls[1].code == restoring(None, directory="/d")


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


def test_a_start_that_restores_nothing_leaves_the_cluster_running(run, world, monkeypatch):
    fail = Mock(side_effect=ClusterGone("demo", "why not"))
    monkeypatch.setattr(world.kind, "run_command", fail)
    result = run("%dist_start -n 2 --resume /d")
    assert isinstance(result.error_in_exec, ClusterGone)
    assert "%dist_restore" in result.text
    assert "demo" in world.clusters
    assert run("%dist_status").success


def test_names_of_checkpoints_and_of_variables_complete(complete, cluster, monkeypatch):
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
