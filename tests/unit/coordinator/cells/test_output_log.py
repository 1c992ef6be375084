import pytest
from fakes.outbox import RecordingSender

from jupyter_dist.coordinator.cells.event_flow import BATCH_BYTES, WINDOW_BYTES, size_of
from jupyter_dist.coordinator.cells.output_log import (
    KEPT_BYTES,
    KEPT_BYTES_IN_ALL,
    KEPT_CELLS,
    PIECE_CHARACTERS,
    OutputLog,
)
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.messages import (
    CellEvents,
    CellFollowed,
    CellNote,
    ErrorInfo,
    KeptCell,
    Output,
    OutputReplayed,
    RankFinished,
    RankOutput,
    Refused,
)

MEGABYTE = "x" * (1 << 20)


@pytest.fixture
def sender():
    return RecordingSender()


@pytest.fixture
def log():
    log = OutputLog(time_of_day=lambda: 1000.0)
    log.begin("cell-1", "In[1]", "x = 1", (0, 1))
    return log


def text(content, rank=0):
    return RankOutput((rank,), (Output("stdout", content),))


def flood(log, megabytes):
    for _ in range(megabytes):
        log.add([text(MEGABYTE)])


def sent(sender, client=b"me"):
    return sender.cell_events(client=client)


def read_all(log, sender, client=b"me", cell_id="cell-1"):
    """Acknowledge all that is sent until nothing more comes."""
    seen = -1
    while (size := sender.told(CellEvents, client)[-1].size_bytes) != seen:
        seen = size
        log.acknowledge(client, cell_id, seen)


# --- what is kept ---


def test_a_replay_tells_which_cell_it_is_of_and_its_events_in_their_order(log):
    events = (text("a"), CellNote("waits"), text("b", 1), RankFinished(1, "ok", 1.0), text("c"))
    for event in events:
        log.add([event])
    replayed = log.replay("r1", "")
    assert isinstance(replayed, OutputReplayed)
    assert (replayed.request_id, replayed.omitted_bytes) == ("r1", 0)
    kept_bytes = sum(map(size_of, events))
    assert replayed.cell == KeptCell(
        "cell-1", "In[1]", "x = 1", (0, 1), 1000.0, is_running=True, kept_bytes=kept_bytes
    )
    assert replayed.events == events


def test_without_a_cell_there_is_nothing_to_be_replayed():
    refused = OutputLog().replay("r1", "")
    assert isinstance(refused, Refused)
    assert OutputLog().list_cells("r1").cells == ()


def test_an_earlier_cell_can_still_be_replayed(log):
    log.add([text("a")])
    log.add([RankFinished(0, "ok", 1.0)])
    log.finish()
    log.begin("cell-2", "In[2]", "y", (0,))
    log.add([text("b")])
    assert log.replay("r1", "In[1]").events == (text("a"), RankFinished(0, "ok", 1.0))
    assert not log.replay("r1", "In[1]").cell.is_running
    assert log.replay("r1", "").events == (text("b"),)
    assert [cell.label for cell in log.list_cells("r2").cells] == ["In[1]", "In[2]"]
    log.begin("cell-3", "In[1]", "z", (0,))
    assert log.replay("r1", "In[1]").cell.code == "z", "of one label the last one is meant"


def test_since_a_mark_only_what_came_later_is_replayed(log):
    log.add([text("one"), CellNote("a note")])
    mark = log.replay("r1", "").mark
    assert log.replay("r2", "", mark).events == ()
    log.add([text("two")])
    again = log.replay("r3", "", mark)
    assert (again.events, again.mark) == ((text("two"),), mark + 1)
    assert len(log.replay("r4", "").events) == 3


def test_a_mark_holds_where_old_outputs_have_given_way(log):
    log.add([text("first")])
    mark = log.replay("r1", "").mark
    flood(log, 40)
    assert log.replay("r2", "", mark).events == log.replay("r3", "").events
    assert log.replay("r4", "", log.replay("r5", "").mark).events == ()


def test_an_unknown_label_is_answered_with_those_that_are_kept(log):
    refused = log.replay("r1", "In[9]")
    assert refused.code == ErrorCode.USAGE_ERROR
    assert "'In[9]'" in refused.reason
    assert "In[1]" in refused.reason


def test_old_outputs_give_way_and_are_counted_but_never_results_and_notes(log):
    lasting = (RankFinished(1, "raised", 1.0), CellNote("rank 0 waits"))
    for event in lasting:
        log.add([event])
    flood(log, 40)
    replayed = log.replay("r1", "")
    assert replayed.events[:2] == lasting
    kept = sum(len(event.outputs[0].text) for event in replayed.events[2:])
    assert KEPT_BYTES - (2 << 20) < kept <= KEPT_BYTES
    assert replayed.omitted_bytes >= 40 * len(MEGABYTE) - KEPT_BYTES
    log.begin("cell-2", "In[2]", "y", (0,))
    log.add([text("a")])
    assert log.replay("r1", "").omitted_bytes == 0, "that was the cell before"


