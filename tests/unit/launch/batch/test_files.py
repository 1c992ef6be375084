"""The directory of a job: its own, of nobody else, and gone with it."""

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.batch import files
from jupyter_dist.launch.batch.files import JobFiles, make_job_dir, sweep_job_dirs


def fill(base, output_dir=None, outputs=1):
    """Give the files of a job that has run."""
    made = JobFiles(make_job_dir(base, "fit"), "fit", output_dir)
    made.script.touch()
    made.write_agent("#!/bin/sh\n")
    for node in range(outputs):
        made.output.with_name(f"{made.output.name}.{node}").touch()
    return made


def test_every_job_has_a_directory_of_its_own_that_nobody_else_can_look_into(tmp_path):
    one, two = make_job_dir(tmp_path, "fit"), make_job_dir(tmp_path, "fit")
    assert one != two
    assert [path.stat().st_mode & 0o777 for path in (one, two)] == [0o700, 0o700]
    assert one.name.startswith("jupyter-dist-fit-")


def test_no_directory_and_one_in_which_everybody_may_replace_files_are_refused(tmp_path):
    tmp_path.chmod(0o777)
    for place, why in ((tmp_path / "gone", "no directory"), (tmp_path, "everybody")):
        with pytest.raises(UsageError, match=f"'{place}' .*{why}.*--job-dir"):
            make_job_dir(place, "fit")
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o1777)
    assert make_job_dir(tmp_path, "fit").is_dir()


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_job_of_many_nodes_leaves_no_output(tmp_path, is_apart):
    fill(tmp_path, tmp_path if is_apart else None, outputs=100).remove()
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_coordinator_that_was_killed_are_removed_by_the_next_one(tmp_path, monkeypatch):
    fill(tmp_path)
    (tmp_path / "jupyter-dist-notes.log").touch()
    (tmp_path / "jupyter-dist-notes").mkdir()
    before = set(tmp_path.iterdir())
    sweep_job_dirs(tmp_path)
    assert set(tmp_path.iterdir()) == before, "their coordinator lives"
    monkeypatch.setattr(files, "process_lives", lambda _pid: False)
    new = make_job_dir(tmp_path, "fit")
    assert {path.name for path in tmp_path.iterdir()} == {
        new.name,
        "jupyter-dist-notes",
        "jupyter-dist-notes.log",
    }


def test_files_of_another_machine_stay(tmp_path, monkeypatch):
    made = fill(tmp_path)
    monkeypatch.setattr(files, "process_lives", lambda _pid: False)
    monkeypatch.setattr(files, "this_machine", lambda: "4026531836 another")
    sweep_job_dirs(tmp_path)
    assert made.agent.exists()
