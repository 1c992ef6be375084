"""Whatever ranks say, it is shown or told: no view raises, and no line of a good cell is lost."""

import io
import json
from contextlib import suppress
from unittest.mock import Mock

import pytest
from fakes.notebook import StrictNotebook
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.errors import CellFailed
from jupyter_dist.protocol.messages import ErrorInfo, Output, RankFinished
from jupyter_dist.protocol.plain_values import to_text
from jupyter_dist.server.cell_feed import RankLines
from jupyter_dist.server.page_messages import CellSeen, Tail
from jupyter_dist.views.cell import output_html
from jupyter_dist.views.cell.cell_output import CellOutputView
from jupyter_dist.views.cell.cell_picture import CellRecord
from jupyter_dist.views.cell.output_html import live_bundle, saved_bundle
from jupyter_dist.views.cell.terminal import Terminal, write_text
from jupyter_dist.views.outputs.rich_outputs import read_bundle
from tests.rubbish import BUNDLES, RUBBISH, SIZES, TEXT

ANSI = st.lists(
    st.sampled_from(
        [
            "\x1b[",
            "\x1b",
            "31m",
            "\x1b[38;2;999;1m",
            "\x1b[38;5",
            "m",
            ";;:",
            "9" * 20,
            "\x1b]0;title",
            "\x07",
            "\r",
            "\b\b",
            "\n",
            "File In[3]:7",
            "</pre><script>",
            "\ud800",
            "\x9b",
            "ä",
        ]
    ),
    max_size=8,
).map("".join)
"""Broken escape sequences, and what else terminals and pages trip over."""
NUMBERS = st.floats() | st.integers(-(2**70), 2**70) | RUBBISH
BARS = st.fixed_dictionaries(
    {},
    optional={
        "bar": st.integers(0, 2) | RUBBISH,
        "n": NUMBERS,
        "total": NUMBERS,
        "elapsed_s": NUMBERS,
        "initial": NUMBERS,
        "divisor": st.sampled_from([0, 1, 1000, -1, 1024]),
        "description": ANSI | RUBBISH,
        "postfix": ANSI,
        "unit": TEXT,
        "place": TEXT,
        "is_closed": st.booleans(),
        "vanishes": st.booleans(),
    },
)
SOUND_BARS = st.builds(lambda more: {"bar": 1, "n": 1, "total": 2, "elapsed_s": 1.0, **more}, BARS)
DISPLAYS = ("display", "update_display", "value")
OUTPUTS = (
    st.builds(Output, st.sampled_from(["stdout", "stderr", "note"]), ANSI)
    | st.builds(
        Output,
        st.sampled_from(DISPLAYS),
        st.just(""),
        BUNDLES | RUBBISH,
        SIZES | RUBBISH,
        st.sampled_from(["", "a"]),
    )
    | st.builds(Output, st.just("progress"), st.just(""), BARS | SOUND_BARS | RUBBISH)
    | st.builds(Output, st.just("clear_output"), st.just(""), RUBBISH)
    | st.builds(Output, TEXT, TEXT)
)
ERRORS = st.none() | st.builds(
    ErrorInfo, TEXT, ANSI, st.lists(ANSI, max_size=3).map(tuple), st.integers(-1, 4)
)
STATUSES = st.sampled_from(["ok", "raised", "interrupted", "peer_failed", "lost", "strange"])
ENDS = st.tuples(STATUSES, st.floats(), ERRORS, st.none() | ANSI)
SPEECH = st.lists(st.tuples(st.integers(0, 2), st.lists(OUTPUTS, max_size=3)), max_size=5)


def ended(ends):
    return [RankFinished(rank, *end[:2], end[3], end[2]) for rank, end in enumerate(ends)]