def test_many_short_outputs_are_bounded_by_what_they_take_in_memory(log):
    for _ in range(100_000):
        log.add([text("x\n")])
    assert len(log.replay("r1", "").events) < 50_000


def test_of_a_single_text_larger_than_the_limit_the_end_is_kept(log):
    log.add([text("x" * (KEPT_BYTES * 2) + "the end")])
    replayed = log.replay("r1", "")
    said = "".join(output.text for event in replayed.events for output in event.outputs)
    assert said.endswith("xthe end")
    assert KEPT_BYTES - (1 << 20) < len(said) <= KEPT_BYTES


def test_a_figure_larger_than_the_limit_is_kept_whole(log):
    figure = RankOutput((0,), (Output("display", data={"image/png": "x" * (KEPT_BYTES * 2)}),))
    log.add([figure])
    assert log.replay("r1", "").events == (figure,)


def test_large_outputs_are_kept_in_pieces_of_the_same_text_in_the_same_order(log):
    parts = [Output("stdout", "a" * 700_000), Output("stderr", "b"), Output("stdout", "c\n")]
    log.add([RankOutput((1,), tuple(parts))])
    events = log.replay("r1", "").events
    assert {event.ranks for event in events} == {(1,)}
    assert all(size_of(event) <= 2 * PIECE_CHARACTERS for event in events)
    outputs = [output for event in events for output in event.outputs]
    assert "".join(output.text for output in outputs) == "a" * 700_000 + "bc\n"
    assert [output.kind for output in outputs[-2:]] == ["stderr", "stdout"]


