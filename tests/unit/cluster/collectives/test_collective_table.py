import pytest
from fakes.recorded import call, cell, host, rank

from jupyter_dist.cluster.collectives.collective_table import tabulate


def table(*ranks, world_size=None, last=20, problems=None, hosts=None):
    return tabulate(hosts or [host("a", *ranks)], problems or {}, world_size or len(ranks), last)


def barriers(*numbers, **more):
    return [call("barrier", number, 10 * number, 10 * number + 1, **more) for number in numbers]


def kinds(row):
    return [row.states[number].kind for number in sorted(row.states)]


def whats(found):
    return [(row.number, row.what) for row in found.rows]


def test_calls_of_all_ranks_stand_in_one_row():
    found = table(rank(0, *barriers(1, 2)), rank(1, *barriers(1, 2)))
    assert whats(found) == [(1, "barrier()"), (2, "barrier()")]
    assert kinds(found.rows[0]) == ["done", "done"]
    assert found.rows[0].states[0].seconds == pytest.approx(0.001)
    assert found.ranks == (0, 1)
    assert not any(row.is_marked for row in found.rows)


def test_every_way_in_which_a_call_can_stand_is_told():
    ranks = [
        rank(0, call("barrier", 1, 10, 12)),
        rank(1, call("barrier", 1, 10)),
        rank(2, call("barrier", 1, 10, 13, has_failed=True)),
        rank(3, call("barrier", 1, 10), has_ended=True),
        rank(4),
        rank(5, *barriers(2), omitted=1),
        rank(6, problem="no file"),
    ]
    found = table(*ranks, world_size=8)
    first = found.rows[0]
    told = ["done", "waiting", "failed", "lost", "never", "older", "unread", "unread"]
    assert kinds(first) == told
    assert first.states[1].seconds == pytest.approx(59.99)
    assert first.is_marked


def test_what_only_some_ranks_take_part_in_leaves_the_others_out():
    pair = barriers(1, group="0,2~1")
    found = table(rank(0, *pair), rank(1), rank(2, *pair))
    assert whats(found) == [(1, "barrier() in group 0,2")]
    assert kinds(found.rows[0]) == ["done", "apart", "done"]


def test_different_calls_at_one_place_have_rows_of_their_own_and_most_ranks_come_first():
    odd = call("barrier", 1, 5, site="In[1]:9")
    ranks = [rank(0, odd), *(rank(number, call("all_reduce", 1, 5)) for number in (1, 2))]
    found = table(*ranks, rank(3))
    assert whats(found) == [(1, "all_reduce(float32[4], sum)"), (1, "barrier()")]
    assert kinds(found.rows[0]) == ["other", "waiting", "waiting", "never"]
    assert kinds(found.rows[1]) == ["waiting", "apart", "apart", "apart"]
    assert [row.sites for row in found.rows] == [("In[1]:7",), ("In[1]:9",)]
    assert [row.is_marked for row in found.rows] == [True, True]


def test_calls_on_different_lines_are_one_row_with_all_lines():
    found = table(rank(0, *barriers(1)), rank(1, *barriers(1, site="In[1]:9")))
    (row,) = found.rows
    assert row.sites == ("In[1]:7", "In[1]:9")
    assert row.is_marked


def test_rows_keep_the_order_of_each_rank_whatever_clocks_say():
    early = host("a", rank(0, *barriers(1, 2)))
    late = host("b", rank(1, *barriers(1), call("all_gather_object", 1, 15, 16), *barriers(2)))
    for hosts in ([early, host("b", *late.ranks, ahead_ms=-5000)], [late, early]):
        found = table(hosts=hosts, world_size=2)
        assert [row.what for row in found.rows] == ["barrier()", "all_gather_object()", "barrier()"]


def message(operation, number, start_ms, peer, **more):
    fields = {"dtype": "float32", "shape": "8", **more}
    return call(operation, number, start_ms, start_ms + 1, root=peer, **fields)


