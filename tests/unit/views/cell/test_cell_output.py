import itertools
import re
from pathlib import Path

import pytest
from fakes.notebook import Clock, Notebook
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.coordinator.cells.failure_notice import FailureNotice
from jupyter_dist.model.hosts.axes import lay_out
from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import ErrorInfo, Output, RankFinished
from jupyter_dist.text.lists import Momentary, Passing
from jupyter_dist.views.cell import cell_output
from jupyter_dist.views.cell.cell_output import REDRAW_INTERVAL_S, CellOutputView, choose_view
from jupyter_dist.views.cell.cell_picture import CellRecord
from jupyter_dist.views.cell.terminal import Terminal, TerminalScreen
from tests.calls import calls_of

TESTS = Path(__file__).parents[3]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def view_of(notebook, clock, world_size=4, **options):
    return CellOutputView(display=notebook, clock=clock, world_size=world_size, **options)


def on_terminal(clock, *, is_tty=False, **options):
    """Return a view of two ranks on a terminal, and what is written there."""
    written = []
    return view_of(Terminal(written.append, is_tty=is_tty), clock, 2, **options), written


def out(text, kind="stdout"):
    return [Output(kind, text)]


def end(view, world_size):
    for rank in range(world_size):
        view.on_finished(RankFinished(rank, "ok", 0.1))
    view.finish(None)


def shown(*said, **options):
    """Return the notebook after a cell in which each rank has said this, in rank order."""
    notebook = Notebook()
    view = view_of(notebook, Clock(), len(said), **options)
    for rank, outputs in enumerate(said):
        view.on_output([rank], out(outputs) if isinstance(outputs, str) else outputs)
    end(view, len(said))
    return notebook


def test_an_empty_cell_makes_no_display_call(notebook, clock):
    view = view_of(notebook, clock)
    view.on_tick()
    view.on_finished(RankFinished(0, "ok", 0.1))
    view.on_tick()
    end(view, 4)
    assert notebook.displays == 0


def test_one_display_is_updated_and_ends_static(notebook, clock):
    view = view_of(notebook, clock)
    view.on_output([0], out("hello\n"))
    view.on_tick()
    assert "▶ 4 running" in notebook.html
    assert "[0]" in notebook.html
    view.on_finished(RankFinished(0, "ok", 0.1))
    clock.now_s += 1
    view.on_tick()
    assert "▶ 3 running · 1 done" in notebook.html
    end(view, 4)
    assert notebook.displays == 1
    assert "running" not in notebook.html
    assert notebook.text == "[0] hello\n"
    assert set(notebook.bundles[-1]) == {"text/html", "text/plain"}


def test_redraws_come_at_most_five_times_a_second(notebook, clock):
    view = view_of(notebook, clock)
    for _ in range(100):
        view.on_output([0], out("x\n"))
        view.on_tick()
        clock.now_s += 0.01
    assert len(notebook.bundles) <= 1 + 1 / REDRAW_INTERVAL_S


def test_nothing_is_redrawn_when_nothing_is_new(notebook, clock):
    view = view_of(notebook, clock)
    view.on_output([0], out("x\n"))
    for _ in range(10):
        view.on_tick()
        clock.now_s += 1
    assert len(notebook.bundles) == 1


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        (
            [f"start\n\nI am {rank}\nend\n" for rank in range(3)],
            ["[0-2] start", "[0-2] ", "[0]   I am 0", "[1]   I am 1", "[2]   I am 2", "[0-2] end"],
        ),
        (
            ["odd\n" if rank == 5 else "even\n" for rank in range(16)],
            ["[5] odd", "[0-4,6-15] even"],
        ),
        ([[Output("value", data={"text/plain": "4"})]] * 4, ["Out[0-3]: 4"]),
        (
            [[Output("value", data={"text/plain": text})] for text in ("-2", "1.5", "1.5")],
            ["Out[0-2]: [0] -2  [1-2] 1.5"],
        ),
        ([[Output("display", data={"image/png": PIXEL, "text/plain": "<F>"})]] * 4, ["[0-3] <F>"]),
        ([[Output("display", data={"image/png": PIXEL})]], ["[0] <image/png>"]),
    ],
    ids=["lines", "outliers first", "equal values", "numbers", "images", "an image alone"],
)
def test_what_ranks_have_in_common_is_shown_once(said, lines):
    notebook = shown(*said)
    assert notebook.text.splitlines() == lines
    assert notebook.html.count("<img ") == ("image/png" in str(said))


