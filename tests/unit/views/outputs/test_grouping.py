import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.protocol.messages import ErrorInfo, RankFinished
from jupyter_dist.views.outputs.grouping import (
    DECIDE_AFTER_S,
    Entry,
    LineMerger,
    group_equal,
    group_errors,
    label_ranks,
    last_frame,
    merge,
    outliers_first,
)


def arrived(*said):
    """Sequences per rank from (rank, line) pairs in their order of arrival."""
    sequences = {}
    for order, (rank, line) in enumerate(said):
        sequences.setdefault((rank,), []).append(Entry(order, "stdout", line))
    return sequences


def shown(rows):
    return [(row.ranks, row.entry.content) for row in rows]


def steps(rank):
    return [(rank, f"step {k}") for k in range(5)]


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ([], []),
        ([(0, "a"), (1, "a"), (2, "a")], [((0, 1, 2), "a")]),
        (
            [(1, "x"), (0, "y"), (1, "z"), (0, "w")],
            [((1,), "x"), ((0,), "y"), ((1,), "z"), ((0,), "w")],
        ),
        (steps(0) + steps(1), [((0, 1), f"step {k}") for k in range(5)]),
        (
            [(0, "tick"), (0, "tick"), (0, "tick"), (1, "tick"), (0, "done"), (1, "done")],
            [((0, 1), "tick"), ((0,), "tick"), ((0,), "tick"), ((0, 1), "done")],
        ),
        (
            [(0, "a"), (0, "b"), (1, "extra"), (1, "a"), (1, "b")],
            [((1,), "extra"), ((0, 1), "a"), ((0, 1), "b")],
        ),
    ],
    ids=["nothing", "equal", "different", "loops apart", "a repeated line", "a line of one rank"],
)
def test_equal_lines_become_one_row_and_all_stay_in_order_of_arrival(said, rows):
    assert shown(merge(arrived(*said))) == rows


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcde")), max_size=60))
def test_the_own_order_of_each_rank_is_always_kept(said):
    sequences = arrived(*said)
    rows = merge(sequences)
    for (rank,), entries in sequences.items():
        assert [r.entry.content for r in rows if rank in r.ranks] == [e.content for e in entries]


def test_stdout_and_stderr_are_not_the_same_line():
    rows = merge({(0,): [Entry(0, "stdout", "a")], (1,): [Entry(1, "stderr", "a")]})
    assert [row.ranks for row in rows] == [(0,), (1,)]


def test_ranks_without_lines_merge_to_nothing():
    assert merge({(0,): [], (1,): []}) == []


def test_a_line_that_everyone_has_printed_is_decided_at_once():
    merger = LineMerger()
    merger.offer([0], [Entry(0, "stdout", "a")], 10.0)
    assert merger.settle(10.0, 2, frozenset()) == []
    merger.offer([1], [Entry(1, "stdout", "a")], 10.1)
    assert shown(merger.settle(10.1, 2, frozenset())) == [((0, 1), "a")]
    assert merger.settle(20.0, 2, frozenset()) == []


def test_a_line_of_one_rank_is_decided_in_time():
    merger = LineMerger()
    merger.offer([0], [Entry(0, "stdout", "a")], 10.0)
    assert merger.settle(10.0 + DECIDE_AFTER_S / 2, 2, frozenset()) == []
    assert shown(merger.settle(10.01 + DECIDE_AFTER_S, 2, frozenset())) == [((0,), "a")]


def test_finished_ranks_are_not_waited_for():
    merger = LineMerger()
    merger.offer([0], [Entry(0, "stdout", "a")], 10.0)
    assert shown(merger.settle(10.0, 1, frozenset({1}))) == [((0,), "a")]


def test_too_much_that_waits_is_handed_out_from_its_old_end():
    merger = LineMerger()
    orders = itertools.count()
    merger.offer([0], [Entry(next(orders), "stdout", str(k)) for k in range(5000)], 1.0)
    rows = merger.settle(1.0, 2, frozenset())
    assert 2000 < len(rows) < 5000
    rest = merger.settle(9.0, 2, frozenset())
    assert [r.entry.content for r in rows + rest] == [str(k) for k in range(5000)]


def test_equal_values_group_in_rank_order_and_outliers_come_first():
    groups = group_equal({2: "x", 0: "x", 1: "y", 3: "x"})
    assert groups == [(0, 2, 3), (1,)]
    assert outliers_first(groups) == [(1,), (0, 2, 3)]


def test_labels_are_short_even_for_scattered_ranks():
    assert label_ranks(range(8)) == "[0-7]"
    long = label_ranks(range(0, 64, 2))
    assert long == "[0,2,4,6,8,… 32 ranks]"


def raised(rank, ename="ZeroDivisionError", evalue="division by zero", line=7):
    traceback = (f"\x1b[36mCell In[3], line {line}\x1b[0m", f"{ename}: {evalue}")
    return RankFinished(rank, "raised", 1.0, None, ErrorInfo(ename, evalue, traceback))


def test_tracebacks_group_by_type_and_last_frame():
    ranks = {rank: raised(rank) for rank in (3, 9, 10, 11)}
    ranks[4] = raised(4, line=9)
    ranks[5] = raised(5, "KeyError", "'x'")
    ranks[0] = RankFinished(0, "ok", 1.0)
    headings = [group.heading for group in group_errors(ranks)]
    assert headings == [
        "ZeroDivisionError on ranks 3,9-11 (4)",
        "ZeroDivisionError on rank 4",
        "KeyError on rank 5",
    ]


def test_causes_come_before_consequences():
    finished = {
        0: RankFinished(0, "peer_failed", 1.0, None, ErrorInfo("PeerFailed", "rank 2 raised")),
        1: RankFinished(1, "lost", 1.0),
        2: raised(2),
    }
    assert [group.status for group in group_errors(finished)] == ["raised", "lost", "peer_failed"]
    assert group_errors(finished)[1].heading == "RankLost on rank 1"


def test_texts_that_differ_within_a_group_are_kept_with_their_ranks():
    finished = {0: raised(0, evalue="a"), 1: raised(1, evalue="b"), 2: raised(2, evalue="a")}
    (group,) = group_errors(finished)
    assert group.messages == (("a", (0, 2)), ("b", (1,)))


@pytest.mark.parametrize(
    ("traceback", "frame"),
    [
        (("Cell In[3], line 7", "Cell In[3], line 2, in f()"), "Cell In[3]:2"),
        (("File ~/a.py:12, in g(x)",), "File ~/a.py:12"),
        (('  File "/x/a.py", line 3, in f',), 'File "/x/a.py":3'),
        ((), ""),
    ],
)
def test_the_last_frame_is_found_in_every_style_of_traceback(traceback, frame):
    assert last_frame(traceback) == frame


def test_an_unresponsive_rank_stands_before_those_that_were_interrupted():
    finished = {
        0: RankFinished(0, "interrupted", 1.0, None, ErrorInfo("KeyboardInterrupt", "")),
        1: RankFinished(
            1, "unresponsive", 7.0, None, ErrorInfo("CellInterrupted", "is still busy")
        ),
        2: RankFinished(2, "unresponsive", 7.0),
    }
    headings = [group.heading for group in group_errors(finished)]
    assert headings == ["CellInterrupted on ranks 1-2 (2)", "KeyboardInterrupt on rank 0"]
