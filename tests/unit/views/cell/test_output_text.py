from jupyter_dist.cluster.result import RankResult
from jupyter_dist.protocol.messages import ErrorInfo, Output
from jupyter_dist.views.cell.cell_picture import CellPicture, CellRecord, ValueGroup, end_of
from jupyter_dist.views.cell.output_text import (
    cap_text,
    render_text,
    value_lines,
)
from jupyter_dist.views.outputs.blocks import Block
from jupyter_dist.views.outputs.grouping import Entry, Row
from jupyter_dist.views.outputs.rich_outputs import read_bundle


def value(ranks, text):
    return ValueGroup(ranks, read_bundle({"text/plain": text}))


def text_of(*results):
    """Return the text of a finished cell in which ranks said and ended so."""
    record = CellRecord(len(results))
    for each in results:
        record.take_output([each.rank], [Output("stdout", each.stdout)])
        record.take_finished(end_of(each))
    return render_text(record.final_picture())


def test_an_error_without_a_traceback_of_its_own_is_said_once():
    text = "3 (the rank goes on; %dist_stop ends the cluster)"
    error = ErrorInfo("SystemExit", text, (f"SystemExit: {text}",))
    results = [RankResult(rank=rank, status="raised", error=error) for rank in range(2)]
    assert text_of(*results) == f"SystemExit on ranks 0-1 (2): {text}\n"


def test_colours_go_in_a_saved_text():
    block = Block([], 0, [Row((0,), Entry(0, "stdout", "\x1b[31mred\x1b[0m\x1b[2J"))])
    assert render_text(CellPicture(blocks=[block])) == "[0] red\n"


def test_nothing_to_say_is_an_empty_text():
    assert render_text(CellPicture()) == ""


def test_different_values_stand_on_their_own_lines_in_rank_order():
    assert value_lines([value((0, 2), "'a'"), value((1,), "'b'")]) == [
        "Out[0,2]: 'a'",
        "Out[1]: 'b'",
    ]


def test_numbers_share_one_line():
    groups = [value((0,), "0.5"), value((1, 2), "-1e-05"), value((3,), "np.float64(nan)")]
    assert value_lines(groups) == ["Out[0-3]: [0] 0.5  [1-2] -1e-05  [3] np.float64(nan)"]


def test_a_value_of_several_lines_starts_below_its_label():
    assert value_lines([value((0,), "a\nb")]) == ["Out[0]:", "a", "b"]


def test_long_values_are_cut_in_the_middle():
    assert cap_text("abc", 3) == "abc"
    text = cap_text("a" * 100 + "z" * 200, 30)
    assert text.startswith("a" * 10 + "\n")
    assert text.endswith("z" * 20)
    assert "270 characters left out" in text


def test_each_line_of_a_note_is_marked_as_no_output():
    notes = ("rank 1 is busy\nrank 2 is busy", "once more")
    assert render_text(CellPicture(notes=notes)).splitlines() == [
        "· rank 1 is busy",
        "· rank 2 is busy",
        "· once more",
    ]


def test_output_values_and_errors_are_told_in_this_order():
    error = ErrorInfo("ValueError", "bad", ("Cell In[1], line 1", "ValueError: bad"))
    lost = ErrorInfo("RankLost", "killed by SIGKILL")
    text = text_of(
        RankResult(rank=0, status="ok", stdout="hi\n", value_repr="'v'"),
        RankResult(rank=1, status="raised", stdout="hi\n", error=error),
        RankResult(rank=2, status="lost", stdout="oh\n", error=lost),
    )
    assert text.splitlines() == [
        "[0-1] hi",
        "[2]   oh",
        "Out[0]: 'v'",
        "ValueError on rank 1: bad",
        "Cell In[1], line 1",
        "ValueError: bad",
        "RankLost on rank 2: killed by SIGKILL",
    ]