def test_progress_bars_are_one_line_for_each_rank(notebook, clock):
    view = view_of(notebook, clock, 2)
    for step in range(50):
        for rank in range(2):
            view.on_output([rank], out(f"\r{step}/50", "stderr"))
    view.on_tick()
    assert notebook.html.count("49/50") == 1
    assert "48/50" not in notebook.html
    assert "[0-1]" in notebook.html


def test_clear_output_clears_its_rank_only():
    cleared = [*out("old\n"), Output("clear_output"), *out("new\n")]
    assert shown(cleared, "other\n").text == "[0] new\n[1] other\n"


def test_a_waiting_clear_happens_with_the_next_output(notebook, clock):
    view = view_of(notebook, clock, 2)
    view.on_output([0], [*out("old\n"), Output("clear_output", data={"wait": True})])
    view.on_tick()
    assert "old" in notebook.html
    view.on_output([0], out("new\n"))
    end(view, 2)
    assert "old" not in notebook.html


def test_a_display_is_updated_in_its_place():
    first = Output("display", data={"text/html": "<b>one</b>"}, display_id="d")
    second = Output("update_display", data={"text/html": "<b>two</b>"}, display_id="d")
    markup = shown([first, *out("after\n"), second]).html
    assert "one" not in markup
    assert markup.index("two") < markup.index("after")


def test_a_widget_view_gives_way_to_its_plain_text():
    mime = "application/vnd.jupyter.widget-view+json"
    data = {mime: {"model_id": "m"}, "text/plain": "IntSlider()"}
    markup = shown([Output("display", data=data)]).html
    assert "IntSlider()" in markup
    assert "model_id" not in markup


@pytest.mark.parametrize("is_live", [True, False])
def test_widgets_that_are_live_are_ordered_when_the_cell_ends(notebook, clock, is_live):
    view, ordered = view_of(notebook, clock, 1), []
    view.show_widget = lambda *_: is_live
    view.order_widgets = lambda: ordered.append(len(notebook.bundles))
    bundle = {"application/vnd.jupyter.widget-view+json": {"model_id": "m"}, "text/plain": "Slider"}
    view.on_output([0], [Output("display", data=bundle)])
    assert ordered == []
    end(view, 1)
    assert len(ordered) == is_live


def table(*cells):
    rows = "".join(f"│ {cell:>3} │\n" for cell in cells)
    return [Output("stdout", f"┌─────┐\n{rows}└─────┘\n", is_block=True)]


@pytest.mark.parametrize("in_terminal", [False, True])
def test_tables_of_ranks_are_never_cut_apart(notebook, clock, in_terminal):
    written = []
    display = Terminal(written.append, is_tty=False) if in_terminal else notebook
    view = CellOutputView(display=display, clock=clock, world_size=4)
    for rank, value in enumerate((7, 8, 7, 9)):
        view.on_output([rank], [*out("epoch\n"), *table(1, value), *out("done\n")])
        view.on_tick()
        clock.now_s += 1
    end(view, 4)
    shown = "".join(written) if in_terminal else notebook.text
    boxes = {}
    for line in shown.splitlines():
        label, _, said = line.partition(" ")
        if said.lstrip()[:1] in "┌│└":
            boxes.setdefault(label, []).append(said.strip())
    assert all(box == ["┌─────┐", "│   1 │", box[2], "└─────┘"] for box in boxes.values())
    labels = [line.partition(" ")[0] for line in shown.splitlines() if line.strip("│┌└ ")]
    changes = [
        label for index, label in enumerate(labels) if index == 0 or labels[index - 1] != label
    ]
    assert all(changes.count(label) == 1 for label in boxes), changes
    if not in_terminal:
        assert list(boxes) == ["[0,2]", "[1]", "[3]"]
        assert notebook.html.count("┌─────┐") == 3


