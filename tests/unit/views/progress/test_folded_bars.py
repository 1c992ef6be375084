import re

import pytest

from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.views.cell.cell_picture import CellRecord
from jupyter_dist.views.cell.output_html import live_bundle, saved_bundle
from jupyter_dist.views.cell.output_text import render_text
from jupyter_dist.views.progress.bar_html import bar_html
from jupyter_dist.views.progress.bar_text import BARS_CAP, bars_lines
from jupyter_dist.views.progress.folded_bars import BarTable


def state(n, total=100, **more):
    own = {"bar": 1, "description": "epoch", "unit": "it", "elapsed_s": 2.0, "place": "In_1:2"}
    return {**own, "is_closed": False, "n": n, "total": total, **more}


def a_table(*states):
    """Make a table of one bar on each rank, in rank order."""
    table = BarTable(len(states))
    for rank, each in enumerate(states):
        table.take(rank, each)
    return table


def lines(table, endings=None):
    return bars_lines(table.folded(endings or {}))


def copied(markup):
    return re.sub(r"<[^>]*>", "", markup)


def test_the_same_bar_of_all_ranks_is_one():
    (folded,) = a_table(*map(state, (20, 40, 60, 80))).folded({})
    assert folded.ranks == (0, 1, 2, 3)
    assert (folded.slowest, folded.fastest, folded.mean) == (0, 3, 50)


def test_a_line_names_the_mean_the_slowest_and_the_fastest_rank():
    (line,) = lines(a_table(*map(state, (20, 40, 60, 80))))
    drawn, facts = line.split("▏ ")
    assert drawn == "epoch [0-3]  50% ▕████▓▓▓▓▒▒▒▒░░░░····"
    assert facts == (
        "mean 50/100 · slowest rank 0: 20 · fastest rank 3: 80 · 25.0 it/s each · 8.0 s left"
    )


BYTES = {"divisor": 1024, "unit": "B"}
FACTS = {
    "the time left is that of the slowest": (
        [state(50, elapsed_s=10.0), state(10, elapsed_s=10.0)],
        {},
        "1:30 left",
    ),
    "one rank alone": ([state(50)], {}, "epoch [0]  50% ▕██████████··········▏ 50/100"),
    "who took longest": (
        [state(100, elapsed_s=s, is_closed=True) for s in (2.0, 3.0)],
        {},
        "100/100 · 41.7 it/s each · took 2.0 s to 3.0 s (rank 1)",
    ),
    "a total that nobody knows": (
        [state(7, None), state(9, None)],
        {},
        "epoch [0-1] mean 8 it · slowest rank 0: 7 · fastest rank 1: 9 · 4.0 it/s each",
    ),
    "counts are shortened": ([state(3 << 20, 12 << 20, **BYTES)], {}, "3M/12M · 1.5MB/s"),
    "what all say": ([state(1, postfix="loss=1")] * 2, {}, "left · loss=1"),
    "what differs": ([state(1, postfix=f"loss={n}") for n in (1, 2)], {}, "loss=1 (rank 0)"),
    "a rank that raised": (
        [state(40), state(100, is_closed=True)],
        {0: "raised", 1: "ok"},
        "rank 0 stopped at 40 (raised)",
    ),
    "many that stopped": (
        list(map(state, range(1, 9))),
        dict.fromkeys(range(8), "interrupted"),
        "rank 3 stopped at 4 (interrupted) · ranks 4-7 stopped too",
    ),
    "very many digits": ([state(5e27, float(26**20))], {}, " 25% "),
    "escapes and line ends": (
        [state(1, description="\x1b[31mred\nand more\x1b[0m")],
        {},
        "red and more [0]",
    ),
}


@pytest.mark.parametrize(("states", "endings", "told"), FACTS.values(), ids=FACTS)
def test_a_line_tells(states, endings, told):
    (line,) = lines(a_table(*states), endings)
    assert told in line


