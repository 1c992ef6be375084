import re

import pytest

from jupyter_dist.protocol.messages import ErrorInfo, RankFinished
from jupyter_dist.views.cell.cell_picture import CellPicture, CellRecord, ValueGroup
from jupyter_dist.views.cell.output_html import render_html, saved_bundle
from jupyter_dist.views.outputs.blocks import Block, fit_block
from jupyter_dist.views.outputs.grouping import Entry, Row, group_errors
from jupyter_dist.views.outputs.rich_outputs import read_bundle


def line(ranks, text, kind="stdout"):
    return Row(ranks, Entry(0, kind, text))


def rich(ranks, data, metadata=None):
    output = read_bundle(data, metadata)
    return Row(ranks, Entry(0, "display", output.fingerprint, output))


def page(*rows, **more):
    return render_html(CellPicture(blocks=[Block([], 0, list(rows))], **more))


def copied(markup):
    """What a person gets who selects all and copies."""
    text = re.sub(r"<[^>]*>", "", markup)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


@pytest.mark.parametrize("header", ["", "▶ 2 running"])
def test_each_line_of_a_note_stands_on_its_own(header):
    markup = page(notes=("rank 1 <is> busy\nrank 2 is busy",), header=header)
    lines = [copied(piece).strip() for piece in markup.split("</div>")]
    assert [text for text in lines if text] == [
        f"{header} · rank 1 <is> busy".strip(),
        "· rank 2 is busy",
    ]


def test_prefixes_are_real_text_of_one_width():
    assert copied(page(line((0, 1), "a"), line((0,), "b"))) == "[0-1] a\n[0]   b\n"


def test_only_tags_that_an_untrusted_notebook_shows_are_used():
    finished = {0: RankFinished(0, "lost", 1.0), 1: RankFinished(1, "raised", 1.0)}
    markup = page(
        line((0,), "\x1b[31m<script>alert(1)</script>"),
        rich((0,), {"image/svg+xml": "<svg><script/></svg>"}),
        rich((0,), {"image/png": "QUJD"}),
        errors=group_errors(finished),
        notes=("<style>",),
        states={"ok": (0, 1), "lost": (2,)},
    )
    tags = set(re.findall(r"<([a-z]+)", markup))
    assert tags <= {"div", "pre", "span", "details", "summary", "b", "i", "img"}
    assert "class=" not in markup


def test_stderr_and_stdout_look_different_and_copy_alike():
    markup = page(line((0,), "x", "stderr"))
    assert "background-color" in markup
    assert copied(markup) == "[0] x\n"


def test_text_colour_is_left_to_the_theme():
    assert not re.search(r"[^-]color:", page(line((0,), "x")))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"text/html": "<b>x</b>", "text/plain": "x"}, "<div><b>x</b></div>"),
        ({"text/markdown": "# <x>"}, "# &lt;x&gt;"),
        ({"text/latex": "$x<y$"}, "<div>$x&lt;y$</div>"),
        ({"application/json": {"a": [1]}}, '"a": ['),
        ({"image/jpeg": b"ABC"}, "data:image/jpeg;base64,QUJD"),
        ({"text/html": ["<b>", "x</b>"]}, "<b>x</b>"),
    ],
)
def test_each_kind_of_rich_output_is_shown(data, expected):
    assert expected in page(rich((0,), data))


def test_the_size_of_an_image_is_kept():
    row = rich((0,), {"image/png": "QUJD"}, {"image/png": {"width": 30, "height": 20}})
    assert 'width="30" height="20"' in page(row)


def test_rich_output_that_is_too_much_is_named_instead():
    row = rich((0,), {"image/png": "A" * (9 * 2**20)})
    assert "image/png of 9 MiB left out" in page(row)


def test_rich_values_have_their_label():
    value = read_bundle({"text/html": "<table></table>", "text/plain": "frame"})
    markup = render_html(CellPicture(values=[ValueGroup((0, 1), value)]))
    assert copied(markup) == "Out[0-1]:"
    assert "<table></table>" in markup


def test_the_gap_is_said_with_the_place_of_the_log():
    picture = CellPicture(
        blocks=[Block([line((0,), "a")], 1234, [line((0,), "z")])], log_hint="a:/<log>"
    )
    assert copied(render_html(picture)) == (
        "[0] a\n… 1,234 lines left out; the full log is at a:/<log>[0] z\n"
    )


def test_the_strip_has_a_box_for_each_rank():
    markup = render_html(CellPicture(states={"ok": tuple(range(99)), "raised": (99,)}))
    assert markup.count("■") == 100
    assert 'title="99: raised"' in markup
    assert "99 ok · 1 raised" in markup


def test_above_512_ranks_a_box_is_several_and_has_the_worst_of_their_states():
    well = tuple(rank for rank in range(4096) if rank not in (77, 78, 4000))
    markup = render_html(CellPicture(states={"ok": well, "raised": (77, 4000), "lost": (78,)}))
    assert markup.count("■") == 512 + 1
    assert 'title="78: lost"' in markup
    assert 'title="4000: raised"' in markup
    assert "4093 ok · 2 raised · 1 lost · ■: the worst of 8 ranks" in markup


