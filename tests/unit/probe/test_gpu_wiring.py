from itertools import combinations

import pytest

from jupyter_dist.model.hosts.topology import LinkGroup
from jupyter_dist.probe.gpu_wiring import group_by_distance, group_by_nvlink, link_groups

ALL = tuple(range(8))
HGX = (
    LinkGroup(kind="nvlink", gpus=ALL, lanes=18, is_switched=True),
    LinkGroup(kind="NODE", gpus=(0, 1, 2, 3)),
    LinkGroup(kind="NODE", gpus=(4, 5, 6, 7)),
    LinkGroup(kind="SYS", gpus=ALL),
)


def without(*functions):
    def change(record):
        for gpu in record["gpus"]:
            for function in functions:
                gpu.pop(f"nvmlDeviceGet{function}", None)

    return change


def test_eight_gpus_behind_switches_are_four_groups(recorded):
    recorded("hgx_h200")
    assert link_groups() == HGX


def test_gpus_on_pci_express_are_nested_groups(recorded):
    recorded("pcie_only")
    assert link_groups() == (
        LinkGroup(kind="PIX", gpus=(0, 1)),
        LinkGroup(kind="NODE", gpus=(0, 1, 2)),
        LinkGroup(kind="SYS", gpus=(0, 1, 2, 3)),
    )


def test_bridged_gpus_share_the_lanes_that_lead_to_each_other(recorded):
    def bridge(record):
        buses = [gpu["nvmlDeviceGetPciInfo"] for gpu in record["gpus"]]
        for index, gpu in enumerate(record["gpus"]):
            gpu["nvmlDeviceGetNvLinkState"] = [1, 1, 1, 0]
            gpu["nvmlDeviceGetNvLinkRemoteDeviceType"] = [0, 0, 0, 0]
            gpu["nvmlDeviceGetNvLinkRemotePciInfo"] = [buses[index ^ 1]] * 4

    recorded("pcie_only", bridge)
    assert [group for group in link_groups() if group.kind == "nvlink"] == [
        LinkGroup(kind="nvlink", gpus=(0, 1), lanes=3),
        LinkGroup(kind="nvlink", gpus=(2, 3), lanes=3),
    ]
    recorded(
        "pcie_only", lambda record: (bridge(record), without("NvLinkRemoteDeviceType")(record))
    )
    assert [group.gpus for group in link_groups() if group.kind == "nvlink"] == [(0, 1), (2, 3)]


def test_links_to_gpus_that_are_not_in_this_container_lead_nowhere(recorded):
    def divide(record):
        record["gpus"] = record["gpus"][:1]
        record["gpus"][0] |= {
            "nvmlDeviceGetNvLinkState": [1],
            "nvmlDeviceGetNvLinkRemoteDeviceType": [0],
            "nvmlDeviceGetNvLinkRemotePciInfo": [{"busId": "00000000:99:00.0"}],
        }

    recorded("pcie_only", divide)
    assert link_groups() == ()


def test_switches_may_keep_gpus_apart(recorded):
    def divide(record):
        for index, gpu in enumerate(record["gpus"]):
            own = [0 if (other < 4) == (index < 4) else 5 for other in range(8)]
            gpu["nvmlDeviceGetP2PStatus"]["2"] = own

    recorded("hgx_h200", divide)
    assert [group.gpus for group in link_groups() if group.is_switched] == [ALL[:4], ALL[4:]]


def test_a_gpu_with_links_that_are_down_has_fewer_lanes(recorded):
    def damage(record):
        record["gpus"][2]["nvmlDeviceGetNvLinkState"] = [1] * 16 + [0] * 2

    recorded("hgx_h200", damage)
    nvlinks = [(group.lanes, group.gpus) for group in link_groups() if group.kind == "nvlink"]
    assert nvlinks == [(18, (0, 1, 3, 4, 5, 6, 7)), (16, ALL)]


@pytest.mark.parametrize(
    ("missing", "kinds"),
    [
        (("NvLinkState",), {"NODE", "SYS"}),
        (("TopologyCommonAncestor",), {"nvlink"}),
        (("NvLinkState", "TopologyCommonAncestor"), set()),
        (("P2PStatus",), {"nvlink", "NODE", "SYS"}),
        (("PciInfo",), {"nvlink", "NODE", "SYS"}),
    ],
)
def test_what_the_driver_does_not_tell_is_not_in_it(recorded, missing, kinds):
    recorded("hgx_h200", without(*missing))
    assert {group.kind for group in link_groups()} == kinds


def test_a_gpu_that_is_lost_is_in_no_group(recorded):
    def lose(record):
        record["gpus"][0] = None

    recorded("hgx_h200", lose)
    groups = link_groups()
    assert {gpu for group in groups for gpu in group.gpus} == set(range(1, 8))
    pairs = {pair for group in groups for pair in combinations(group.gpus, 2)}
    assert pairs == set(combinations(range(1, 8), 2))


def test_one_gpu_or_none_is_joined_with_nothing(recorded, machine):
    recorded("hgx_h200", lambda record: record["gpus"].__delitem__(slice(1, None)))
    assert link_groups() == ()
    machine(None)
    assert link_groups() == ()


# --- how pairs become groups ---


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