@pytest.mark.parametrize("length", [1, 100, PIECE_CHARACTERS // 2])
def test_what_is_left_of_a_text_begins_with_a_whole_line(log, length):
    lines = [f"{number} {'x' * length}\n" for number in range(KEPT_BYTES // (length + 3) + 9)]
    log.add([text("".join(lines))])
    replayed = log.replay("r1", "")
    assert isinstance(replayed, OutputReplayed)
    assert replayed.cell.kept_bytes
    left = "".join(output.text for event in replayed.events for output in event.outputs)
    assert left.splitlines(keepends=True) == lines[-left.count("\n") :]
    assert len(left) < sum(map(len, lines))


def test_so_many_cells_are_kept(log):
    for number in range(2, 2 * KEPT_CELLS):
        log.finish()
        log.begin(f"cell-{number}", f"In[{number}]", "", (0,))
    labels = [cell.label for cell in log.list_cells("r1").cells]
    assert len(labels) == KEPT_CELLS
    assert labels[-1] == f"In[{2 * KEPT_CELLS - 1}]"


def test_so_much_is_kept_of_all_cells(log):
    for number in range(2, 12):
        flood(log, 20)
        log.finish()
        log.begin(f"cell-{number}", f"In[{number}]", "", (0,))
    cells = log.list_cells("r1").cells
    assert sum(cell.kept_bytes for cell in cells) <= KEPT_BYTES_IN_ALL
    assert len(cells) >= 4


# --- following ---


def test_a_follower_gets_everything_from_the_beginning_and_then_what_comes(log, sender):
    log.add([text("a")])
    log.follow(b"me", "f1", sender)
    [followed] = sender.told(CellFollowed, b"me")
    assert (followed.request_id, followed.cell.label, followed.omitted_bytes) == ("f1", "In[1]", 0)
    assert sent(sender) == [text("a")]
    log.add([text("b")])
    log.flush()
    log.add([RankFinished(0, "ok", 1.0)])
    log.finish()
    assert sent(sender) == [text("a"), text("b"), RankFinished(0, "ok", 1.0)]
    assert [batch.is_last for batch in sender.told(CellEvents)] == [False, False, True]


def test_without_a_running_cell_there_is_none_to_follow(log, sender):
    OutputLog().follow(b"me", "f1", sender)
    log.finish()
    log.follow(b"me", "f2", sender)
    assert [followed.cell for followed in sender.told(CellFollowed)] == [None, None]
    assert sender.told(CellEvents) == []


def test_what_was_dropped_before_is_told_with_the_answer(log, sender):
    flood(log, 40)
    log.follow(b"me", "f1", sender)
    [followed] = sender.told(CellFollowed)
    assert followed.omitted_bytes > 20 << 20
    assert not any(isinstance(event, CellNote) for event in sent(sender))


def test_the_past_comes_in_pieces_and_waits_for_the_reader(log, sender):
    for _ in range(60):
        log.add([text("x" * 200_000)])
    log.follow(b"me", "f1", sender)
    batches = sender.told(CellEvents)
    assert all(sum(map(size_of, batch.events)) <= BATCH_BYTES for batch in batches)
    assert WINDOW_BYTES <= batches[-1].size_bytes <= WINDOW_BYTES + BATCH_BYTES
    read_all(log, sender)
    assert len(sent(sender)) == 60, "nothing is cut"


def test_a_cell_that_ends_meanwhile_is_read_to_its_end(log, sender):
    flood(log, 14)
    said = len(log.replay("r1", "").events)
    log.follow(b"me", "f1", sender)
    log.add([RankFinished(0, "ok", 1.0)])
    log.finish()
    log.begin("cell-2", "In[2]", "", (0,))
    assert not sender.told(CellEvents)[-1].is_last
    read_all(log, sender)
    assert sender.told(CellEvents)[-1].is_last
    assert sent(sender)[-1] == RankFinished(0, "ok", 1.0)
    assert len(sent(sender)) == said + 1


def test_a_follower_that_stops_reading_gets_no_more_until_it_reads_on_and_is_told_so(log, sender):
    log.follow(b"me", "f1", sender)
    for _ in range(100):
        log.add([text(MEGABYTE)])
        log.flush()
    assert sender.told(CellEvents)[-1].size_bytes <= WINDOW_BYTES + 2 * BATCH_BYTES
    log.add([RankFinished(0, "ok", 1.0)])
    log.finish()
    read_all(log, sender)
    assert len([event for event in sent(sender) if isinstance(event, CellNote)]) == 1
    assert sent(sender)[-1] == RankFinished(0, "ok", 1.0)
    assert sender.told(CellEvents)[-1].is_last


def test_followers_do_not_wait_for_each_other(log, sender):
    log.follow(b"slow", "f1", sender)
    log.follow(b"quick", "f2", sender)
    for _ in range(14):
        log.add([text(MEGABYTE)])
        log.flush()
        log.acknowledge(b"quick", "cell-1", sender.told(CellEvents, b"quick")[-1].size_bytes)
    assert len(sent(sender, b"quick")) == len(log.replay("r1", "").events)
    assert len(sent(sender, b"slow")) < 0.7 * len(sent(sender, b"quick"))


def test_asking_again_begins_again(log, sender):
    log.add([text("a")])
    log.follow(b"me", "f1", sender)
    sender.forget()
    log.follow(b"me", "f2", sender)
    log.add([text("b")])
    log.flush()
    assert sent(sender) == [text("a"), text("b")]


def test_the_end_of_a_cell_that_is_forgotten_is_told_to_those_that_still_read(log, sender):
    log.follow(b"me", "f1", sender)
    flood(log, 14)
    log.add([RankFinished(0, "ok", 1.0)])
    log.finish()
    assert not sender.told(CellEvents)[-1].is_last
    for number in range(KEPT_CELLS):
        log.begin(f"cell-{number + 2}", "In[2]", "", (0,))
        log.finish()
    assert sender.told(CellEvents)[-1].is_last
    assert sent(sender)[-1] == RankFinished(0, "ok", 1.0)


def test_a_result_weighs_what_it_carries():
    error = ErrorInfo("ValueError", "", ("x" * 3000,))
    assert 7000 < size_of(RankFinished(0, "raised", 1.0, "y" * 4000, error)) < 8000


# --- progress bars ---


def bar(n, rank=0, number=1, **more):
    return Output("progress", data={"bar": number, "n": n, **more})


def test_of_a_progress_bar_the_last_state_is_kept_only(log):
    log.add([text("before")])
    for n in range(1000):
        log.add([RankOutput((0,), (bar(n), bar(n, number=2)))])
        log.add([RankOutput((1,), (bar(n),))])
    log.add([text("after")])
    replay = log.replay("r1", "")
    assert replay.events == (
        text("before"),
        RankOutput((0,), (bar(999),)),
        RankOutput((0,), (bar(999, number=2),)),
        RankOutput((1,), (bar(999),)),
        text("after"),
    )
    assert replay.cell.kept_bytes == sum(map(size_of, replay.events))
    assert replay.omitted_bytes == 0


def test_bars_that_are_closed_or_have_given_way_leave_nothing_behind(log):
    for number in range(200):
        log.add([RankOutput((0,), (bar(1, number=number),))])
        log.add([RankOutput((0,), (bar(2, number=number, is_closed=True),))])
        log.add([RankOutput((1,), (bar(3, number=number),))])
    (cell,) = log._cells
    assert set(cell._bars) == {(1, str(number)) for number in range(200)}
    log.add([text("x" * 2 * KEPT_BYTES)])
    assert cell._bars == {}
    log.add([RankOutput((1,), (bar(4),))])
    assert RankOutput((1,), (bar(4),)) in log.replay("r1", "").events


def test_text_beside_a_progress_bar_stays(log):
    log.add([RankOutput((0,), (Output("stdout", "a"), bar(1), Output("stdout", "b")))])
    log.add([RankOutput((0,), (bar(2),))])
    kept = [output for event in log.replay("r1", "").events for output in event.outputs]
    assert kept == [Output("stdout", "a"), Output("stdout", "b"), bar(2)]


def test_a_follower_is_not_told_that_output_is_missing_where_a_bar_has_moved(log, sender):
    log.add([RankOutput((0,), (bar(1),))])
    log.add([RankOutput((0,), (bar(2),))])
    log.follow(b"me", "f1", sender)
    log.add([RankOutput((0,), (bar(3),))])
    log.flush()
    log.add([RankOutput((0,), (bar(4),))])
    log.add([RankOutput((0,), (bar(5),))])
    log.finish()
    assert sent(sender) == [RankOutput((0,), (bar(n),)) for n in (2, 3, 5)]