@pytest.mark.parametrize(
    ("states", "endings", "words"),
    [
        ([state(30)] * 4, {}, "mean|slowest|fastest"),
        ([state(50)], {}, "each"),
        ([state(40), state(100, is_closed=True)], {0: "raised", 1: "ok"}, "left"),
        ([state(40)], {0: "ok"}, "left"),
        ([state(1, postfix="loss=1")] * 2, {}, "rank 0"),
    ],
    ids=["equally far", "one rank", "a rank that raised", "a cell that is over", "what all say"],
)
def test_a_line_leaves_out_what_says_nothing(states, endings, words):
    (line,) = lines(a_table(*states), endings)
    assert not re.search(words, line)


def test_ranks_with_totals_of_their_own_are_compared_by_share():
    (folded,) = a_table(state(10, 20), state(30, 300)).folded({})
    assert (folded.slowest, folded.fastest) == (1, 0)


def test_a_bar_that_vanishes_is_gone_and_forgotten_when_all_have_closed_it():
    closed = state(5, 5, vanishes=True, is_closed=True)
    table = a_table(closed, state(1, 5, vanishes=True))
    assert len(lines(table)) == 1
    table.take(1, closed)
    assert lines(table) == []
    assert not table


def test_a_bar_that_vanished_comes_back_with_a_rank_that_is_late():
    table = BarTable(3)
    for rank in (0, 2):
        table.take(rank, state(5, 5, vanishes=True, is_closed=True))
    assert lines(table) == []
    table.take(1, state(1, 5, vanishes=True))
    assert lines(table)[0].startswith("epoch [0-2]")


def test_a_bar_of_many_ranks_stays_small():
    (folded,) = a_table(*map(state, range(64))).folded({})
    markup = bar_html(folded)
    assert len(markup) < 3000
    assert sum(map(int, re.findall(r"height:10px;width:(\d+)px", markup))) == 100


def test_a_bar_that_would_vanish_stays_where_a_rank_stopped():
    table = a_table(state(3, 5, vanishes=True, is_closed=True))
    assert len(lines(table, {0: "raised"})) == 1


def folded_names(*of_ranks):
    """Return what the bars are called of ranks that made these, and whose each is."""
    table = BarTable(len(of_ranks))
    for rank, own in enumerate(of_ranks):
        for bar, (description, n) in enumerate(own):
            table.take(rank, state(n, bar=bar, description=description, is_closed=n == 100))
    return [(bar.description, bar.ranks) for bar in table.folded({})]


@pytest.mark.parametrize(
    ("of_ranks", "names"),
    [
        (
            ([("a", 1), ("b", 2), ("c", 3)], [("c", 3), ("a", 1), ("b", 2)]),
            [("a", (0, 1)), ("b", (0, 1)), ("c", (0, 1))],
        ),
        ([[(f"rank {rank}", 1)] for rank in range(3)], [("rank …", (0, 1, 2))]),
        (
            ([("epoch 0", 100), ("epoch 1", 1)], [("epoch 0", 7)]),
            [("epoch 0", (0, 1)), ("epoch 1", (0,))],
        ),
    ],
    ids=["threads", "names of ranks", "a rank that is ahead"],
)
def test_bars_join_those_that_are_meant_to_be_the_same(of_ranks, names):
    assert folded_names(*of_ranks) == names


def test_a_new_description_is_shown_and_joins_nothing_else():
    table = a_table(state(1), state(1))
    for rank in (0, 1):
        table.take(rank, state(2, description=f"loss {rank}.5"))
    assert [(bar.description, bar.ranks) for bar in table.folded({})] == [("loss ….…", (0, 1))]


def test_clearing_the_output_of_a_rank_forgets_its_finished_bars():
    table = a_table(state(100, is_closed=True))
    table.take(0, state(5, bar=2, description="next"))
    table.clear(0)
    assert [bar.description for bar in table.folded({})] == ["next"]


def test_of_very_many_bars_those_are_shown_that_move_and_the_last():
    table = BarTable(2)
    for number in range(100):
        table.take(0, state(1, bar=number, description=f"b{number}", is_closed=number != 7))
    shown = lines(table)
    assert shown[0] == f"… {100 - BARS_CAP} more progress bars"
    assert shown[1].startswith("b7 ")
    assert shown[-1].startswith("b99 ")
    assert len(shown) == BARS_CAP + 1


