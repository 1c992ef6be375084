import pytest
from fakes.outbox import RecordingSender
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.coordinator.cells import event_flow
from jupyter_dist.coordinator.cells.event_flow import (
    TAIL_CHARACTERS,
    WINDOW_BYTES,
    EventBatch,
    EventFlow,
    HeldText,
    size_of,
)
from jupyter_dist.protocol.messages import (
    OMITTED_LINES,
    CellEvents,
    CellNote,
    Output,
    RankFinished,
    RankOutput,
    RanksOk,
)

LINE = "x" * 1023 + "\n"
MEGABYTE = LINE * 1024


@pytest.fixture
def sender():
    return RecordingSender()


@pytest.fixture
def flow(sender):
    return EventFlow(b"me", "cell-1", sender, "r1", (0, 1))


@pytest.fixture
def full(flow, sender):
    """A flow to a client that has as much unread as it may have, and will see nothing before."""
    for _ in range(WINDOW_BYTES // len(MEGABYTE) + 1):
        flow.add([text(0, MEGABYTE)])
    flow.flush()
    sender.forget()
    return flow


def text(rank, content, kind="stdout"):
    return RankOutput((rank,), (Output(kind, content),))


def sent(sender):
    return sender.cell_events(client=b"me")


def test_events_between_two_flushes_are_one_message(flow, sender):
    flow.add([text(0, "a")])
    flow.add([text(1, "b")])
    flow.flush()
    flow.flush()
    (batch,) = sender.told(CellEvents)
    assert batch.events == (text(0, "a"), text(1, "b"))
    assert batch.cell_id == "cell-1"


def test_a_batch_says_how_much_there_was_over_the_whole_cell(flow, sender):
    for _ in range(2):
        flow.add([text(0, "abc")])
        flow.flush()
    first, second = sender.told(CellEvents)
    assert first.size_bytes == size_of(text(0, "abc"))
    assert second.size_bytes == 2 * first.size_bytes


def test_a_client_that_keeps_up_gets_everything(flow, sender):
    for _ in range(30):
        flow.add([text(0, MEGABYTE)])
        flow.flush()
        flow.acknowledge(sender.told(CellEvents)[-1].size_bytes)
    assert len(sent(sender)) == 30


def test_a_client_that_does_not_read_gets_no_more_text(full, sender):
    for _ in range(100):
        full.add([text(0, MEGABYTE)])
        full.flush()
    assert sent(sender) == []


def test_a_client_that_lagged_gets_the_tail_and_the_count_of_lines_left_out(full, sender):
    lines = 1000
    for number in range(lines):
        full.add([text(0, f"{number}".ljust(1023) + "\n")])
    full.finish()
    (event,) = sent(sender)
    note, *kept = event.outputs
    assert note.kind == "note"
    assert note.text.startswith(f"[{lines - len(kept)} lines ")
    assert sum(len(output.text) for output in kept) <= TAIL_CHARACTERS
    assert kept[-1].text.startswith("999 ")


@given(st.lists(st.text("abc\n", max_size=8), max_size=40))
def test_the_tail_has_whole_lines_and_all_others_are_counted(pieces):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(event_flow, "TAIL_CHARACTERS", 20)
        held = HeldText()
        for piece in pieces:
            held.take([Output("stdout", piece)])
        outputs = held.outputs()
    notes = [output.data[OMITTED_LINES] for output in outputs if output.kind == "note"]
    tail = "".join(output.text for output in outputs if output.kind == "stdout")
    rest = "".join("".join(pieces).splitlines(keepends=True)[sum(notes) :])
    assert rest.endswith(tail)
    assert bool(notes) is (tail != "".join(pieces))
    if tail != rest:
        assert "\n" not in rest.removesuffix(tail), "it is the end of one line"
        assert "\n" not in tail, "which has no end yet"


def test_text_held_back_without_loss_comes_without_a_note(full, sender):
    full.add([text(0, "short\n")])
    full.finish()
    assert sent(sender) == [text(0, "short\n")]


def test_what_one_rank_says_does_not_push_out_what_another_said(full, sender):
    full.add([text(1, "precious\n")])
    for _ in range(10):
        full.add([text(0, MEGABYTE)])
    full.finish()
    assert text(1, "precious\n") in sent(sender)


def test_rich_output_is_never_held_back(full, sender):
    figure = Output("display", data={"text/html": "<b>1</b>"})
    full.add([RankOutput((0,), (Output("stdout", "held\n"), figure))])
    full.flush()
    assert sent(sender) == [RankOutput((0,), (figure,))]


def test_held_text_comes_before_the_result_of_its_rank(full, sender):
    full.add([text(0, "last words\n")])
    full.add([RankFinished(0, "ok", 1.0)])
    full.flush()
    assert sent(sender) == [text(0, "last words\n"), RankFinished(0, "ok", 1.0)]


def test_held_text_is_released_once_the_client_has_caught_up(full, sender):
    full.add([text(0, "held\n")])
    full.flush()
    assert sent(sender) == []
    full.acknowledge(2 * WINDOW_BYTES)
    full.acknowledge(1)  # an older one takes nothing back
    full.add([text(0, "next\n")])
    full.flush()
    assert sent(sender) == [text(0, "held\n"), text(0, "next\n")]


def test_a_figure_weighs_what_it_carries():
    figure = RankOutput((0,), (Output("display", data={"image/png": "x" * 5000}),))
    assert 5000 < size_of(figure) < 6000
    assert 0 < size_of(CellNote("hello")) < 1000


def batch_of(*events):
    batch = EventBatch()
    assert batch.is_empty
    for event in events:
        batch.add(event)
    assert not batch.is_empty
    return batch.events()


def test_what_ranks_say_alike_is_one_event_of_them_all():
    said = [text(rank, "a") for rank in (2, 0, 1)]
    assert batch_of(*said) == [RankOutput((0, 1, 2), said[0].outputs)]


def test_ranks_that_are_done_are_one_event_behind_all_that_they_said():
    ok = [RankFinished(rank, "ok", rank / 2) for rank in range(3)]
    value, raised = RankFinished(3, "ok", 1.0, "42"), RankFinished(4, "raised", 1.0)
    told = batch_of(text(2, "a"), ok[2], text(0, "a"), value, ok[0], raised, text(1, "b"), ok[1])
    assert told == [
        RankOutput((0, 2), text(2, "a").outputs),
        value,
        raised,
        text(1, "b"),
        RanksOk((2, 0, 1), (1.0, 0.0, 0.5)),
    ]
    assert told[-1].one_by_one() == [ok[2], ok[0], ok[1]]


def test_ranks_that_are_done_before_a_note_are_told_before_it():
    ok, note = [RankFinished(rank, "ok", 1.0) for rank in range(2)], CellNote("rank 1 is busy")
    assert batch_of(ok[0], note, ok[1]) == [RanksOk((0,), (1.0,)), note, RanksOk((1,), (1.0,))]


def test_each_rank_keeps_its_own_order():
    events = [text(0, "a"), text(0, "b"), text(1, "b"), text(1, "a"), text(0, "a")]
    assert batch_of(*events) == [
        text(0, "a"),
        RankOutput((0, 1), events[1].outputs),
        RankOutput((0, 1), events[0].outputs),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (text(0, "a"), text(1, "a", "stderr")),
        (RankOutput((0,), (Output("stdout", "a\nb\n", is_block=True),)), text(1, "a\nb\n")),
        (
            RankOutput((0,), (Output("progress", data={"n": 1}),)),
            RankOutput((1,), (Output("progress", data={"n": 1}),)),
        ),
    ],
    ids=["another stream", "a block", "not text"],
)
def test_what_is_not_the_same_text_stays_apart(first, second):
    assert batch_of(first, second) == [first, second]


def test_what_is_said_behind_a_note_stays_there():
    events = [text(0, "a"), CellNote("rank 1 is busy"), text(1, "a")]
    assert batch_of(*events) == events


def test_what_is_held_back_of_several_ranks_is_told_of_each(full, sender):
    full.add([RankOutput((0, 1), (Output("stdout", "held\n"),))])
    full.add([RanksOk((1,), (1.0,))])
    full.finish()
    assert sent(sender) == [text(1, "held\n"), RankFinished(1, "ok", 1.0), text(0, "held\n")]