def test_a_block_counts_its_lines_and_a_very_long_one_is_lines(notebook, clock):
    view = view_of(notebook, clock, world_size=2)
    for rank in range(2):
        text = "".join(f"{rank} {number}\n" for number in range(90))
        view.on_output([rank], [Output("stdout", text, is_block=True)] * 3)
    view.on_tick()
    assert "earlier lines" in notebook.html
    view.finish(None)
    assert notebook.text.count("\n") == 2 * 3 * 90
    view = view_of(notebook, clock, world_size=2)
    for rank in range(2):
        text = "".join(f"{number}{rank if number == 777 else ''}\n" for number in range(1000))
        view.on_output([rank], [Output("stdout", text, is_block=True)])
    view.finish(None)
    assert notebook.text.count("\n") == 1001, "too long for a block: equal lines are one"


def test_a_note_is_live_and_its_seconds_do_not_pile_up(notebook, clock):
    view = view_of(notebook, clock)
    for seconds in range(3, 9):
        view.on_note(f"rank 2 for {seconds} s")
        view.on_tick()
        clock.now_s += 1
    assert "for 8 s" in notebook.html
    end(view, 4)
    assert notebook.text == "· rank 2 for 8 s\n"


def failed(rank, ename="ZeroDivisionError"):
    traceback = ("Cell In[3], line 2", f"{ename}: <boom>")
    error = ErrorInfo(ename, "<boom>", traceback)
    return RankResult(rank=rank, status="raised", error=error)


def test_errors_are_grouped_and_the_first_is_open(notebook, clock):
    result = SpmdResult([failed(0), failed(1), failed(2), failed(3, "KeyError")])
    view = view_of(notebook, clock)
    view.finish(result)
    assert "ZeroDivisionError on ranks 0-2 (3)" in notebook.html
    assert notebook.html.count("Cell In[3], line 2") == 2
    assert notebook.html.count("<details>") == 1
    assert "<summary><b>KeyError on rank 3" in notebook.html
    assert "<boom>" not in notebook.html


def test_the_traceback_that_is_raised_is_not_shown_twice(notebook, clock):
    result = SpmdResult([failed(0), failed(1), failed(2, "KeyError")])
    view = view_of(notebook, clock)
    view.finish(result, raised_rank=0)
    assert "ZeroDivisionError on ranks 0-1 (2)" in notebook.html
    assert "ZeroDivisionError: &lt;boom&gt;" not in notebook.html
    assert "KeyError: &lt;boom&gt;" in notebook.html
    assert "Cell In" not in notebook.text


def test_a_quiet_view_shows_errors_only(notebook, clock):
    view = view_of(notebook, clock, style=OutputStyle(quiet=True))
    view.on_output([0], out("chatter\n"))
    view.on_note("note")
    view.on_tick()
    assert notebook.displays == 0
    view.finish(SpmdResult([failed(0)]))
    assert "chatter" not in notebook.html
    assert "ZeroDivisionError on rank 0" in notebook.html


def test_finishing_twice_shows_once(notebook, clock):
    view = view_of(notebook, clock)
    view.on_output([0], out("x\n"))
    view.finish(None)
    view.finish(None)
    view.on_tick()
    assert len(notebook.bundles) == 1


