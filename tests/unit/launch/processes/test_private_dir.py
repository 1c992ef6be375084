"""Shared folders into which others write: nothing of theirs is opened, removed or waited for."""

import os
import subprocess
import sys

import pytest

from jupyter_dist.launch.batch.files import sweep_job_dirs
from jupyter_dist.launch.processes import private_dir
from jupyter_dist.launch.processes.private_dir import make_private_dir, pid_namespace, this_machine


@pytest.fixture
def dead_pid():
    """Number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def left(tmp_path, dead_pid):
    """Name what a killed process has left."""
    return lambda tail: tmp_path / f"jupyter-dist-{pid_namespace()}-{dead_pid}-{tail}"


def test_what_a_killed_process_has_left_goes(tmp_path, left):
    (left("a") / "deep" / "er").mkdir(parents=True)
    (left("a") / "deep" / "file").write_text("x")
    os.mkfifo(left("a") / "fifo")
    (left("a") / "link").symlink_to(tmp_path)
    made = make_private_dir(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
    assert made.stat().st_mode & 0o777 == 0o700


def test_neither_fifos_nor_links_nor_files_are_opened(tmp_path, left):
    victim = tmp_path / "victim"
    (victim / "kept").mkdir(parents=True)
    os.mkfifo(left("fifo"))
    left("file").write_text("x")
    left("link").symlink_to(victim)
    left("loop").symlink_to(left("loop"))
    left("fifo-link").symlink_to(left("fifo"))
    make_private_dir(tmp_path)  # opening the FIFO would wait for ever
    assert (victim / "kept").is_dir()
    assert left("fifo").is_fifo()
    assert left("link").is_symlink()


def test_directories_of_others_stay(tmp_path, left, monkeypatch):
    (left("theirs") / "state").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    make_private_dir(tmp_path)
    assert (left("theirs") / "state").is_dir()


def test_a_folder_that_others_have_filled_is_read_no_further(tmp_path, left, monkeypatch):
    left("a").mkdir()
    monkeypatch.setattr(private_dir, "_SWEEP_S", -1.0)
    assert make_private_dir(tmp_path).is_dir()
    assert left("a").is_dir()


def test_names_that_are_not_ours_do_no_harm(tmp_path):
    names = ["jupyter-dist-", "jupyter-dist-x-y-z", f"jupyter-dist-{'9' * 99}-{'9' * 99}-a"]
    names.append(f"jupyter-dist-{pid_namespace()}-{2**70}-a")
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / os.fsdecode(b"jupyter-dist-\xff-1-a")).mkdir()
    made = make_private_dir(tmp_path)
    made.rmdir()
    assert len(list(tmp_path.iterdir())) == 5


def test_job_directories_of_others_are_not_looked_into(tmp_path, dead_pid):
    theirs = tmp_path / "jupyter-dist-fifo"
    theirs.mkdir()
    os.mkfifo(theirs / "owner")  # ours, or not: a FIFO is not waited for
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "owner").write_text(f"{dead_pid} {this_machine()}")
    (tmp_path / "jupyter-dist-link").symlink_to(outside)
    ours = tmp_path / "jupyter-dist-ours"
    ours.mkdir()
    (ours / "owner").write_text(f"{dead_pid} {this_machine()}")
    sweep_job_dirs(tmp_path)
    assert not ours.exists()
    assert theirs.is_dir()
    assert outside.is_dir()
