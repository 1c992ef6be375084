import pytest
from fakes.profiled import every, line, sampled
from fakes.recorded import DAY_MS, MS, call, host, rank

from jupyter_dist.cluster.collectives.timeline import Timeline
from jupyter_dist.cluster.profiling.rank_times import (
    IDLE,
    Window,
    find_parts,
    find_window,
    own_place,
    read_samples,
    sum_up,
)
from jupyter_dist.model.ranks.stacks import Frame

WORK = line(3)


def timeline_of(*ranks):
    return Timeline("demo", [host("a", *ranks)], {}, len(ranks))


def window(start_ms, end_ms):
    return Window((start_ms + DAY_MS) * MS, (end_ms + DAY_MS) * MS)


def spans(parts):
    return [
        (each.start_ns // MS - DAY_MS, each.end_ns // MS - DAY_MS, each.doing) for each in parts
    ]


BARRIER = (rank(0, call("barrier", 1, 10, 50)), rank(1, call("barrier", 1, 40, 51)))


def test_a_collective_is_a_wait_until_the_last_has_come_and_then_exchange():
    timeline = timeline_of(*BARRIER)
    found = spans(find_parts(timeline, 0, window(0, 100)))
    assert found == [(10, 40, "wait"), (40, 50, "exchange")]
    assert spans(find_parts(timeline, 1, window(0, 100))) == [(40, 51, "exchange")]


def test_parts_are_cut_where_the_window_ends():
    assert spans(find_parts(timeline_of(*BARRIER), 0, window(20, 45))) == [
        (20, 40, "wait"),
        (40, 45, "exchange"),
    ]


def test_who_waits_for_one_that_never_comes_waits_to_the_end():
    timeline = timeline_of(rank(0, call("barrier", 1, 10)), rank(1))
    assert spans(find_parts(timeline, 0, window(0, 100))) == [(10, 100, "wait")]


def test_a_call_of_a_framework_is_a_wait_as_a_whole():
    own = call("all_reduce", 1, 10, 30, group="0-1~torch")
    timeline = timeline_of(rank(0, own), rank(1, own))
    assert spans(find_parts(timeline, 0, window(0, 100))) == [(10, 30, "wait")]


def test_calls_at_the_same_time_count_once():
    timeline = timeline_of(
        rank(0, call("barrier", 1, 10, 50), call("barrier", 2, 20, 60)),
        rank(1, call("barrier", 1, 10, 50), call("barrier", 2, 20, 60)),
    )
    found = find_parts(timeline, 0, window(0, 100))
    assert sum(each.end_ns - each.start_ns for each in found) == 50 * MS


def test_a_sample_stands_for_the_time_since_the_one_before_it():
    timeline = timeline_of(*BARRIER)
    profile = sampled((10, WORK), (30, WORK), (80,), (90, WORK))
    parts = find_parts(timeline, 0, window(0, 100))
    found = [
        (each.doing, round(each.seconds * 1000), each.stack[-1].function)
        for each in read_samples(profile, DAY_MS * MS, parts, window(0, 100))
    ]
    assert found == [
        ("wait", 10, "wait in barrier"),
        ("wait", 20, "wait in barrier"),
        ("idle", 50, IDLE.function),
        ("work", 10, "<module>"),
    ]


def test_the_window_is_what_all_have_in_common():
    timeline = timeline_of(rank(0), rank(1))
    profiles = {0: sampled(began_ms=10, ended_ms=90), 1: sampled(began_ms=20, ended_ms=100)}
    assert find_window(timeline, profiles) == window(20, 90)


def test_it_begins_where_recorders_reach_back_to():
    timeline = timeline_of(rank(0, call("barrier", 7, 50, 60), omitted=3), rank(1))
    found = find_window(timeline, {0: sampled(), 1: sampled()})
    assert (found.is_cut, found.start_ns) == (True, (50 + DAY_MS) * MS)


def test_the_time_of_a_rank_adds_up():
    timeline = timeline_of(*BARRIER)
    parts = find_parts(timeline, 0, window(0, 100))
    samples = [*every(10, WORK, until_ms=90), (100,)]
    read = list(read_samples(sampled(*samples), DAY_MS * MS, parts, window(0, 100)))
    own = sum_up(0, parts, read, window(0, 100))
    assert (own.wait_s, own.exchange_s) == pytest.approx((0.03, 0.01))
    assert own.work_s + own.idle_s == pytest.approx(0.06)
    assert own.idle_s == pytest.approx(0.01, abs=0.003)
    assert set(own.places) == {WORK}


def test_the_place_is_what_the_user_wrote():
    library = Frame("sort", "/usr/lib/python3.11/heapq.py:9")
    module = line(7, "step", file="/srv/train.py")
    assert own_place((WORK, module, library)) == module
    assert own_place((library,)) == library


def test_time_inside_torch_distributed_is_a_wait_though_no_recorder_has_it():
    inside = Frame("all_reduce", "/env/torch/distributed/distributed_c10d.py:2900")
    timeline = timeline_of(rank(0), rank(1))
    profile = sampled(*every(10, WORK, until_ms=30), *[(ms, WORK, inside) for ms in (60, 100)])
    read = list(read_samples(profile, DAY_MS * MS, [], window(0, 100)))
    own = sum_up(0, find_parts(timeline, 0, window(0, 100)), read, window(0, 100))
    assert (own.work_s, own.wait_s) == pytest.approx((0.03, 0.07))
    assert set(own.places) == {WORK}


def test_what_recorders_have_forgotten_altogether_leaves_nothing_to_compare():
    timeline = timeline_of(rank(0, call("barrier", 7, 150, 160), omitted=3), rank(1))
    found = find_window(timeline, {0: sampled(), 1: sampled()})
    assert (found.is_cut, found.seconds) == (True, 0)
