from itertools import combinations

import pytest

from jupyter_dist.model.topology import LinkGroup
from jupyter_dist.model.wiring import group_by_distance, group_by_nvlink, mark_p2p


def said(groups):
    return [(group.kind, group.gpus) for group in groups]


def way_between(groups, pair):
    """As a view reads groups: the smallest one that holds both."""
    holding = [group for group in groups if set(pair) <= set(group.gpus)]
    return min(holding, key=lambda group: len(group.gpus)).kind


def test_groups_are_nested_and_each_is_said_once():
    distances = dict.fromkeys(combinations(range(4), 2), "SYS")
    distances |= {(0, 1): "PIX", (2, 3): "PXB"}
    assert said(group_by_distance(distances)) == [
        ("PIX", (0, 1)),
        ("PXB", (2, 3)),
        ("SYS", (0, 1, 2, 3)),
    ]


def test_all_alike_is_one_group_and_nothing_is_none():
    assert said(group_by_distance(dict.fromkeys(combinations(range(8), 2), "PHB"))) == [
        ("PHB", tuple(range(8)))
    ]
    assert group_by_distance({}) == ()


@pytest.mark.parametrize(
    "distances",
    [
        {(0, 1): "PIX", (1, 2): "PIX", (0, 2): "SYS"},
        {(0, 1): "NODE", (0, 2): "PHB", (0, 3): "SYS", (1, 2): "PIX", (1, 3): "PHB", (2, 3): "PXB"},
    ],
)
def test_ways_that_do_not_nest_are_still_told_as_they_are(distances):
    groups = group_by_distance(distances)
    assert {pair: way_between(groups, pair) for pair in distances} == distances


def test_gpus_at_switches_are_one_group():
    (group,) = group_by_nvlink({}, dict.fromkeys(range(8), 18))
    assert group == LinkGroup(kind="nvlink", gpus=tuple(range(8)), lanes=18, is_switched=True)


def test_direct_links_are_as_few_groups_as_hold_every_pair():
    cube = {(0, 1): 2, (0, 2): 1, (0, 3): 1, (1, 2): 1, (1, 3): 2, (2, 3): 2}
    groups = group_by_nvlink(cube, {})
    assert all(not group.is_switched for group in groups)
    lanes = {}
    for group in groups:
        for pair in combinations(group.gpus, 2):
            assert lanes.setdefault(pair, group.lanes) == group.lanes, "said twice, otherwise"
    assert lanes == cube


def test_four_gpus_joined_alike_are_one_group():
    (group,) = group_by_nvlink(dict.fromkeys(combinations(range(4), 2), 6), {})
    assert (group.gpus, group.lanes, group.is_switched) == ((0, 1, 2, 3), 6, False)


def test_one_gpu_at_a_switch_is_joined_with_nobody():
    assert group_by_nvlink({}, {0: 18}) == ()


def test_p2p_is_said_only_where_all_agree():
    groups = [LinkGroup(kind="SYS", gpus=(0, 1, 2)), LinkGroup(kind="PIX", gpus=(0, 1))]
    pairs = {(0, 1): True, (0, 2): False, (1, 2): False}
    assert [group.has_p2p for group in mark_p2p(groups, pairs)] == [None, True]
    assert [group.has_p2p for group in mark_p2p(groups, dict.fromkeys(pairs, False))] == [False] * 2
    assert [group.has_p2p for group in mark_p2p(groups, {})] == [None, None]
