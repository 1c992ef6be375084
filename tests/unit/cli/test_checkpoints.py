import json

from fakes.cluster import ended

from jupyter_dist.checkpoint.table import tabulate_checkpoints
from jupyter_dist.cli.checkpoints import restore_newest
from jupyter_dist.cluster.checkpoints import list_here, restoring, saving


def test_variables_are_saved_and_restored_on_the_cluster_that_is_named(dist, kind, demo):
    night = kind.start(name="night")
    assert dist("checkpoint", "run1", "w", "step", "--dir", "/d", "--name", "night")[0] == 0
    assert dist("restore", "run1", "--step", "2", "--objects", "--name", "demo")[0] == 0
    assert [call.code for call in night.calls] == [saving("run1", "w step", directory="/d")]
    assert [call.code for call in demo.calls] == [restoring("run1", step=2, objects=True)]


def test_what_fails_has_status_1_and_the_reason(dist, demo):
    demo.statuses = ["raised", "ok"]
    status, _, err = dist("restore", "run1")
    assert (status, "rank 0: ZeroDivisionError" in err) == (1, True)


def test_what_cannot_be_meant_has_status_2_and_asks_nobody(dist, demo):
    assert dist("checkpoint", "run1", "w", "--all")[0] == 2
    assert dist("checkpoint")[0] == 2
    assert dist("restore")[0] == 2
    assert demo.calls == []


def test_checkpoints_are_listed_as_this_machine_or_a_cluster_sees_them(dist, demo, tmp_path):
    demo.checkpoints = lambda directory: f"table of {directory}"
    assert dist("checkpoints", "--dir", str(tmp_path)) == (0, f"{list_here(str(tmp_path))}\n", "")
    assert dist("checkpoints", "--dir", "/d", "--name", "demo")[1] == "table of /d\n"


def test_a_healing_may_go_back_to_a_checkpoint(dist, demo):
    status, out, _ = dist("heal", "--resume", "/d")
    assert status == 0
    assert "replaced rank 2 on nodeB" in out
    assert demo.calls[-1].code == restoring(None, directory="/d")


def test_a_start_may_go_on_from_a_checkpoint(dist, kind):
    assert dist("start", "-n", "2", "--resume", "/d")[0] == 0
    restored, left = kind.started["demo"].calls
    assert (restored.code, left) == (restoring(None, directory="/d"), "detach")


def test_a_start_that_restores_nothing_says_that_the_cluster_runs(dist, kind, monkeypatch):
    monkeypatch.setattr(kind, "run_command", lambda *_, **__: ended("raised", "raised"))
    status, out, err = dist("start", "-n", "2", "--resume", "/d")
    assert status == 1
    assert "stop demo" in out
    assert "restore --dir DIR --name demo" in err
    assert "rank 0" in err


def test_a_start_that_restores_nothing_names_its_cluster_to_programs(dist, kind, monkeypatch):
    monkeypatch.setattr(kind, "run_command", lambda *_, **__: ended("raised", "raised"))
    _, out, _ = dist("start", "-n", "2", "--resume", "/d", "--json")
    assert json.loads(out)["cluster"] in kind.started


def test_a_specification_has_no_checkpoint_to_resume_from(dist):
    assert dist("spec", "--resume", "/d")[0] == 2


def test_a_job_that_has_saved_nothing_yet_begins_at_its_start(dist, demo, capsys):
    demo.checkpoints = lambda directory: tabulate_checkpoints(directory, {})
    assert restore_newest(demo, "/d") == ()
    assert demo.calls == []
    assert "/d" in capsys.readouterr().err