def test_what_was_only_true_for_the_moment_is_gone_however_the_cell_ends(notebook, clock):
    view = view_of(notebook, clock, 1)
    view.on_note(Momentary("in the background"))
    view.on_note(Passing("rank 0 waits for rank 1"))
    view.finish(SpmdResult([failed(0)]))
    assert "background" not in notebook.html
    assert "waits for rank 1" in notebook.html


def test_the_end_is_shown_again_in_its_place_in_a_notebook(notebook, clock):
    view = view_of(notebook, clock)
    view.show_again()
    view.on_output([0], out("x\n"))
    view.finish(None)
    view.show_again()
    assert (notebook.displays, len(notebook.bundles)) == (1, 2)
    assert notebook.bundles[0] == notebook.bundles[1]


def test_512_ranks_are_groups_and_a_strip(notebook, clock):
    view = view_of(notebook, clock, 512)
    for rank in range(512):
        view.on_output([rank], out(f"hello\nloss {7 if rank == 77 else 1}\n"))
    assert calls_of(view.on_tick) < 20 * 512
    view.on_finished(RankFinished(3, "lost", 1.0))
    end(view, 512)
    assert len(notebook.html) < 16_000
    assert notebook.html.count("■") == 512
    assert notebook.html.index("loss 7") < notebook.html.index("loss 1")
    assert notebook.text.startswith("[77] hello\n[77] loss 7\n")


def test_512_ranks_that_all_differ_stay_within_the_cap():
    notebook = shown(*("".join(f"{rank} {k}\n" for k in range(300)) for rank in range(512)))
    assert len(notebook.html) + len(notebook.text) < 256 * 1024
    assert "more groups" in notebook.html


