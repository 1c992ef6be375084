import pytest

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.torch.request import (
    ENV,
    FOREIGN,
    TCP,
    GroupRequest,
    Place,
    check_place,
    check_wanted,
    have_own_ports,
    read_init_method,
)

FINE = GroupRequest(version="2.13.0", backends="cpu:gloo")


def all_but(rank, other, world_size=4):
    return {each: other if each == rank else FINE for each in range(world_size)}


def test_ranks_that_want_the_same_agree():
    check_wanted(dict.fromkeys(range(4), FINE))


def test_an_opened_store_on_rank_0_alone_is_no_difference():
    check_wanted(all_but(0, GroupRequest("2.13.0", "cpu:gloo", store="127.0.0.1:5")))


@pytest.mark.parametrize(
    ("other", "error", "said"),
    [
        (GroupRequest(mistake="x=1 was given"), UsageError, "rank 2: x=1 was given."),
        (GroupRequest(obstacle="no torch"), FrameworkError, "rank 2: no torch."),
        (
            GroupRequest("2.6.0", "cpu:gloo"),
            FrameworkError,
            "2.13.0 on ranks 0-1,3, 2.6.0 on rank 2",
        ),
        (GroupRequest("2.13.0", "cuda:nccl"), UsageError, "cuda:nccl on rank 2"),
        (
            GroupRequest("2.13.0", "cpu:gloo", FOREIGN),
            UsageError,
            "an init_method that is the same",
        ),
        (GroupRequest("2.13.0", "cpu:gloo", port=7), UsageError, "(none):7 on rank 2"),
        (
            GroupRequest("2.13.0", "cpu:gloo", TCP, "h", 7),
            UsageError,
            "an init_method that is the same",
        ),
    ],
)
def test_what_one_rank_wants_otherwise_is_told_with_its_name(other, error, said):
    with pytest.raises(error) as raised:
        check_wanted(all_but(2, other))
    assert said in str(raised.value)


def test_a_new_rank_that_has_heard_of_no_place_is_content():
    chosen = GroupRequest("2.13.0", "cpu:gloo", host="h", port=7)
    check_wanted({0: chosen, 1: FINE, 2: chosen})
    with pytest.raises(UsageError, match=r"\(none\):\(any\) on rank 0, h:7 on rank 1"):
        check_wanted({0: FINE, 1: chosen})


def test_ports_that_ranks_have_found_for_themselves_are_no_disagreement():
    own = {rank: GroupRequest("2.13.0", "cpu:gloo", host="h", port=7 + rank) for rank in range(3)}
    check_wanted(own)
    assert have_own_ports(own)
    for other in (GroupRequest("2.13.0", "cpu:gloo", host="i", port=8), FINE):
        assert not have_own_ports({**own, 1: other})
    with pytest.raises(UsageError, match="h:7 on rank 0, i:8 on rank 1"):
        check_wanted({0: own[0], 1: GroupRequest("2.13.0", "cpu:gloo", host="i", port=8)})


def test_problems_that_differ_by_rank_are_told_by_one_example():
    wanted = {rank: GroupRequest(mistake=f"rank={rank + 1} was given") for rank in range(3)}
    with pytest.raises(UsageError, match=r"rank 0: rank=1 was given \(and 2 more"):
        check_wanted(wanted)


def test_a_loopback_address_is_refused_on_several_hosts_only():
    near = GroupRequest("2.13.0", "cpu:gloo", host="localhost")
    check_wanted({0: near, 1: near})
    far = GroupRequest("2.13.0", "cpu:gloo", host="localhost", on_host=1)
    with pytest.raises(UsageError, match="MASTER_ADDR is 'localhost'"):
        check_wanted({0: near, 1: far})


@pytest.mark.parametrize(
    ("init_method", "environment", "place"),
    [
        (None, {}, Place(ENV)),
        ("env://", {"RANK": "1", "WORLD_SIZE": "2"}, Place(ENV, rank=1, world_size=2)),
        ("env://?rank=3", {"RANK": "1"}, Place(ENV, rank=3)),
        (None, {"MASTER_ADDR": "h", "MASTER_PORT": "29500"}, Place(ENV, "h", 29500)),
        ("tcp://10.0.0.2:41?rank=1&world_size=2", {}, Place(TCP, "10.0.0.2", 41, 1, 2)),
        ("tcp://[fd00::2]:41", {"RANK": "5"}, Place(TCP, "fd00::2", 41)),
        ("file:///shared/meet", {"MASTER_PORT": "7"}, Place(FOREIGN)),
    ],
)
def test_a_place_to_meet_is_read(init_method, environment, place):
    assert read_init_method(init_method, environment) == place


@pytest.mark.parametrize(
    ("init_method", "environment", "named"),
    [
        ("tcp://nowhere", {}, "init_method='tcp://nowhere'"),
        ("tcp://h:99999", {}, "init_method='tcp://h:99999'"),
        ("tcp://h:1?rank=one", {}, "rank='one'"),
        (None, {"MASTER_PORT": "auto"}, "MASTER_PORT='auto'"),
        (None, {"MASTER_PORT": "99999"}, "MASTER_PORT=99999"),
        (None, {"RANK": "first"}, "RANK='first'"),
    ],
)
def test_a_place_that_cannot_be_read_is_told(init_method, environment, named):
    with pytest.raises(UsageError, match=named):
        read_init_method(init_method, environment)


def test_numbers_that_agree_or_are_left_out_are_fine():
    assert check_place(1, 4, [("rank", None), ("world_size", 4), ("RANK", 1)]) == ""
    said = check_place(1, 4, [("rank", 2), ("world_size", 8)])
    assert said.startswith(
        "rank=2 and world_size=8 was given. Accepted here: rank=1 and world_size=4, or leave"
    )