def play(view, speech, ends):
    """Play a cell in which each rank has printed a line before and after all that."""
    for rank in range(3):
        view.on_output([rank], [Output("stdout", f"first {rank}\n")])
    view.on_tick()
    for rank, outputs in speech:
        view.on_output([rank], outputs)
        view.on_tick()
    view.on_note("a note \ud800 \x1b[3")
    for rank in range(3):
        view.on_output([rank], [Output("stdout", f"\nlast {rank}\n")])
    for each in ended(ends):
        view.on_finished(each)
    view.on_tick()
    view.finish(None)


def clock():
    """A clock on which every redraw is due."""
    return iter(range(0, 10**9, 1000)).__next__


@given(SPEECH, st.tuples(ENDS, ENDS, ENDS))
@settings(max_examples=120)
def test_a_notebook_shows_every_cell(speech, ends):
    page = StrictNotebook()
    play(CellOutputView(world_size=3, display=page, clock=clock()), speech, ends)
    assert "last 2" in page.text
    assert "last 2" in page.html
    assert not page.text.startswith("[this cell ")


@given(SPEECH, st.tuples(ENDS, ENDS, ENDS), st.sampled_from(["utf-8", "ascii", "latin-1"]))
@settings(max_examples=60)
def test_so_does_a_terminal_of_any_encoding(speech, ends, encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    terminal = Terminal(lambda text: write_text(stream, text), is_tty=encoding == "utf-8")
    play(CellOutputView(world_size=3, display=terminal, clock=clock()), speech, ends)
    assert b"last 2" in stream.buffer.getvalue()


@given(SPEECH, st.tuples(ENDS, ENDS, ENDS))
@settings(max_examples=60)
def test_so_does_a_page_of_the_server(speech, ends):
    record = RankLines(3)
    for rank, outputs in speech:
        record.take_output([rank], outputs)
        say(live_bundle(record.live_picture()))
    for each in ended(ends):
        record.take_finished(each)
    say(saved_bundle(record.final_picture()))
    for rank in range(3):
        json.loads(to_text(Tail(cluster="c", rank=rank, text=record.last_lines(rank, 5))))


def say(bundle):
    said = CellSeen(
        cluster="c", label="In[3]", is_running=True, html=bundle["text/html"], text="\ud800"
    )
    json.loads(to_text(said).encode())


@given(SPEECH, st.tuples(ENDS, ENDS, ENDS), TEXT)
@settings(max_examples=60)
def test_so_does_a_result(speech, ends, text):
    results = [
        RankResult(
            rank=each.rank,
            status=each.status,
            stdout=f"{text}\nlast {each.rank}\n",
            displays=tuple(
                output
                for rank, outputs in speech
                for output in outputs
                if rank == each.rank and output.kind in DISPLAYS
            ),
            error=each.error,
            value_repr=each.value_repr,
            duration_s=each.duration_s,
        )
        for each in ended(ends)
    ]
    result = SpmdResult(results)
    assert repr(result)
    assert repr(result[0])
    with suppress(CellFailed):
        result.raise_first()


@given(BUNDLES | RUBBISH, SIZES | RUBBISH)
@settings(max_examples=300)
def test_a_bundle_is_shown_or_told_and_nothing_of_it_is_dropped_in_silence(data, metadata):
    rich = read_bundle(data, metadata)
    if rich is None:
        values = data.values() if isinstance(data, dict) else [data]
        assert all(value is None or value in ("", {}) for value in values)
        return
    assert (rich.payload + rich.plain + rich.stand_in).encode() is not None


@pytest.mark.parametrize(
    ("data", "metadata", "why"),
    [
        ({"image/png": "AAAA", "text/plain": "a figure"}, {}, ""),
        ({"image/png": "AAAA"}, {"width": float("nan"), "height": 10}, ""),
        ({"image/png": "AAAA"}, {"width": float("inf"), "height": 10**400}, ""),
        ({"image/png": "<b>", "text/plain": "a figure"}, {}, "base64"),
        ({"image/png": {"a": 1}, "text/plain": "a figure"}, {}, "dict"),
        ({"text/html": 7, "text/plain": "seven"}, {}, "int"),
        ({"application/vnd.none": 7}, {}, "no view draws application/vnd.none"),
        ("text", {}, "AttributeError"),
    ],
)
def test_what_cannot_be_drawn_is_text_with_the_reason(data, metadata, why):
    rich = read_bundle(data, metadata)
    assert rich.is_text is bool(why)
    assert why in rich.payload
    if why and isinstance(data, dict):
        assert data.get("text/plain", "") in rich.payload


def test_lines_of_a_megabyte_of_what_looks_like_frames_are_read_at_once():
    error = ErrorInfo("E", "File " * 200_000, ("File " * 200_000,))
    record = CellRecord(1)
    record.take_finished(RankFinished(0, "raised", 1.0, None, error))
    assert record.final_picture().errors[0].ename == "E"


def test_a_colour_of_thousands_of_digits_is_none():
    error = ErrorInfo("E", "x", (f"\x1b[{'3' * 5000}mred",))
    record = CellRecord(1)
    record.take_finished(RankFinished(0, "raised", 1.0, None, error))
    assert "red" in saved_bundle(record.final_picture())["text/html"]


# --- what we have not thought of ---


def broken(*_arguments, **_options):
    raise RuntimeError("drawing failed")


@pytest.fixture
def said():
    """A cell of two ranks, up to its end."""

    def say(view):
        for rank in range(2):
            view.on_output([rank], [Output("stdout", f"line {rank}\n"), Output("display", data={})])
            view.on_tick()
            view.on_finished(RankFinished(rank, "ok", 1.0, "7"))
        view.finish(None)

    return say


@pytest.mark.parametrize("part", ["_blocks", "_values", "render_text", "_fit", "crash_html"])
def test_a_cell_whose_drawing_fails_is_text_with_one_line_why(said, monkeypatch, part):
    monkeypatch.setattr(output_html, part, broken)
    page = StrictNotebook()
    said(CellOutputView(world_size=2, display=page, clock=clock()))
    assert page.text.count("drawing failed") == 1
    assert "line 0" in page.text
    assert "line 1" in page.html


def test_a_cell_whose_lines_cannot_be_put_together_shows_those_of_each_rank(said, monkeypatch):
    monkeypatch.setattr(CellRecord, "_blocks", broken)
    page = StrictNotebook()
    said(CellOutputView(world_size=2, display=page, clock=clock()))
    assert "drawing failed" in page.text
    assert "line 0" in page.text


def test_a_front_end_that_refuses_a_bundle_gets_plain_text(said):
    class Strict(StrictNotebook):
        def check(self, bundle):
            if "<pre" in bundle["text/html"] and "cannot be drawn" not in bundle["text/plain"]:
                raise ValueError("no page")

    page = Strict()
    said(CellOutputView(world_size=2, display=page, clock=clock()))
    assert "no page" in page.text
    assert "line 1" in page.text


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed file")])
def test_a_terminal_that_is_gone_is_told_once_and_the_cell_goes_on(said, error, capsys):
    terminal = Terminal(Mock(side_effect=error), is_tty=False)
    said(CellOutputView(world_size=2, display=terminal, clock=clock()))
    assert capsys.readouterr().err.count(type(error).__name__) == 1


def test_ctrl_c_while_a_cell_is_drawn_is_not_swallowed(said):
    terminal = Terminal(Mock(side_effect=KeyboardInterrupt), is_tty=False)
    with pytest.raises(KeyboardInterrupt):
        said(CellOutputView(world_size=2, display=terminal, clock=clock()))


def test_one_output_that_cannot_be_taken_costs_no_other(monkeypatch):
    record = CellRecord(1)
    odd = Output("clear_output", data=7)
    record.take_output([0], [Output("stdout", "a\n"), odd, Output("stdout", "b\n")])
    text = saved_bundle(record.final_picture())["text/plain"]
    assert "a\n" in text
    assert "clear_output" in text
    assert "b\n" in text
