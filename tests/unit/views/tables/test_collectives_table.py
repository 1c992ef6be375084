import pytest
from fakes.notebook import Page
from fakes.recorded import call, host, rank

from jupyter_dist.cluster.collectives.collective_table import tabulate
from jupyter_dist.views.tables.collectives_table import (
    MOST_COLUMNS,
    collectives_html,
    collectives_text,
    duration_text,
)


def table(*ranks, world_size=None, last=20, problems=None):
    return tabulate([host("a", *ranks)], problems or {}, world_size or len(ranks), last)


def hang(world_size, *, late=1):
    """All ranks wait in their second collective for one that has not come."""
    done = call("all_reduce", 16, 10, 11.25)
    waiting = [done, call("barrier", 17, 48_000, site="In[1]:9")]
    return table(
        *(rank(each, *([done] if each == late else waiting)) for each in range(world_size))
    )


def test_a_hang_is_seen_at_once():
    verdict = (
        "▶ ranks 0,2 wait in barrier() #17 at In[1]:9 for 12 s; rank 1 has not called it yet: its "
        "last call was all_reduce(float32[4], sum) #16 at In[1]:7"
    )
    assert collectives_text(hang(3)).splitlines() == [
        "    #  call                         site     0         1         2",
        "   16  all_reduce(float32[4], sum)  In[1]:7  ✓ 1.2 ms  ✓ 1.2 ms  ✓ 1.2 ms",
        "▶  17  barrier()                    In[1]:9  ⧗ 12 s    \N{EN DASH}         ⧗ 12 s",
        verdict,
        "⧗ waits in it  \N{EN DASH} never called it",
    ]


def test_every_state_has_its_mark():
    ranks = [
        rank(0, call("barrier", 1, 10, 12)),
        rank(1, call("barrier", 1, 10)),
        rank(2, call("barrier", 1, 10, 13, has_failed=True)),
        rank(3, call("barrier", 1, 59_000), has_ended=True),
        rank(4),
        rank(5, call("barrier", 2, 20, 21), omitted=1),
        rank(6, call("all_reduce", 1, 10)),
    ]
    first = collectives_text(table(*ranks, world_size=8)).splitlines()[1]
    states = ["✓ 2.0 ms", "⧗ 60 s", "✗ 3.0 ms", "✗ lost 1.0 s", "\N{EN DASH}", "…", "≠", "?"]
    assert first.split() == " ".join(["▶ 1 barrier() In[1]:7", *states]).split()


def test_many_ranks_that_look_alike_share_a_column():
    head, *rows = collectives_text(hang(64, late=5)).splitlines()[:3]
    assert head.split() == ["#", "call", "site", "[0-4,6-63]", "5"]
    assert rows[1].split("In[1]:9")[1].split() == ["⧗", "12", "s", "\N{EN DASH}"]


def test_a_shared_column_tells_the_longest_time():
    done = [rank(each, call("barrier", 1, 10, 10 + each)) for each in range(MOST_COLUMNS + 1)]
    assert "✓ ≤ 8.0 ms" in collectives_text(table(*done))


def test_a_few_ranks_keep_a_column_each():
    head = collectives_text(hang(MOST_COLUMNS)).splitlines()[0]
    assert head.split()[3:] == [str(each) for each in range(MOST_COLUMNS)]


def test_what_is_not_shown_is_told_below():
    calls = [call("barrier", number, 10 * number, 10 * number + 1) for number in range(1, 9)]
    text = collectives_text(table(rank(0, *calls), last=3, problems={"b": "gone"}))
    assert text.splitlines()[-2:] == ["b: gone", "not shown: 5 more rows"]


def test_a_cluster_that_has_called_nothing_says_so():
    (said,) = collectives_text(table(rank(0))).splitlines()
    assert Page(collectives_html(table(rank(0)))).text == [said]
    text = collectives_text(table(problems={"a": "gone"}, world_size=1))
    assert text.splitlines()[:2] == [said, "a: gone"]
    assert "rank 0" in text


def test_html_says_the_same_as_the_text():
    page = Page(collectives_html(hang(3)))
    assert [[cell.strip() for cell in row] for row in page.rows] == [
        ["", "#", "call", "site", "0", "1", "2"],
        ["", "16", "all_reduce(float32[4], sum)", "In[1]:7", *["✓ 1.2 ms"] * 3],
        ["▶", "17", "barrier()", "In[1]:9", "⧗ 12 s", "\N{EN DASH}", "⧗ 12 s"],
    ]
    assert f"▶ {hang(3).verdict}" in "".join(page.text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 ms"),
        (0.000123, "0.12 ms"),
        (0.00123, "1.2 ms"),
        (0.0123, "12 ms"),
        (0.9994, "999 ms"),
        (0.9999, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (123.4, "123 s"),
    ],
)
def test_a_time_is_as_short_as_it_can_be_read(seconds, text):
    assert duration_text(seconds) == text
