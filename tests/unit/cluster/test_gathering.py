import signal
import threading

import pytest
from fakes.cell_watcher import Watcher

from jupyter_dist.cluster import spmd
from jupyter_dist.cluster.spmd import ACKNOWLEDGE_BYTES, Gathering, check_syntax, run_cell
from jupyter_dist.errors import CellRefused, ErrorCode, WireError
from jupyter_dist.protocol.messages import (
    OMITTED_LINES,
    CellEvents,
    CellNote,
    CellWaiting,
    ErrorInfo,
    Output,
    OutputSeen,
    RankFinished,
    RankOutput,
    RanksOk,
    Refused,
    SubmitCell,
    WithdrawCell,
)


@pytest.fixture
def watcher():
    return Watcher()


@pytest.fixture
def gathering(watcher):
    """A gathering whose cell was admitted on ranks 0 and 2."""
    gathering = Gathering(SubmitCell("r1", "x"), watcher)
    gathering.take(CellEvents("cell-1", (), request_id="r1", ranks=(0, 2)))
    return gathering


def tell(gathering, *events, size=0, cell_id="cell-1"):
    gathering.take(CellEvents(cell_id, events, size))


def text(rank, content, kind="stdout"):
    return RankOutput((rank,), (Output(kind, content),))


def finish(gathering):
    tell(gathering, RanksOk((0, 2), (1.0, 0.5)))
    gathering.take(CellEvents("cell-1", (), is_last=True))
    return gathering.result()


def test_text_of_each_rank_and_stream_is_put_together(gathering):
    tell(gathering, text(0, "a\n"), text(2, "b\n"))
    tell(gathering, text(0, "c\n"), text(0, "err\n", "stderr"))
    result = finish(gathering)
    assert (result.rank(0).stdout, result.rank(0).stderr) == ("a\nc\n", "err\n")
    assert (result.rank(2).stdout, result.rank(2).stderr) == ("b\n", "")


def test_rich_output_is_kept_in_order_and_notes_are_not(gathering):
    kinds = ("display", "note", "update_display", "value", "clear_output")
    tell(gathering, RankOutput((0,), tuple(Output(kind) for kind in kinds)))
    shown = finish(gathering).rank(0).displays
    assert [output.kind for output in shown] == ["display", "update_display", "value"]


def test_how_a_rank_ended_is_in_its_result(gathering):
    boom = ErrorInfo("ValueError", "boom")
    tell(gathering, RankFinished(0, "raised", 2.5, None, boom), RankFinished(2, "ok", 1.0, "42"))
    gathering.take(CellEvents("cell-1", (), is_last=True))
    result = gathering.result()
    first = result.rank(0)
    assert (first.status, first.error, first.duration_s) == ("raised", boom, 2.5)
    assert result.rank(2).value_repr == "42"


def test_it_is_over_with_the_cell_not_with_the_last_rank(gathering):
    tell(gathering, RankFinished(0, "ok", 1.0), RankFinished(2, "ok", 1.0))
    assert not gathering.is_over
    gathering.take(CellEvents("cell-1", (), is_last=True))
    assert gathering.is_over


def test_the_watcher_sees_everything_as_it_happens(watcher):
    gathering = Gathering(SubmitCell("r1", "x"), watcher)
    gathering.take(CellWaiting("r1", "busy"))
    gathering.take(CellEvents("cell-1", (), request_id="r1", ranks=(0, 2)))
    tell(gathering, text(2, "hi\n"), CellNote("rank 0 waits"), RankFinished(2, "raised", 1.0))
    tell(gathering, RanksOk((0,), (1.0,)))
    assert watcher.seen == ["busy", ((2,), ["hi\n"]), "rank 0 waits", (2, "raised"), (0, "ok")]


def test_a_gathering_needs_no_watcher():
    gathering = Gathering(SubmitCell("r1", "x"), None)
    gathering.take(CellWaiting("r1", "waits"))
    gathering.take(CellEvents("cell-1", (), request_id="r1", ranks=(0, 2)))
    tell(gathering, text(0, "a"), CellNote("note"))
    assert finish(gathering).rank(0).stdout == "a"


@pytest.mark.parametrize("is_admitted", [False, True])
def test_messages_left_over_from_an_earlier_cell_are_dropped(watcher, is_admitted):
    gathering = Gathering(SubmitCell("r1", "x"), watcher)
    if is_admitted:
        gathering.take(CellEvents("cell-1", (), request_id="r1", ranks=(0, 2)))
    tell(gathering, text(0, "old\n"), cell_id="cell-0")
    gathering.take(CellEvents("cell-0", (), is_last=True))
    gathering.take(CellWaiting("r0", "old"))
    gathering.take(Refused("r0", ErrorCode.CELL_REFUSED, "old"))
    assert not gathering.is_over
    assert watcher.seen == []


@pytest.mark.parametrize(
    ("number", "code", "error"),
    [
        ("r1", ErrorCode.CELL_REFUSED, CellRefused),
        # The coordinator cannot know the id of a request that it could not decode.
        ("", ErrorCode.MALFORMED_MESSAGE, WireError),
    ],
)
def test_a_refusal_is_raised(number, code, error):
    with pytest.raises(error, match="rank 2"):
        Gathering(SubmitCell("r1", "x"), None).take(Refused(number, code, "rank 2"))