def test_messages_at_the_same_place_share_a_row_and_what_differs_is_left_out():
    ranks = [
        rank(number, *barriers(1), message("send_recv", number + 1, 15, (number + 1) % 3))
        for number in range(3)
    ]
    found = table(*ranks)
    assert whats(found) == [(1, "barrier()"), (0, "send_recv(float32[8])")]
    assert kinds(found.rows[1]) == ["done"] * 3


def test_arrays_that_differ_are_left_out_as_well():
    ranks = [rank(number, message("send", 1, 5, 3, shape=str(number))) for number in range(2)]
    assert whats(table(*ranks)) == [(1, "send(…)")]


def test_different_messages_have_rows_of_their_own_and_nobody_is_missing():
    found = table(rank(0, message("send", 1, 5, 1)), rank(1, message("recv", 1, 6, 0)), rank(2))
    assert whats(found) == [(1, "send(float32[8], dest=1)"), (1, "recv(float32[8], source=0)")]
    assert [kinds(row) for row in found.rows] == [
        ["done", "apart", "apart"],
        ["apart", "done", "apart"],
    ]


def test_messages_stay_in_the_order_of_their_rank():
    calls = [message("send", 1, 5, 1), message("recv", 1, 7, 1), message("send", 2, 9, 1)]
    found = table(rank(0, *calls, *barriers(1)), rank(1, *barriers(1)))
    assert [row.what.partition("(")[0] for row in found.rows] == ["send", "recv", "send", "barrier"]


def test_where_older_calls_are_not_known_messages_count_from_what_follows():
    def step(number):
        return [message("send", number, 10 * number - 2, 1), *barriers(number)]

    whole = rank(0, *step(1), *step(2))
    cut = rank(1, *step(1)[1:], *step(2), omitted=9)
    found = table(whole, cut)
    sends = [row for row in found.rows if row.what.startswith("send")]
    assert [kinds(row) for row in sends] == [["done", "apart"], ["done", "done"]]


def test_messages_of_another_cell_are_other_messages():
    cells = [cell(1, 0, 10), cell(2, 20)]
    both = rank(0, message("send", 1, 5, 1), message("send", 2, 25, 1), cells=cells)
    found = table(both, rank(1, message("send", 1, 26, 0), cells=cells))
    assert [kinds(row) for row in found.rows] == [["done", "apart"], ["done", "done"]]


def test_only_the_last_rows_are_shown():
    found = table(rank(0, *barriers(*range(1, 31))), last=5)
    assert [row.number for row in found.rows] == [26, 27, 28, 29, 30]
    assert found.notes == ("not shown: 25 more rows",)


def test_where_ranks_went_apart_is_shown_even_when_it_is_not_among_the_last():
    root = [*barriers(1, 2, 3), call("broadcast", 4, 40, 41, root=0), *barriers(*range(5, 40))]
    found = table(rank(0, *root), rank(1, *barriers(1, 2, 3)), last=4)
    assert [row.number for row in found.rows] == [2, 3, 4, 5]
    assert [row.number for row in found.rows if row.is_marked] == [4]
    assert found.notes == ("not shown: 35 more rows",)


def test_even_a_single_row_shows_all_of_the_place_where_ranks_went_apart():
    ranks = rank(0, *barriers(1)), rank(1, call("all_reduce", 1, 10, 11))
    assert [row.is_marked for row in table(*ranks, last=1).rows] == [True, True]


def test_what_could_not_be_read_is_told():
    found = table(
        rank(0, *barriers(1)),
        rank(1, problem="no file"),
        rank(2, problem="no file"),
        world_size=5,
        problems={"b": "gone"},
    )
    *known, unknown = found.notes
    assert known == ["b: gone", "ranks 1-2: no file"]
    assert unknown.endswith(" ranks 3-4")


def test_nothing_was_called():
    found = table(rank(0), rank(1))
    assert (found.rows, found.verdict, found.notes) == ((), "", ())


def test_what_a_framework_has_counted_is_told_apart():
    calls = [call("jit(step)", 1, 5, 6, group="0-1~jax"), *barriers(1)]
    found = table(rank(0, *calls), rank(1, *calls))
    assert [(row.framework, row.number, row.what) for row in found.rows] == [
        ("JAX", 1, "jit(step)"),
        ("", 1, "barrier()"),
    ]