def flood(view, lines=100_000, ranks=4, batch=500):
    for number in range(lines // batch):
        rank, first = number % ranks, number // ranks * batch
        view.on_output(
            [rank],
            [Output("stdout", f"step {k} on {rank}\n") for k in range(first, first + batch)],
        )
        view.on_tick()


def cost_of_flood(display, lines):
    """Return the calls of a cell that says so many lines; its time goes by whenever it looks."""
    view = view_of(display, itertools.count(0, 0.05).__next__)

    def cell():
        flood(view, lines)
        end(view, 4)

    return calls_of(cell)


def test_a_hundred_thousand_lines_cost_little_and_keep_the_tail():
    # Each line once: five times as much, where drawing all of them each time costs 25 times.
    assert cost_of_flood(Notebook(), 40_000) < 5.5 * cost_of_flood(Notebook(), 8_000)
    notebook = Notebook()
    view = CellOutputView(display=notebook, world_size=4, log_hint="nodeA:/tmp/cell.log")
    flood(view, 100_000)
    end(view, 4)
    for rank in range(4):
        assert f"step 24999 on {rank}" in notebook.html
        assert f"[{rank}] step 24999 on {rank}" in notebook.text
    assert notebook.text.startswith("[0] step 0 on 0\n")
    assert len(notebook.html.encode()) + len(notebook.text.encode()) <= 256 * 1024


def test_a_flood_of_one_rank_does_not_drown_the_last_words_of_another(notebook, clock):
    view = view_of(notebook, clock, 2)
    view.on_output([0], out("".join(f"early {k}\n" for k in range(3000))))
    view.on_output([1], out("last words\n"))
    view.on_output([0], out("".join(f"late {k}\n" for k in range(30_000))))
    end(view, 2)
    assert "[1] last words\n" in notebook.text
    assert "[0] early 0\n" in notebook.text
    assert "[0] late 29999\n" in notebook.text


def test_what_is_left_out_is_said_exactly():
    notebook = Notebook()
    view = CellOutputView(display=notebook, world_size=4, log_hint="nodeA:/tmp/cell.log")
    flood(view, 40_000)
    end(view, 4)
    (sentence,) = [line for line in notebook.text.splitlines() if "left out" in line]
    shown = len(notebook.text.splitlines()) - 1
    assert sentence == (
        f"… {40_000 - shown:,} lines left out; the full log is at nodeA:/tmp/cell.log"
    )


def cost_of_redraw(clock, lines):
    """Return the calls of one more drawing of a cell that has said so many lines."""
    notebook = Notebook()
    view = view_of(notebook, clock, 8)
    flood(view, lines, ranks=8)
    view.on_tick()
    view.on_output([0], out("more\n"))
    clock.now_s += 10
    calls = calls_of(view.on_tick)
    assert "more" in notebook.html
    assert "earlier lines" in notebook.html
    return calls


def test_a_live_redraw_costs_no_more_where_much_was_said_before(clock):
    assert cost_of_redraw(clock, 40_000) < 1.1 * cost_of_redraw(clock, 10_000)


def test_a_terminal_collapses_lines_and_writes_them_in_time(clock):
    view, written = on_terminal(clock)
    view.on_output([0], out("both\nonly 0\n"))
    view.on_tick()
    assert written == []
    view.on_output([1], out("both\n"))
    clock.now_s += 0.1
    view.on_tick()
    assert "".join(written) == "[0-1] both\n"
    clock.now_s += 0.25
    view.on_tick()
    assert "".join(written) == "[0-1] both\n[0]   only 0\n"


def test_a_terminal_ends_with_values_and_errors(clock):
    view, written = on_terminal(clock)
    view.on_output([0], out("unfinished"))
    ok = RankResult(rank=1, status="ok", value_repr="4")
    view.finish(SpmdResult([failed(0), ok]))
    assert "".join(written).splitlines() == [
        "[0]   unfinished",
        "Out[1]: 4",
        "ZeroDivisionError on rank 0: <boom>",
        "Cell In[3], line 2",
        "ZeroDivisionError: <boom>",
    ]


def test_a_tty_has_a_status_line_that_goes_away(clock):
    view, written = on_terminal(clock, is_tty=True)
    view.on_tick()
    assert "".join(written) == "▶ 2 running"
    view.on_output([0], out("\x1b[31mred\x1b[0m\n"))
    clock.now_s += 1
    view.on_tick()
    assert "\r\x1b[K[0]   \x1b[31mred\x1b[0m\n▶ 2 running" in "".join(written)
    end(view, 2)
    assert written[-1] == "\r\x1b[K"


def test_a_flood_in_a_terminal_loses_nothing():
    written = []
    few = Terminal(lambda _text: None, is_tty=False)
    many = Terminal(written.append, is_tty=False)
    assert cost_of_flood(many, 40_000) < 6 * cost_of_flood(few, 8_000)
    assert "".join(written).count("\n") == 40_000


def test_the_shell_chooses_the_view():
    class Shell:
        kernel = object()

    assert not isinstance(choose_view(Shell(), world_size=2)._screen, TerminalScreen)
    assert isinstance(choose_view(object(), world_size=2)._screen, TerminalScreen)


# --- outputs of some ranks only ---


def said_by_all(view, *texts):
    for rank, text in enumerate(texts):
        view.on_output([rank], [Output("stdout", text)])
        view.on_finished(RankFinished(rank, "ok", 1.0, value_repr=str(rank)))


def test_outputs_of_some_ranks_are_shown_and_the_others_are_counted(notebook, clock):
    view = view_of(notebook, clock, world_size=3, shown=(1,))
    view.on_output([2], [Output("display", data={"text/html": "<b>x</b>"})])
    said_by_all(view, "a\nb\n", "c\n", "d\n")
    view.finish(None)
    assert notebook.text == (
        "[1] c\nOut[1]: 1\n"
        "… 3 lines and 1 other output of ranks 0,2 not shown here; "
        "%dist_output --ranks 0,2 shows it\n"
    )
    assert "%dist_output --ranks 0,2" in notebook.html


def test_errors_of_ranks_that_are_not_shown_are_shown(notebook, clock):
    view = view_of(notebook, clock, world_size=2, shown=(0,))
    error = ErrorInfo("ValueError", "bad", ("Cell In[1], line 1", "ValueError: bad"))
    view.on_finished(RankFinished(1, "raised", 1.0, error=error))
    view.finish(None)
    assert "ValueError on rank 1: bad" in notebook.text


def test_without_a_word_from_the_others_nothing_is_said_of_them(notebook, clock):
    view = view_of(notebook, clock, world_size=2, shown=(0,))
    said_by_all(view, "a\n", "")
    view.finish(None)
    assert notebook.text == "[0] a\nOut[0]: 0\n"


def test_few_ranks_that_are_shown_of_many_are_merged_line_by_line(notebook, clock):
    view = view_of(notebook, clock, world_size=64, shown=(3, 4))
    said_by_all(view, *(f"x\n{rank}\n" for rank in range(64)))
    view.finish(None)
    assert notebook.text.splitlines()[:3] == ["[3-4] x", "[3]   3", "[4]   4"]


def test_a_terminal_names_no_button(clock):
    view, written = on_terminal(clock)
    view.on_note("rank 0 waits in barrier #9 for 5 s; ■ releases it")
    assert written == ["· rank 0 waits in barrier #9 for 5 s; Ctrl-C releases it\n"]


def test_a_terminal_says_too_what_is_not_shown(clock):
    view, written = on_terminal(clock, shown=(0,))
    said_by_all(view, "a\n", "b\n")
    view.finish(None)
    assert "".join(written).endswith(
        "… 1 line of rank 1 not shown here; %dist_output --ranks 1 shows it\n"
    )


# --- progress bars ---


def progress(n, **more):
    own = {"bar": 1, "description": "epoch", "unit": "it", "place": "In_1:2", "elapsed_s": 1.0}
    return Output("progress", data={**own, "n": n, "total": 10, "is_closed": n == 10, **more})


def test_a_bar_moves_in_the_status_line_of_a_terminal_and_stays_as_a_line(clock):
    view, written = on_terminal(clock, is_tty=True)
    for rank in (0, 1):
        view.on_output([rank], [progress(4 + rank)])
    view.on_tick()
    assert "▶ 2 running · epoch [0-1]" in written[-1]
    for rank in (0, 1):
        view.on_output([rank], [progress(10)])
        view.on_output([rank], [Output("stdout", "after\n")])
    clock.now_s += 1
    view.on_tick()
    for rank in (0, 1):
        view.on_finished(RankFinished(rank, "ok", 1.0))
    view.finish(None)
    text = "".join(written)
    assert text.count("100% ▕████████████████████▏ 10/10") == 1
    assert text.endswith("took 1.0 s\n") or "took 1.0 s\n" in text


def test_a_bar_of_some_ranks_is_written_to_a_terminal_at_the_end(clock):
    view, written = on_terminal(clock)
    view.on_output([0], [progress(10)])
    view.on_tick()
    assert written == []
    view.finish(None)
    assert "".join(written).startswith("epoch [0] 100%")


# --- what a running cell costs ---


class Ledger(Notebook):
    """Counts the bytes of everything that is sent to the page."""

    @property
    def sizes(self):
        return [sum(len(text.encode()) for text in bundle.values()) for bundle in self.bundles]


STORIES = {
    "the same lines": lambda _, line: f"line {line} of the story as it is told",
    "one rank differs": lambda rank, line: f"line {line} of the story{'!' * (rank == 3)}",
    "all ranks differ": lambda rank, line: f"rank {rank}, line {line}: loss {rank * line / 7:.4f}",
    "long lines that differ": lambda rank, line: f"rank {rank}, line {line}: " + "x" * 400,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("step_s", [0.02, 0.5])
def test_fifty_lines_of_64_ranks_cost_at_most_0_3_megabytes(clock, story, step_s, monkeypatch):
    ledger = Ledger()
    view = view_of(ledger, clock, world_size=64)
    # A redraw that takes no time is never put off, so this is the most that can be sent.
    monkeypatch.setattr(cell_output.time, "perf_counter", lambda: 0.0)
    for line in range(50):
        for rank in range(64):
            view.on_output([rank], [Output("stdout", story(rank, line) + "\n")])
        clock.now_s += step_s
        view.on_tick()
    for rank in range(64):
        view.on_finished(RankFinished(rank, "ok", 1.0))
    view.finish(None)
    assert len(ledger.sizes) > 3
    assert sum(ledger.sizes) <= 300_000


def test_of_many_ranks_that_differ_the_last_line_of_some_is_shown_live(notebook, clock):
    view = view_of(notebook, clock, world_size=64)
    for rank in range(64):
        view.on_output([rank], [Output("stdout", f"first of {rank}\nlast of {rank}\n")])
    view.on_tick()
    assert "last of 0" in notebook.html
    assert "last of 15" in notebook.html
    assert "last of 16" not in notebook.html
    assert "first of" not in notebook.html
    assert re.search("64 .* 48 ", notebook.text)


def test_a_long_line_is_cut_while_the_cell_runs_only(notebook, clock):
    view = view_of(notebook, clock, world_size=2)
    view.on_output([0], [Output("stdout", "\x1b[31m" + "x" * 3000 + "\n")])
    view.on_tick()
    assert "x" * 900 in notebook.html
    assert "x" * 1001 not in notebook.html
    view.finish(None)
    assert "x" * 3000 in notebook.html


def notes_of_the_verdicts():
    """Give every sentence about a hang, from the table that has them all."""
    lines = (
        (TESTS / "unit/coordinator/observation/verdicts.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    return [line.partition(": ")[2] for line in lines if line.startswith("=> ")]


def test_a_cell_that_ended_well_keeps_no_line_about_who_waited_and_every_other_note():
    for is_over_before in (False, True):
        record = CellRecord(2)
        for note in ("w is old", *map(Passing, notes_of_the_verdicts())):
            record.take_note(note)
        if is_over_before:
            record.take_note(Passing(""))
            assert record.live_picture().notes == ("w is old",)
        for rank in range(2):
            record.take_finished(RankFinished(rank, "ok", 1.0))
        assert record.final_picture().notes == ("w is old",)


def test_a_cell_that_ended_badly_says_who_waited():
    record = CellRecord(2)
    record.take_note(Passing("rank 0 waits for 5 s"))
    record.take_finished(RankFinished(0, "ok", 1.0))
    record.take_finished(RankFinished(1, "timed_out", 1.0))
    assert record.final_picture().notes == ("rank 0 waits",)


def test_a_note_that_says_what_ranks_end_with_is_not_shown_beside_that():
    record = CellRecord(2)
    error = ErrorInfo("PeerFailed", "rank 1 raised ValueError: bad")
    for note in ("rank 1 raised ValueError: bad", "rank 0 waits"):
        record.take_note(Passing(note))
    record.take_finished(RankFinished(0, "peer_failed", 1.0, error=error))
    record.take_finished(RankFinished(1, "raised", 1.0, error=ErrorInfo("ValueError", "bad")))
    assert record.final_picture().notes == ("rank 0 waits",)


def test_how_long_ranks_waited_is_kept_when_asked_for():
    record = CellRecord(1, style=OutputStyle(times=True))
    record.take_note("rank 0 waits for 5 s")
    record.take_finished(RankFinished(0, "timed_out", 1.0))
    assert record.final_picture().notes == ("rank 0 waits for 5 s",)


def note_of_a_failure(running):
    news = FailureNotice()
    for now_s in (0.0, 10.0):
        said = news.tick({1: "raised"}, {1: "ValueError: bad batch"}, running, now_s)
    return said


@pytest.mark.parametrize("running", [(0,), (0, 2, 3), range(2, 512)])
def test_a_cell_that_has_ended_shows_its_errors_and_not_which_came_first(running):
    note = note_of_a_failure(running)
    record = CellRecord(2)
    record.take_finished(
        RankFinished(1, "raised", 1.0, error=ErrorInfo("ValueError", "bad batch", ()))
    )
    record.take_note(note)
    assert record.live_picture().notes == (note,)
    assert record.final_picture().notes == (note,), "it was given up while ranks ran it"
    record.take_finished(RankFinished(0, "interrupted", 1.0))
    picture = record.final_picture()
    assert picture.notes == ()
    assert [(each.ename, each.ranks) for each in picture.errors] == [
        ("ValueError", (1,)),
        ("KeyboardInterrupt", (0,)),
    ]


def test_a_cell_that_has_ended_keeps_why_it_hung_and_no_advice():
    notes = notes_of_the_verdicts()
    assert sum("■" in note for note in notes) > 10
    for note in notes:
        record = CellRecord(1)
        record.take_note(f"{note}\nanother line")
        record.take_finished(RankFinished(0, "interrupted", 1.0))
        (kept,) = record.final_picture().notes
        why = re.sub(r" for [\d.]+ s\b", "", note.partition("; ■")[0])
        assert kept == f"{why}\nanother line"


PIECES = ("a\n", "b\nc\n", "half", "\rover\n")


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 3), min_size=1), st.sampled_from(PIECES)), max_size=12
    ),
    st.booleans(),
)
def test_ranks_that_are_told_of_together_look_as_if_each_had_been(said, in_terminal):
    shown = []
    for together in (True, False):
        written, notebook = [], Notebook()
        display = Terminal(written.append, is_tty=False) if in_terminal else notebook
        view = CellOutputView(display=display, clock=Clock(), world_size=4)
        for ranks, piece in said:
            for each in [sorted(ranks)] if together else [[rank] for rank in sorted(ranks)]:
                view.on_output(each, out(piece))
        end(view, 4)
        shown.append("".join(written) if in_terminal else notebook.html if said else "")
    assert shown[0] == shown[1]


