import pytest
from fakes.recorded import DAY_MS, MS, call, host, rank

from jupyter_dist.cluster.collectives.clocks import bring_together
from jupyter_dist.cluster.collectives.shared_calls import see_ranks, share_calls


def clocks_of(*hosts, world_size=2):
    seen = see_ranks(hosts)
    return bring_together(seen, share_calls(seen, world_size).values())


def reduces(*ends_ms, operation="all_reduce", **more):
    return [
        call(operation, number, end_ms - 1, end_ms, **more)
        for number, end_ms in enumerate(ends_ms, 1)
    ]


def test_the_first_hosts_clock_is_right_by_definition():
    clocks = clocks_of(host("a", rank(0, *reduces(10, 20))), host("b", rank(1, *reduces(10, 20))))
    assert clocks["a"].correction_ns == 0
    assert clocks["a"].offset_ns == DAY_MS * MS


def test_a_clock_is_moved_by_the_median_of_what_it_is_apart():
    # It shows 1000 ms too much; one of three collectives took a moment longer there.
    other = host("b", rank(1, *reduces(10, 25, 31)), ahead_ms=1000)
    clock = clocks_of(host("a", rank(0, *reduces(10, 20, 30))), other)["b"]
    assert clock.correction_ns == -1001 * MS
    assert clock.offset_ns == (DAY_MS - 1) * MS
    assert clock.samples == 3


def test_of_several_ranks_of_a_host_the_middle_one_counts():
    ranks = [rank(number, *reduces(end_ms)) for number, end_ms in ((1, 10), (2, 11), (3, 90))]
    clock = clocks_of(host("a", rank(0, *reduces(10))), host("b", *ranks), world_size=4)["b"]
    assert clock.correction_ns == -1 * MS


@pytest.mark.parametrize(
    "calls",
    [
        reduces(15, operation="broadcast"),
        reduces(15, operation="send"),
        reduces(15, has_failed=True),
        reduces(15, group="0-1~torch"),
        [call("all_reduce", 1, 15)],
        [],
    ],
)
def test_without_collectives_that_both_ended_together_its_time_of_day_has_to_do(calls):
    like = {"operation": calls[0].operation, "group": calls[0].group} if calls else {}
    first = host("a", rank(0, *reduces(10, **like)))
    clock = clocks_of(first, host("b", rank(1, *calls), ahead_ms=7))["b"]
    assert (clock.correction_ns, clock.samples) == (0, 0)
    assert clock.offset_ns == (DAY_MS + 7) * MS


def test_a_collective_that_not_all_have_ended_says_nothing():
    clocks = clocks_of(
        host("a", rank(0, *reduces(10))), host("b", rank(1, *reduces(15)), rank(2)), world_size=3
    )
    assert clocks["b"].samples == 0


def test_a_group_is_enough_if_the_first_host_is_in_it():
    clocks = clocks_of(
        host("a", rank(0, *reduces(10, group="0,1"))),
        host("b", rank(1, *reduces(15, group="0,1"))),
        host("c", rank(2, *reduces(15, group="2-3")), rank(3, *reduces(15, group="2-3"))),
        world_size=4,
    )
    assert [clocks[name].correction_ns for name in "abc"] == [0, -5 * MS, 0]


def test_nobody_has_no_clock():
    assert clocks_of() == {}
