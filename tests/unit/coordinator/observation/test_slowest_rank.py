import pytest

from jupyter_dist.coordinator.observation.rank_snapshot import RankSnapshot
from jupyter_dist.coordinator.observation.slowest_rank import WINDOW_S, SlowestWatch
from jupyter_dist.model.hosts.topology import CollectiveView
from jupyter_dist.model.ranks.stacks import Frame

CALL = CollectiveView(7, "all_reduce", 0.1, is_running=True)
STACK = (Frame("<module>", "In[5]:12", "slow()"),)
STEP_S = 0.25


def look(inside, **more):
    return [
        RankSnapshot(
            rank=rank,
            collective=CALL if is_inside else None,
            stack=() if is_inside else STACK,
            **more,
        )
        for rank, is_inside in enumerate(inside)
    ]


def watched(*looks, seconds=WINDOW_S + 1):
    """What is said after these looks were seen again and again for so long."""
    watch, now_s = SlowestWatch(), 100.0
    for number in range(int(seconds / STEP_S)):
        watch.take(looks[number % len(looks)], now_s)
        now_s += STEP_S
    return watch.text


def test_who_is_in_collectives_least_is_slowest_and_its_place_is_told():
    text = watched(look([True, True, False]))
    assert "rank 2 " in text
    assert "In[5]:12" in text


def test_nothing_is_said_before_the_window_is_over():
    assert not watched(look([True, True, False]), seconds=WINDOW_S - 1)


@pytest.mark.parametrize(
    "looks",
    [
        [look([True, True])],
        [look([False, False])],
        [look([True, False]), look([False, True])],
        [look([True, True])] * 5 + [look([True, False])],
    ],
)
def test_ranks_that_wait_alike_are_not_told_of(looks):
    assert not watched(*looks)


def test_what_was_said_is_over_when_ranks_are_alike_again():
    watch, now_s = SlowestWatch(), 100.0
    for seen in (look([True, False]), look([True, True])):
        for _ in range(int(WINDOW_S / STEP_S) + 2):
            watch.take(seen, now_s)
            now_s += STEP_S
    assert not watch.text


def test_a_rank_that_has_ended_ends_the_comparison():
    ended = look([True])[0], *look([False, False], status="ok")[1:]
    assert not watched(look([True, False]), ended)


def test_few_looks_say_nothing():
    watch = SlowestWatch()
    watch.take(look([True, False]), 0.1)
    watch.take(look([True, False]), 0.1 + WINDOW_S)
    assert not watch.text
