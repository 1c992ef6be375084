"""Ctrl-C at each line of saving and restoring: no file stays open, and no unfinished checkpoint."""

import os
from pathlib import Path

import numpy as np
from fakes.council import PATIENCE_S, FakeCouncil, FakeHall, FakeProgress, describe
from interrupting import AtLine

from jupyter_dist import checkpoint, descriptors
from jupyter_dist.checkpoint.format.manifest_file import MANIFEST_NAME
from jupyter_dist.checkpoint.restore.restoring import RestoreOptions, restore
from jupyter_dist.checkpoint.save.contents import take
from jupyter_dist.checkpoint.save.saving import Save, SaveOptions
from tests.patience import wait_until

TREE = {"w": np.arange(1000.0), "pickled": {1, 2, 3}, "rows": [1, "x"]}
OPENING = {*map(str, Path(checkpoint.__file__).parent.rglob("*.py")), descriptors.__file__}
MOST_LINES = 2000


def save(directory):
    wish = SaveOptions(directory=str(directory))
    saving = Save(FakeCouncil(0, FakeHall(1)), wish, PATIENCE_S)
    with saving.cleaning_up():
        saving.open(lambda: take(TREE, None), describe)
        saving.complete(FakeProgress)


def interrupt_at_each_line(act, folder):
    """Interrupt `act(number)` at the line of that number; yield where that was, None: nowhere.

    No file in the folder is open then.
    """
    for number in range(MOST_LINES):
        interrupt = AtLine(number, OPENING)
        try:
            with interrupt:
                act(number)
        except KeyboardInterrupt:
            pass
        # What is on its way to the disk goes on in a thread, which closes its file.
        what = f"all is closed after an interrupt at {interrupt.place}"
        wait_until(lambda: not open_files(folder), 5, what)
        yield interrupt.place
        if interrupt.place is None:
            return


def open_files(folder):
    files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return [file for file in files if file.startswith(str(folder))]


def test_an_interrupted_save_leaves_a_whole_checkpoint_or_nothing(tmp_path):
    places = interrupt_at_each_line(lambda number: save(tmp_path / str(number)), tmp_path)
    for number, place in enumerate(places):
        directory = tmp_path / str(number)
        found = list(directory.iterdir()) if directory.exists() else []
        assert [path.name for path in found] in ([], ["step-00000000"]), place
        for path in found:
            assert MANIFEST_NAME in os.listdir(path)
            assert "lock" not in os.listdir(path)
    assert 300 < number < MOST_LINES
    assert found


def test_an_interrupted_restore_leaves_no_file_open(tmp_path):
    save(tmp_path)

    def act(_number):
        options = RestoreOptions(timeout_s=PATIENCE_S)
        restore(FakeCouncil(0, FakeHall(1)), str(tmp_path), options)

    assert 100 < len(list(interrupt_at_each_line(act, tmp_path))) < MOST_LINES
