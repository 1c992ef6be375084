import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.checkpoint_options import (
    add_heal_resume,
    add_list_options,
    add_restore_options,
    add_save_options,
    add_start_resume,
    restore_arguments,
    save_arguments,
)
from jupyter_dist.model.command_options import OptionParser


def parser(add):
    made = OptionParser(prog="%x", example="%x y")
    add(made)
    return made


SAVE, RESTORE = parser(add_save_options), parser(add_restore_options)


def test_what_is_not_said_of_saving_is_what_is_usual():
    assert save_arguments(SAVE.read("run")) == {
        "name": "run",
        "variables": "",
        "directory": None,
        "everything": False,
        "keep_last": None,
        "wait": True,
        "cache": None,
    }


def test_every_option_of_saving_is_read_wherever_it_stands():
    line = "--dir /d run --keep-last 3 a b --background --cache /c --all"
    assert save_arguments(SAVE.read(line)) == {
        "name": "run",
        "variables": "a b",
        "directory": "/d",
        "everything": True,
        "keep_last": 3,
        "wait": False,
        "cache": "/c",
    }


def test_every_option_of_restoring_is_read():
    assert restore_arguments(RESTORE.read("run a --dir /d --step 0 --objects --cache /c")) == {
        "name": "run",
        "variables": "a",
        "directory": "/d",
        "step": 0,
        "objects": True,
        "cache": "/c",
    }
    assert restore_arguments(RESTORE.read("--dir /d"))["name"] is None


@pytest.mark.parametrize(
    ("which", "line", "said"),
    [
        (SAVE, "", "NAME"),
        (SAVE, "run --keep-last 0", "'0' is not a number of checkpoints, 1 or more"),
        (SAVE, "run --keep-last x", "'x' is not a number of checkpoints"),
        (SAVE, "run --step 1", "unrecognized arguments: --step"),
        (RESTORE, "run --step -1", "--step"),
        (RESTORE, "run --step x", "'x' is not the number of a step, 0 or more"),
    ],
)
def test_what_cannot_be_meant_is_refused(which, line, said):
    with pytest.raises(UsageError, match=said):
        which.read(line)


def test_a_list_may_be_of_another_directory():
    made = parser(add_list_options)
    assert (made.read("").dir, made.read("--dir /d").dir) == (None, "/d")


def test_a_healing_may_resume_from_where_was_saved_last_or_from_a_directory():
    made = parser(add_heal_resume)
    given = [made.read(line).resume for line in ("", "--resume", "--resume /d")]
    assert given == [None, "", "/d"]


def test_a_start_resumes_from_a_directory_only():
    made = parser(add_start_resume)
    assert [made.read(line).resume for line in ("", "--resume /d")] == [None, "/d"]
    with pytest.raises(UsageError, match="--resume DIR"):
        made.read("--resume")
