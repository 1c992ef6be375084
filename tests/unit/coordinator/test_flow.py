import pytest
from fakes.outbox import RecordingOutbox

from jupyter_dist.coordinator.flow import TAIL_CHARACTERS, WINDOW_BYTES, EventFlow, size_of
from jupyter_dist.protocol.messages import CellEvents, CellNote, Output, RankFinished, RankOutput

LINE = "x" * 1023 + "\n"
MEGABYTE = LINE * 1024


@pytest.fixture
def outbox():
    return RecordingOutbox()


@pytest.fixture
def flow(outbox):
    return EventFlow(b"me", "cell-1", outbox)


def text(rank, content, kind="stdout"):
    return RankOutput(rank, (Output(kind, content),))


def fill(flow):
    """Send more than a client may have unread."""
    for _ in range(WINDOW_BYTES // len(MEGABYTE) + 1):
        flow.add(text(0, MEGABYTE))
    flow.flush()


def sent(outbox):
    return [event for batch in outbox.told(CellEvents, b"me") for event in batch.events]


def test_events_between_two_flushes_are_one_message(flow, outbox):
    flow.add(text(0, "a"))
    flow.add(text(1, "b"))
    flow.flush()
    flow.flush()
    (batch,) = outbox.told(CellEvents)
    assert batch.events == (text(0, "a"), text(1, "b"))
    assert batch.cell_id == "cell-1"


def test_a_batch_says_how_much_there_was_over_the_whole_cell(flow, outbox):
    for _ in range(2):
        flow.add(text(0, "abc"))
        flow.flush()
    first, second = outbox.told(CellEvents)
    assert first.size_bytes == size_of(text(0, "abc"))
    assert second.size_bytes == 2 * first.size_bytes


def test_a_client_that_keeps_up_gets_everything(flow, outbox):
    for _ in range(30):
        flow.add(text(0, MEGABYTE))
        flow.flush()
        flow.acknowledge(outbox.told(CellEvents)[-1].size_bytes)
    assert len(sent(outbox)) == 30


def test_a_client_that_does_not_read_gets_no_more_text(flow, outbox):
    fill(flow)
    before = len(sent(outbox))
    for _ in range(100):
        flow.add(text(0, MEGABYTE))
        flow.flush()
    assert len(sent(outbox)) == before


def test_a_client_that_lagged_gets_the_tail_and_the_count_of_lines_left_out(flow, outbox):
    fill(flow)
    outbox.forget()
    lines = 1000
    for number in range(lines):
        flow.add(text(0, f"{number}".ljust(1023) + "\n"))
    flow.finish()
    (event,) = sent(outbox)
    note, *kept = event.outputs
    assert note.kind == "note"
    assert note.text.startswith(f"[{lines - len(kept)} lines left out")
    assert sum(len(output.text) for output in kept) <= TAIL_CHARACTERS
    assert kept[-1].text.startswith("999 ")


def test_text_held_back_without_loss_comes_without_a_note(flow, outbox):
    fill(flow)
    outbox.forget()
    flow.add(text(0, "short\n"))
    flow.finish()
    assert sent(outbox) == [text(0, "short\n")]


def test_what_one_rank_says_does_not_push_out_what_another_said(flow, outbox):
    fill(flow)
    outbox.forget()
    flow.add(text(1, "precious\n"))
    for _ in range(10):
        flow.add(text(0, MEGABYTE))
    flow.finish()
    assert text(1, "precious\n") in sent(outbox)


def test_rich_output_is_never_held_back(flow, outbox):
    fill(flow)
    outbox.forget()
    figure = Output("display", data={"text/html": "<b>1</b>"})
    flow.add(RankOutput(0, (Output("stdout", "held\n"), figure)))
    flow.flush()
    assert sent(outbox) == [RankOutput(0, (figure,))]


def test_held_text_comes_before_the_result_of_its_rank(flow, outbox):
    fill(flow)
    outbox.forget()
    flow.add(text(0, "last words\n"))
    flow.add(RankFinished(0, "ok", 1.0))
    flow.flush()
    assert sent(outbox) == [text(0, "last words\n"), RankFinished(0, "ok", 1.0)]


def test_held_text_is_released_once_the_client_has_caught_up(flow, outbox):
    fill(flow)
    seen = outbox.told(CellEvents)[-1].size_bytes
    outbox.forget()
    flow.add(text(0, "held\n"))
    flow.flush()
    assert sent(outbox) == []
    flow.acknowledge(seen)
    flow.add(text(0, "next\n"))
    flow.flush()
    assert sent(outbox) == [text(0, "held\n"), text(0, "next\n")]


def test_an_older_acknowledgement_does_not_take_back_a_newer_one(flow, outbox):
    fill(flow)
    flow.acknowledge(outbox.told(CellEvents)[-1].size_bytes)
    flow.acknowledge(1)
    outbox.forget()
    flow.add(text(0, "a\n"))
    flow.flush()
    assert sent(outbox) == [text(0, "a\n")]


def test_a_figure_weighs_what_it_carries():
    figure = RankOutput(0, (Output("display", data={"image/png": "x" * 5000}),))
    assert 5000 < size_of(figure) < 6000
    assert 0 < size_of(CellNote("hello")) < 1000
