"""What is saved behind cells: how far it is, how it ends, and who hears of that."""

import gc
import os
import re
import sys
import threading
import weakref

import numpy as np
import pytest
from fakes.council import on_ranks, open_save

from jupyter_dist.checkpoint.format.part_file import PartWriter
from jupyter_dist.checkpoint.save.background import Background, Errand
from jupyter_dist.checkpoint.save.save_handle import Saving
from jupyter_dist.checkpoint.save.saving import Saved
from jupyter_dist.checkpoint.values.copy_memory import CopyMemory
from jupyter_dist.errors import CheckpointError, CheckpointFailed, PeerFailed

SAVED = Saved("/runs/a/step-00000003", 3, 10, 0.5)


class Held:
    """A save of step 3 that goes on until it is let go."""

    def __init__(self, ending=SAVED):
        self.go_on = threading.Event()
        self.ending = ending
        self.background = Background()
        self.saving = Saving(3)
        self.background.start(self.saving, self._finish, Errand())

    def _finish(self):
        self.saving.begin(3 << 20)
        self.saving.add(1 << 20)
        assert self.go_on.wait(20)
        if isinstance(self.ending, Exception):
            raise self.ending
        return self.ending

    def end(self):
        self.go_on.set()
        self.background.join(20)


def test_a_save_under_way_says_how_far_it_is():
    held = Held()
    assert held.background.is_saving
    assert not held.saving.is_done
    with pytest.raises(CheckpointError, match=r"step 3 .* 0\.01 s"):
        held.saving.wait(0.01)
    assert repr(held.saving).startswith("<saving step 3: ")
    held.end()
    assert not held.background.is_saving
    assert held.saving.wait() is SAVED
    assert repr(held.saving) == "<step 3 is saved in /runs/a/step-00000003>"


def test_who_saves_next_waits_but_not_for_ever():
    held = Held()
    with pytest.raises(CheckpointError, match="step 3"):
        held.background.join(0.01)
    held.end()
    held.background.join(0.01)


def test_nothing_is_under_way_at_first():
    background = Background()
    background.join(0.01)
    assert not background.is_saving
    assert background.take_news() == ""


def test_a_failure_is_told_once_to_whom_it_concerns():
    held = Held(CheckpointFailed("rank 2: full"))
    assert held.background.take_news() == ""
    held.end()
    assert re.fullmatch("step 3 .*: rank 2: full", held.background.take_news())
    assert held.background.take_news() == ""
    assert repr(held.saving) == "<step 3 was not saved: rank 2: full>"


def test_who_has_waited_is_not_told_again():
    held = Held(CheckpointFailed("rank 2: full"))
    held.end()
    with pytest.raises(CheckpointFailed, match="rank 2"):
        held.saving.wait()
    assert held.background.take_news() == ""


def test_a_failed_peer_is_no_failure_of_the_cell_that_waits():
    held = Held(PeerFailed(1, "was lost"))
    held.end()
    with pytest.raises(CheckpointFailed, match="step 3: rank 1 was lost") as caught:
        held.saving.wait()
    assert isinstance(caught.value.__cause__, PeerFailed)


def test_what_went_wrong_beside_a_good_save_is_told():
    held = Held(SAVED._replace(notes=("no room in the cache", "nor elsewhere")))
    held.end()
    assert held.background.take_news() == "; ".join(held.saving.wait().notes)


@pytest.mark.skipif(sys.platform != "linux", reason="only there each thread has a priority")
def test_what_is_saved_behind_cells_leaves_the_processor_to_them():
    def niceness():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    background, found = Background(), []
    background.start(Saving(3), lambda: found.append(niceness()) or SAVED, Errand())
    background.join(20)
    assert found[0] == min(niceness() + 10, 19)


def test_the_copy_of_a_save_that_has_failed_is_not_kept(tmp_path, monkeypatch):
    """Beside it the next one would need room for a second."""
    copies = []

    def refuse(self):
        raise CheckpointFailed("it is full")

    monkeypatch.setattr(PartWriter, "finish", refuse)

    def call(rank_group):
        tree = [np.arange(1000), np.full(9, rank_group.rank)]
        save = open_save(rank_group, tmp_path / "run", tree, memory=CopyMemory())
        copies.extend(weakref.ref(save.contents.array(number, 0)) for number in (0, 1))
        background, saving = Background(), Saving(0)
        background.start(saving, lambda: save.complete(saving.begin), Errand())
        background.join(20)
        return background

    _, backgrounds = on_ranks(2, call)
    assert all("it is full" in background.take_news() for background in backgrounds)
    gc.collect()
    assert [copy() is None for copy in copies] == [True] * 4


def test_a_save_without_a_thread_is_none_that_somebody_waits_for(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    background = Background()
    with pytest.raises(RuntimeError, match="new thread"):
        background.start(Saving(3), lambda: SAVED, Errand())
    background.join(0.01)
    assert not background.is_saving
