from fakes.profiled import line

from jupyter_dist.cluster.profiling.rank_times import RankTime, Window
from jupyter_dist.cluster.profiling.slowness import find_slowness

SECOND = Window(0, 1_000_000_000)
LINE, OTHER = line(7, code="slow()"), line(3)


def times(waits, places=None, idle=()):
    return {
        rank: RankTime(
            rank,
            0.0 if rank in idle else 1 - wait_s,
            wait_s,
            0.0,
            1.0 if rank in idle else 0.0,
            (places or {}).get(rank, {}),
        )
        for rank, wait_s in enumerate(waits)
    }


def test_who_waits_least_is_slow_at_the_line_where_the_others_are_faster():
    places = {0: {OTHER: 0.2}, 1: {OTHER: 0.3, LINE: 0.6}, 2: {OTHER: 0.2, LINE: 0.1}}
    found = find_slowness(times([0.7, 0.1, 0.7], places), SECOND)
    assert (found.ranks, found.place) == ((1,), LINE)
    assert (found.own_s, found.others_s) == (0.6, 0.05)


def test_a_line_where_all_take_long_is_not_the_place():
    places = {0: {OTHER: 0.5}, 1: {OTHER: 0.5, LINE: 0.3}}
    assert find_slowness(times([0.4, 0.0], places), SECOND).place == LINE


def test_several_may_be_slow():
    assert find_slowness(times([0.8, 0.05, 0.1, 0.8]), SECOND).ranks == (1, 2)


def test_small_differences_are_no_slowness():
    found = find_slowness(times([0.3, 0.25]), SECOND)
    assert found.ranks == ()
    assert found.reason


def test_without_collectives_and_without_cells_no_rank_is_named():
    for case in (times([0.0, 0.0]), times([0.0, 0.0], idle=(0, 1)), times([0.0, 0.0], idle=(0,))):
        found = find_slowness(case, SECOND)
        assert (found.ranks, bool(str(found))) == ((), True)


def test_an_idle_rank_is_not_slow():
    assert find_slowness(times([0.6, 0.0, 0.1], idle=(1,)), SECOND).ranks == (2,)


def test_one_rank_is_compared_with_none():
    assert find_slowness(times([0.5]), SECOND).ranks == ()


def test_of_no_time_at_all_nothing_is_claimed():
    for case in (times([0.0, 0.0]), {}):
        found = find_slowness(case, Window(5, 5))
        assert (found.ranks, "idle" in found.reason) == ((), False)
