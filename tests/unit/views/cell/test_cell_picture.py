"""In which order a cell's outputs are saved: by what ranks said, and never by when it arrived."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.views.cell.cell_picture import CellPicture, CellRecord
from jupyter_dist.views.cell.output_html import saved_bundle
from jupyter_dist.views.outputs.transcript import TAIL_CAP

GROUPINGS = ("same", "rank", "order")


def text(line, kind="stdout", *, is_block=False):
    return Output(kind, f"{line}\n", is_block=is_block)


def figure(name):
    return Output("display", data={"image/svg+xml": f"<svg>{name}</svg>", "text/plain": name})


def saved(arrivals, world_size=3, *, shuffle=None, **style):
    """Return the bundle of a cell in which these (ranks, output) arrived in this order."""
    record = CellRecord(world_size, style=OutputStyle(**style))
    for ranks, output in arrivals:
        record.take_output(ranks, [output])
    for rank in shuffle or range(world_size):
        record.take_finished(RankFinished(rank, "ok", 0.1))
    return saved_bundle(record.final_picture())


def lines_of(*said, world_size=None, **style):
    """Return the lines that are saved when each rank in turn says all that it says."""
    arrivals = [([rank], output) for rank, outputs in enumerate(said) for output in outputs]
    bundle = saved(arrivals, world_size or len(said), **style)
    return bundle["text/plain"].splitlines()


def test_ranks_go_in_step_whoever_was_first():
    said = [[text(f"{word} {rank}") for word in ("a", "b")] for rank in range(3)]
    steps = [f"[{rank}] {word} {rank}" for word in ("a", "b") for rank in range(3)]
    assert lines_of(*said) == steps


def test_a_line_that_ranks_share_keeps_them_in_step():
    alone = [text(f"alone {k}") for k in range(3)]
    said = [[*alone, text("met"), text("then 0")], [text("met"), text("then 1")]]
    assert lines_of(*said) == [
        *(f"[0]   alone {k}" for k in range(3)),
        "[0-1] met",
        "[0]   then 0",
        "[1]   then 1",
    ]


def test_a_block_is_not_torn_by_lines_of_others():
    table = [[text(f"head\nrow of {rank}\nfoot", is_block=True)] for rank in range(2)]
    assert lines_of(*table) == [
        f"[{rank}] {line}" for rank in range(2) for line in ("head", f"row of {rank}", "foot")
    ]


def test_what_is_left_out_of_one_rank_has_a_place_among_the_lines_of_others():
    flood = [text("begun"), *(text(f"{k:99}") for k in range(TAIL_CAP // 50)), text("done")]
    lines = lines_of(flood, [text("begun"), text("done")], [text("begun"), text("done")])
    assert lines[0] == "[0-2] begun"
    assert lines[-1] == "[0-2] done"
    assert sum("lines left out" in line for line in lines) == 1


@pytest.mark.parametrize("ranks", [2, 12])
def test_rank_after_rank(ranks):
    said = [[text("equal"), figure(f"figure {rank}"), text("end")] for rank in range(ranks)]
    lines = lines_of(*said, group_outputs="rank")
    words = [line.split("] ", 1)[1] for line in lines]
    assert words == [w for rank in range(ranks) for w in ("equal", f"figure {rank}", "end")]


@pytest.mark.parametrize("ranks", [2, 12])
def test_the_first_of_each_rank_before_the_second_of_each(ranks):
    said = [[text(f"a{rank % 2}"), figure(f"figure {rank}")] for rank in range(ranks)]
    lines = lines_of(*said, group_outputs="order")
    assert [line.split("] ", 1)[1].strip() for line in lines] == [
        "a0",
        "a1",
        *(f"figure {rank}" for rank in range(ranks)),
    ]


def test_values_are_told_rank_after_rank_when_outputs_are():
    value = [[Output("value", data={"text/plain": "'x'"})]] * 2
    assert lines_of(*value, group_outputs="rank") == ["Out[0]: 'x'", "Out[1]: 'x'"]


def test_nothing_but_lost_seconds_tells_a_slow_bar_from_a_quick_one():
    bars = [
        {"bar": 1, "n": 9, "total": 9, "elapsed_s": took_s, "is_closed": True}
        for took_s in (0.5, 7.0)
    ]
    slow, quick = (saved([([0], Output("progress", data=bar))], 1) for bar in bars)
    assert slow == quick
    slow, quick = (saved([([0], Output("progress", data=b))], 1, times=True) for b in bars)
    assert slow != quick


SAID = st.lists(
    st.one_of(
        st.sampled_from("abc").map(text),
        st.sampled_from("xy").map(figure),
        st.just(text("one\ntwo", is_block=True)),
        st.just(text("warned", "stderr")),
        st.just(Output("stdout", "half")),
    ),
    max_size=6,
)


@given(st.lists(SAID, min_size=2, max_size=3), st.sampled_from(GROUPINGS), st.data())
@settings(max_examples=150)
def test_what_is_saved_does_not_depend_on_when_it_arrived(said, grouping, data):
    in_turn = [([rank], output) for rank, outputs in enumerate(said) for output in outputs]
    order = data.draw(st.permutations([rank for (rank,), _ in in_turn]))
    queues = [iter(outputs) for outputs in said]
    mixed = [([rank], next(queues[rank])) for rank in order]
    ends = data.draw(st.permutations(range(len(said))))
    size = len(said)
    assert saved(in_turn, size, group_outputs=grouping) == saved(
        mixed, size, group_outputs=grouping, shuffle=ends
    )


@given(SAID, st.sampled_from(GROUPINGS))
@settings(max_examples=50)
def test_nor_on_whether_equal_outputs_came_in_one_message(said, grouping):
    together = [((0, 1, 2), output) for output in said]
    apart = [([rank], output) for rank in (2, 0, 1) for output in said]
    assert saved(together, group_outputs=grouping) == saved(apart, group_outputs=grouping)


def test_figures_stand_below_each_other_unless_asked_for():
    arrivals = [([rank], figure(f"figure {rank}")) for rank in range(12)]
    assert "inline-block" not in saved(arrivals, 12)["text/html"]
    assert saved(arrivals, 12, figures="row")["text/html"].count("inline-block") >= 12
    assert "inline-block" in saved(arrivals[:3], figures="row")["text/html"]


def test_an_empty_picture_is_empty():
    assert CellPicture().is_empty
