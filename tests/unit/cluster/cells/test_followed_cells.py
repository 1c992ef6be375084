import pytest
from fakes.cell_watcher import Watcher

from jupyter_dist.cluster.cells.followed_cells import Replay, read_label
from jupyter_dist.cluster.spmd import Gathering
from jupyter_dist.errors import UsageError
from jupyter_dist.protocol.messages import (
    CellEvents,
    CellFollowed,
    CellNote,
    FollowCell,
    KeptCell,
    Output,
    RankFinished,
    RankOutput,
)

CELL = KeptCell("cell-3", "In[3]", "x", (0, 2), 1000.0, is_running=False)
RUNNING = KeptCell("cell-3", "In[3]", "x", (0, 2), 1000.0, is_running=True)
SAID = RankOutput((2,), (Output("stdout", "hi\n"),))
ENDED = (RankFinished(0, "ok", 1.0), RankFinished(2, "raised", 1.0))


@pytest.mark.parametrize(
    ("label", "read"),
    [(3, "In[3]"), ("3", "In[3]"), ("In[3]", "In[3]"), (" in [ 3 ] ", "In[3]"), (None, "")],
)
def test_a_cell_is_named_by_its_number_and_the_last_one_by_none(label, read):
    assert read_label(label) == read


@pytest.mark.parametrize("label", ["x", "-1", "In[]", "3.5", ""])
def test_what_names_no_cell_is_a_usage_error(label):
    with pytest.raises(UsageError, match=r"3 or In\[3\]"):
        read_label(label)


def test_a_followed_cell_is_gathered_as_ones_own():
    watcher = Watcher()
    gathering = Gathering(FollowCell("f1"), watcher)
    gathering.take(CellEvents("cell-2", (SAID,)))
    gathering.take(CellFollowed("f1", RUNNING))
    gathering.take(CellEvents("cell-3", (SAID,)))
    gathering.take(CellEvents("cell-3", ENDED, is_last=True))
    assert gathering.is_over
    assert gathering.has_cell
    assert gathering.result().rank(2).stdout == "hi\n"
    assert watcher.seen == [((2,), ["hi\n"]), (0, "ok"), (2, "raised")]


def test_it_is_over_at_once_when_nothing_runs():
    gathering = Gathering(FollowCell("f1"), None)
    gathering.take(CellFollowed("f1", None))
    assert gathering.is_over
    assert not gathering.has_cell


def test_a_replay_shows_everything_in_its_order():
    watcher = Watcher()
    replay = Replay(CELL, (SAID, CellNote("rank 0 waits"), *ENDED))
    result = replay.show(watcher)
    assert watcher.seen == [((2,), ["hi\n"]), "rank 0 waits", (0, "ok"), (2, "raised")]
    assert [each.status for each in result] == ["ok", "raised"]
    assert replay.result.rank(2).stdout == "hi\n"


def test_a_cell_that_runs_has_no_result_yet():
    replay = Replay(RUNNING, (SAID,))
    watcher = Watcher()
    assert replay.result is None
    assert replay.show(watcher) is None
    assert watcher.seen == [((2,), ["hi\n"])]


def test_whoever_follows_is_told_which_cell_it_is_before_anything_of_it():
    watcher = Watcher()
    gathering = Gathering(FollowCell("f1"), watcher, watcher.seen.append)
    gathering.take(CellFollowed("f1", RUNNING, 2_000_000))
    gathering.take(CellEvents("cell-3", (SAID,)))
    cell, omitted, said = watcher.seen
    assert (cell, said) == (RUNNING, ((2,), ["hi\n"]))
    assert "1.91 MiB" in omitted
