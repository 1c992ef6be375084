import pytest

from jupyter_dist.views.outputs.ansi import ansi_to_html, keep_colours, readable, strip_ansi
from jupyter_dist.views.outputs.lines import LINE_CAP, LineAssembler


@pytest.mark.parametrize(
    ("pieces", "done", "partial"),
    [
        (["a", "b\nc\nd"], ["ab", "c"], "d"),
        (["loading 100%\rdone"], [], "doneing 100%"),
        (["loading 100%\rdone", "\n"], ["doneing 100%"], ""),
        (["a\r\nb\r\n"], ["a", "b"], ""),
        (["abcdef\rX", "Y"], [], "XYcdef"),
        (["\r50%|#####|\r          \r"], [], ""),
        (["\r\x1b[31m10%\x1b[0m\r\x1b[32m20%\x1b[0m"], [], "\x1b[32m20%\x1b[0m"),
        (["abc\b\bX\n"], ["aX"], ""),
    ],
    ids=["fragments", "overwritten", "ended", "windows", "cursor", "cleared", "coloured", "erased"],
)
def test_lines_look_as_in_a_terminal(pieces, done, partial):
    lines = LineAssembler()
    assert [line for piece in pieces for line in lines.feed(piece)] == done
    assert lines.partial == partial
    assert lines.flush() == ([partial] if partial else [])
    assert lines.flush() == []


def test_a_progress_bar_stays_one_line_and_bounded():
    lines = LineAssembler()
    for percent in range(101):
        assert lines.feed(f"\r{percent:3}%|{'#' * (percent // 10):<10}| {percent}/100") == []
        assert lines.partial.startswith(f"{percent:3}%")
    assert len(lines._partial) < 200
    assert lines.feed("\n") == ["100%|##########| 100/100"]


@pytest.mark.parametrize("pieces", [["x" * 10_000 + "\n"], ["x" * 1000] * 10 + ["\n"]])
def test_long_lines_are_capped_in_words(pieces):
    lines = LineAssembler()
    done = [line for piece in pieces for line in lines.feed(piece)]
    assert done == ["x" * LINE_CAP + f"… ({10_000 - LINE_CAP:,} more characters)"]


def test_a_flood_without_newline_is_bounded():
    lines = LineAssembler()
    for _ in range(100):
        lines.feed("y" * 100_000)
    assert len(lines._partial) <= LINE_CAP


def test_colours_become_inline_styles():
    assert ansi_to_html("\x1b[1;31mred\x1b[0m plain") == (
        f'<span style="font-weight:bold;color:{readable("rgb(217,67,59)")}">red</span> plain'
    )
    assert "text-decoration:underline" in ansi_to_html("\x1b[4mu\x1b[24m")
    assert ansi_to_html("\x1b[4mu\x1b[24mv").endswith("</span>v")


def test_256_and_true_colours_are_understood():
    assert f"color:{readable('rgb(255,0,0)')}" in ansi_to_html("\x1b[38;5;196mx")
    assert f"color:{readable('rgb(8,8,8)')}" in ansi_to_html("\x1b[38;5;232mx")
    assert '"color:rgb(1,2,3)"' in ansi_to_html("\x1b[31;38;2;1;2;3mx")
    assert readable("rgb(217,67,59)") in ansi_to_html("\x1b[38;2;1;2;3;31mx")
    assert "background-color:rgba(1,2,3,0.35)" in ansi_to_html("\x1b[48;2;1;2;3mx")
    assert ansi_to_html("\x1b[31mx\x1b[39my").endswith("</span>y")


@pytest.mark.parametrize("text", ["\x1b[38mx", "\x1b[38;5mx", "\x1b[;mx", "\x1b[999mx", "x\x1b"])
def test_broken_sequences_harm_nothing(text):
    assert ansi_to_html(text) == "x"


def test_markup_is_escaped_with_and_without_colours():
    assert ansi_to_html("<b>&") == "&lt;b&gt;&amp;"
    assert "&lt;script&gt;" in ansi_to_html("\x1b[31m<script>\x1b[0m")


def test_cursor_movements_titles_and_controls_are_dropped():
    text = "a\x1b[2K\x1b[1Ab\x1b]0;title\x07c\x00\x07\td"
    assert strip_ansi(text) == "abc\td"
    assert ansi_to_html(text) == "abc\td"
    assert keep_colours("a\x1b[2K\x1b[31mb") == "a\x1b[31mb\x1b[0m"
