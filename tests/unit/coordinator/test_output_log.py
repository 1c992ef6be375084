import pytest

from jupyter_dist.coordinator.output_log import KEPT_BYTES, OutputLog
from jupyter_dist.protocol.messages import CellNote, Output, RankFinished, RankOutput


@pytest.fixture
def log():
    log = OutputLog()
    log.begin("cell-1", "x = 1")
    return log


def text(content, rank=0):
    return RankOutput(rank, (Output("stdout", content),))


def test_a_replay_tells_which_cell_it_is_of(log):
    log.add(text("a"))
    replayed = log.replay("r1", is_running=True)
    assert (replayed.request_id, replayed.cell_id, replayed.code) == ("r1", "cell-1", "x = 1")
    assert replayed.is_running
    assert replayed.events == (text("a"),)
    assert replayed.omitted_bytes == 0


def test_a_log_without_a_cell_is_empty():
    assert OutputLog().replay("r1", is_running=False).events == ()


def test_a_new_cell_forgets_the_one_before(log):
    log.add(text("a"))
    log.add(RankFinished(0, "ok", 1.0))
    log.begin("cell-2", "y")
    assert log.replay("r1", is_running=True).events == ()


def test_old_outputs_give_way_and_are_counted(log):
    piece = "x" * (1 << 20)
    for _ in range(10):
        log.add(text(piece))
    replayed = log.replay("r1", is_running=True)
    kept = sum(len(event.outputs[0].text) for event in replayed.events)
    assert kept <= KEPT_BYTES
    assert replayed.omitted_bytes >= 10 * len(piece) - KEPT_BYTES


def test_results_and_notes_never_give_way(log):
    log.add(RankFinished(1, "raised", 1.0))
    log.add(CellNote("rank 0 waits"))
    for _ in range(10):
        log.add(text("x" * (1 << 20)))
    events = log.replay("r1", is_running=True).events
    assert RankFinished(1, "raised", 1.0) in events
    assert CellNote("rank 0 waits") in events


def test_a_single_output_larger_than_the_limit_is_kept(log):
    log.add(text("x" * (KEPT_BYTES * 2)))
    assert len(log.replay("r1", is_running=True).events) == 1


def test_dropped_bytes_of_one_cell_are_not_counted_for_the_next(log):
    for _ in range(10):
        log.add(text("x" * (1 << 20)))
    log.begin("cell-2", "y")
    log.add(text("a"))
    assert log.replay("r1", is_running=True).omitted_bytes == 0