def test_a_display_of_ranks_is_updated_only_where_it_was(notebook, clock):
    view = view_of(notebook, clock, world_size=3)
    first = Output("display", data={"text/html": "<b>old</b>"}, display_id="d")
    new = Output("update_display", data={"text/html": "<b>new</b>"}, display_id="d")
    view.on_output([0, 1, 2], [first])
    view.on_output([1], [new])
    end(view, 3)
    assert notebook.html.count("<b>old</b>") == notebook.html.count("<b>new</b>") == 1


def test_headings_of_errors_name_coordinates_where_the_cluster_has_axes(notebook, clock):
    view = view_of(notebook, clock)
    view.axes = lay_out([("data", 2), ("model", 2)], 4)
    view.on_output([3], out("beep\n"))
    view.finish(SpmdResult([failed(2), failed(3, "KeyError")]))
    assert "KeyError on rank 3 (data=1, model=1)" in notebook.html
    assert "[3] beep" in notebook.text


def test_before_a_question_a_terminal_has_all_lines_and_no_status(clock):
    view, written = on_terminal(clock, is_tty=True)
    view.on_tick()
    view.on_output([0], out("hello\n"))
    assert not view.on_question(), "what comes while a person types would stand in their line"
    told = "".join(written)
    assert "hello" in told
    assert told.endswith(("\n", "\x1b[K"))
    view.on_output([0, 1], out("more\n"))
    end(view, 2)
    assert "".join(written).count("hello") == 1
    assert "more" in "".join(written)


def test_before_a_question_a_notebook_is_drawn_at_once_and_goes_on(notebook, clock):
    view = view_of(notebook, clock)
    view.on_output([0], out("one\n"))
    view.on_tick()
    view.on_output([0], out("two\n"))
    assert view.on_question()
    assert "two" in notebook.html