def test_a_rank_that_makes_bars_without_end_fills_no_memory():
    table = BarTable(2)
    for number in range(1000):
        table.take(0, state(1, bar=number, description=f"b{number}"))
    assert len(table._origins) == len(table._bars[0]) <= 200


@pytest.mark.parametrize("vanishes", [False, True])
def test_an_outer_bar_outlives_very_many_inner_ones(vanishes):
    table = BarTable(2)
    for step in range(1000):
        table.take(0, state(step, 1000, bar=1, description="epoch"))
        inner = {"bar": step + 2, "description": "step", "vanishes": vanishes}
        table.take(0, state(5, 5, is_closed=True, **inner))
    outer = table.folded({})[0]
    assert (outer.description, outer.first.n) == ("epoch", 999)


def test_bars_that_have_vanished_make_room_for_those_that_stay():
    table = BarTable(2)
    for number in range(1000):
        is_inner = number % 10 > 0
        more = {"bar": number, "description": f"b{number}", "vanishes": is_inner}
        table.take(0, state(5, 5, is_closed=True, **more))
    assert len(table.folded({})) == 100


@pytest.mark.parametrize(
    "wrong",
    [
        {"total": "19928148895209409152340197376"},
        {"n": None},
        {"bar": "one"},
        {"n": float("nan")},
        {"elapsed_s": float("inf")},
        {"total": 10**400},
    ],
)
def test_what_is_no_bar_is_refused(wrong):
    table = a_table(state(1))
    with pytest.raises(ValueError, match=r"counted with|Expected"):
        table.take(0, state(2, bar=2) | wrong)
    assert [bar.first.n for bar in table.folded({})] == [1]


def test_the_drawn_bar_copies_as_words_only():
    table = a_table(*map(state, (20, 40, 60, 80)))
    (folded,), (line,) = table.folded({}), lines(table)
    assert copied(bar_html(folded)) == re.sub(r" ▕.*▏", "", line)


def test_the_drawn_bar_has_a_mark_where_ranks_are_and_is_as_wide_as_the_fastest():
    (folded,) = a_table(*map(state, (25, 50, 50, 75))).folded({})
    markup = bar_html(folded)
    assert markup.count("border-right") == 3
    assert sum(map(int, re.findall(r"height:10px;width:(\d+)px", markup))) == 0.75 * 160
    assert 'title="0: 25\n1-2: 50\n3: 75"' in markup


def test_the_colour_tells_a_bar_that_moves_from_one_that_is_done_or_stopped():
    table = a_table(state(50))
    moving, stopped = (bar_html(table.folded(end)[0]) for end in ({}, {0: "raised"}))
    table.take(0, state(100, is_closed=True))
    colours = {re.findall(r"rgba\((59,[\d,]+|46,[\d,]+|217,[\d,]+),", each)[0] for each in (
        moving, stopped, bar_html(table.folded({})[0]),
    )}  # fmt: skip
    assert len(colours) == 3


def test_markup_in_a_description_is_text():
    (folded,) = a_table(state(1, description="<script>")).folded({})
    assert "<script>" not in bar_html(folded)


@pytest.fixture
def record():
    record = CellRecord(2)
    for rank in (0, 1):
        record.take_output([rank], [Output("progress", data=state(10 * rank))])
    return record


def test_bars_are_shown_live_and_saved_as_html_and_as_text(record):
    live = live_bundle(record.live_picture())
    assert "mean 5/100" in live["text/html"]
    for rank in (0, 1):
        record.take_output([rank], [Output("progress", data=state(100, is_closed=True))])
        record.take_finished(RankFinished(rank, "ok", 1.0))
    saved = saved_bundle(record.final_picture())
    assert "100/100" in copied(saved["text/html"])
    assert "100/100" in saved["text/plain"]


def test_a_bar_alone_is_something_to_show(record):
    assert record.has_something
    assert not record.final_picture().is_empty
    assert render_text(record.final_picture()).startswith("epoch [0-1]")


def test_bars_are_no_lines(record):
    assert record.live_picture().blocks == []