def test_much_output_is_acknowledged_now_and_then(gathering):
    tell(gathering, text(0, "a"), size=ACKNOWLEDGE_BYTES)
    assert gathering.acknowledgement is None
    tell(gathering, text(0, "a"), size=ACKNOWLEDGE_BYTES + 1)
    assert gathering.acknowledgement == OutputSeen("cell-1", ACKNOWLEDGE_BYTES + 1)
    gathering.acknowledgement = None
    tell(gathering, text(0, "a"), size=ACKNOWLEDGE_BYTES + 2)
    assert gathering.acknowledgement is None


def test_of_endless_text_the_tail_is_kept(gathering, monkeypatch):
    monkeypatch.setattr(spmd, "KEPT_CHARACTERS", 100)
    for number in range(1000):
        tell(gathering, text(0, f"{number:09}\n"))
    result = finish(gathering).rank(0)
    said, _, kept = result.stdout.partition("\n")
    assert (said,) == result.omitted
    assert "9,900 " in said
    assert len(kept) == 100
    assert kept.endswith("000000999\n")


def test_lines_that_a_slow_client_lacks_are_told_at_their_place(gathering, watcher):
    note = Output("note", "[7 lines]", {OMITTED_LINES: 7})
    tell(gathering, text(0, "a\nb"), RankOutput((0,), (note, Output("stdout", "c\n"))))
    tell(gathering, text(2, "d\n"), RankOutput((2,), (Output("note", "which is not of that"),)))
    result = finish(gathering)
    assert (result.rank(0).stdout, result.rank(0).omitted) == (
        "a\nb\n[7 lines]\nc\n",
        ("[7 lines]",),
    )
    assert (result.rank(2).stdout, result.rank(2).omitted) == ("d\n", ())


def test_what_all_ranks_lack_is_told_of_each(gathering, watcher):
    tell(gathering, CellNote("older output", omits_output=True), CellNote("who waits for whom"))
    assert [(each.stdout, each.omitted) for each in finish(gathering)] == [
        ("[older output]\n", ("[older output]",))
    ] * 2
    assert "older output" in watcher.seen


def test_what_ranks_say_can_be_left_to_the_watcher(watcher):
    gathering = Gathering(SubmitCell("r1", "x"), watcher, keeps_output=False)
    gathering.take(CellEvents("cell-1", (), request_id="r1", ranks=(0, 2)))
    tell(
        gathering, text(0, "a\n"), RankOutput((2,), (Output("display", data={"text/plain": "b"}),))
    )
    result = finish(gathering)
    assert [(each.status, each.stdout, each.displays) for each in result] == [("ok", "", ())] * 2
    assert watcher.seen[:2] == [((0,), ["a\n"]), ((2,), [""])]


class PressedLine:
    """A line on which Ctrl-C is pressed so many times within each slice."""

    is_far = False

    def __init__(self, slices):
        self.lock = threading.RLock()
        self.sent = []
        self._slices = iter(slices)

    def send(self, message):
        self.sent.append(message)

    def receive(self, *, waits_out_breaks):
        messages, presses = next(self._slices)
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)
        return [(message, []) for message in messages]


CELL = SubmitCell("r1", "x")
ADMITTED = CellEvents("cell-1", (), request_id="r1", ranks=(0,))
OVER = CellEvents("cell-1", (RankFinished(0, "interrupted", 1.0),), is_last=True)


@pytest.mark.parametrize("slices", [[([ADMITTED], 2)], [([ADMITTED], 1), ([], 1)]])
def test_two_presses_interrupt_the_ranks_once_within_one_slice_too(watcher, slices):
    line = PressedLine(slices)
    with pytest.raises(KeyboardInterrupt, match="%dist_status"):
        run_cell(line, CELL, watcher)
    assert line.sent == [CELL, WithdrawCell("r1")]


def test_what_a_press_does_is_told_as_it_is(watcher):
    run_cell(PressedLine([([ADMITTED], 1), ([OVER], 0)]), CELL, watcher)
    sent = watcher.seen[0]
    refusal = Refused("r1", ErrorCode.CELL_REFUSED, "withdrawn")
    waiting = PressedLine([([CellWaiting("r1", "waits")], 1), ([refusal], 0)])
    watcher.seen.clear()
    with pytest.raises(CellRefused, match="withdrawn"):
        run_cell(waiting, CELL, watcher)
    taken_back = watcher.seen[1]
    assert ("ranks" in sent, "ranks" in taken_back) == (True, False)
    assert sent.split("; ")[1] == taken_back.split("; ")[1]


@pytest.mark.parametrize(
    "code", ["x = 1", "%time x = 1", "!ls", "await thing()", "%%time\nx", "x = 1;", ""]
)
def test_what_a_rank_can_run_passes_the_syntax_check(code):
    check_syntax(code, 1)


def test_a_syntax_error_is_found_before_anything_is_sent():
    with pytest.raises(SyntaxError) as caught:
        check_syntax("x = 1\nif x\n    y", 7)
    assert (caught.value.filename, caught.value.lineno) == ("In[7]", 2)