def test_many_groups_are_folded_after_the_first_eight():
    blocks = [Block([], 0, [line((rank,), str(k)) for k in range(10)]) for rank in range(12)]
    markup = render_html(CellPicture(blocks=blocks))
    assert "<summary>4 more groups: ranks 8-11</summary>" in markup


def test_each_of_several_groups_can_be_folded_away():
    blocks = [
        Block([], 0, [line((3,), str(k)) for k in range(5)]),
        Block([], 7, [line((0, 1, 2), str(k)) for k in range(5)]),
        Block([], 0, [line((4,), "short")]),
    ]
    markup = render_html(CellPicture(blocks=blocks))
    headings = re.findall(r"<details( open)?><summary[^>]*>([^<]*)</summary>", markup)
    assert headings == [(" open", "rank 3 · 5 lines"), (" open", "ranks 0-2 · 12 lines")]


def test_of_many_long_groups_only_the_first_are_open():
    blocks = [Block([], 0, [line((rank,), str(k)) for k in range(20)]) for rank in range(10)]
    markup = render_html(CellPicture(blocks=blocks))
    assert markup.count("<details open>") == 8
    assert markup.count("<details>") == 3  # one around the two that are folded


def test_the_lines_of_one_group_alone_stand_open():
    assert "<details" not in page(*[line((0, 1), str(k)) for k in range(20)])


def test_a_group_with_a_shortened_prefix_names_all_its_ranks():
    ranks = tuple(range(0, 64, 2))
    assert copied(page(line(ranks, "x"))).startswith("ranks 0,2,4,6,8,10,12,")


def test_huge_tracebacks_are_cut_in_the_middle():
    error = ErrorInfo("E", "x", ("first line", *["frame"] * 10_000, "last line"))
    picture = CellPicture(errors=group_errors({0: RankFinished(0, "raised", 1.0, None, error)}))
    bundle = saved_bundle(picture)
    assert len(bundle["text/html"]) < 10_000
    assert "first line" in bundle["text/html"]
    assert "last line" in bundle["text/html"]


def test_hundreds_of_different_errors_are_counted():
    finished = {
        rank: RankFinished(rank, "raised", 1.0, None, ErrorInfo(f"E{rank}", "x" * 1000))
        for rank in range(200)
    }
    bundle = saved_bundle(CellPicture(errors=group_errors(finished)))
    assert "E23 on rank 23" in bundle["text/html"]
    for text in bundle.values():
        assert "… and 176 more kinds of error on ranks 24-199" in text
        assert len(text) < 30_000


def test_fitting_keeps_head_tail_and_rich_rows():
    picture = rich((0,), {"image/png": "QUJD"})
    rows = [line((0, 1), f"{k:04}") for k in range(500)]
    rows.insert(250, picture)
    block = fit_block(Block([], 0, rows), 400, lambda row: 0 if row.entry.rich else 4)
    assert block.before[0].entry.content == "0000"
    assert block.after[-1].entry.content == "0499"
    assert picture in block.after
    kept = len(block.before) + len(block.after) - 1
    assert kept == 100
    assert block.left_out == 2 * (500 - kept)


def test_a_block_that_fits_is_left_alone():
    rows = [line((0,), "a"), line((0,), "b")]
    assert fit_block(Block([], 0, rows), 100, lambda _: 10) == Block([], 0, rows)


WIDGET = {
    "text/plain": "IntSlider(value=3, description='lr')",
    "application/vnd.jupyter.widget-view+json": {"model_id": "0f"},
}


def test_a_widget_of_a_rank_is_named_with_its_value_and_said_not_to_be_live():
    output = read_bundle(WIDGET)
    assert output.is_text
    assert output.payload.startswith(WIDGET["text/plain"])
    assert "not live" in output.payload
    assert read_bundle(WIDGET | {"text/plain": ""}).payload.startswith("a widget · ")
    assert read_bundle(WIDGET | {"text/html": "<b>x</b>"}).payload == "<b>x</b>"


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["[<X at 0x0cc650>]", "[<X at 0x063d90>]"], [((0, 1), "[<X at 0x…>]")]),
        (["<X at 0x12>", "<X at 0x12>"], [((0, 1), "<X at 0x12>")]),
        (["<X at 0x12>", "<Y at 0x12>"], [((0,), "<X at 0x12>"), ((1,), "<Y at 0x12>")]),
    ],
)
def test_values_that_differ_in_nothing_but_an_address_are_one(texts, values):
    record = CellRecord(len(texts))
    for rank, text in enumerate(texts):
        record.take_finished(RankFinished(rank, "ok", 1.0, value_repr=text))
    assert [(group.ranks, group.value.stand_in) for group in record.values()] == values
