import re

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.devices import (
    ALL,
    first_device,
    index_on_host,
    make_shares,
    parse_devices_per_engine,
    share_out,
    visible_devices,
    why_not_shared,
    write_devices_per_engine,
)

TWO = ("0", "1")


@pytest.mark.parametrize(
    ("asked", "inherited", "gpu_count", "devices"),
    [
        ((), None, 3, ("0", "1", "2")),
        ((), None, 0, ()),
        ((), "2,0", 3, ("2", "0")),
        ((), " 2 , 0 ", 3, ("2", "0")),
        *(((), nothing, 3, ()) for nothing in ("", "-1", "NoDevFiles")),
        ((), "GPU-8932f937,MIG-5c89", 3, ("GPU-8932f937", "MIG-5c89")),
        ((2, 0), None, 3, ("2", "0")),
        ((2, 0), "1", 3, ("2", "0")),
        *(((), odd, 2, ("0",)) for odd in ("0,-1,1", "0,,1", "0,9,1")),
        ((), "1,0,1", 2, ("1", "0")),
        *(((), shown, 0, ()) for shown in ("GPU-x,GPU-y", "0,1")),
        ((1,), "0", 0, ("1",)),
    ],
)
def test_devices_are_those_asked_for_else_those_that_cuda_shows_else_all(
    asked, inherited, gpu_count, devices
):
    assert visible_devices(asked, inherited, gpu_count) == devices


def test_devices_are_given_to_all_ranks_of_a_host_or_to_none():
    assert share_out(2, ("3", "5", "7"), oversubscribe=False) == ("3", "5")
    assert share_out(3, ("3", "5"), oversubscribe=False) == ()
    assert share_out(3, ("3", "5"), oversubscribe=True) == ("3", "5", "3")
    assert share_out(1, (), oversubscribe=False) == share_out(3, (), oversubscribe=True) == ()
    assert share_out(0, (), oversubscribe=False) == ()


# --- several devices for each rank ---

EIGHT = tuple("01234567")


@pytest.mark.parametrize(
    ("devices", "per_engine", "shares"),
    [
        (EIGHT, 1, EIGHT),
        (EIGHT, 2, ("0,1", "2,3", "4,5", "6,7")),
        (EIGHT, 3, ("0,1,2", "3,4,5")),
        (EIGHT, 8, ("0,1,2,3,4,5,6,7",)),
        (EIGHT, 9, ()),
        (EIGHT, ALL, ("0,1,2,3,4,5,6,7",)),
        (("3",), ALL, ("3",)),
        (("5", "GPU-1a", "2", "0"), 2, ("5,GPU-1a", "2,0")),
        ((), 1, ()),
        ((), 2, ()),
        ((), ALL, ()),
    ],
)
def test_devices_are_divided_in_their_order(devices, per_engine, shares):
    assert make_shares(devices, per_engine) == shares


@pytest.mark.parametrize(
    ("share", "device"), [("0,1", "0"), ("3", "3"), ("GPU-1a,GPU-2b", "GPU-1a"), ("", "")]
)
def test_the_first_device_of_a_share_is_number_0_to_its_rank(share, device):
    assert first_device(share) == device


@pytest.mark.parametrize(("given", "number"), [(1, 1), ("4", 4), (" 2 ", 2), ("all", ALL)])
def test_a_number_of_devices_is_read_and_written(given, number):
    assert parse_devices_per_engine(given) == number
    assert parse_devices_per_engine(write_devices_per_engine(number)) == number


@pytest.mark.parametrize("given", ["", "ALL", "some", "0", 0, -1, 1.5, "1.5", True])
def test_what_is_no_number_of_devices_is_refused(given):
    with pytest.raises(UsageError, match=re.escape(repr(given))):
        parse_devices_per_engine(given)


@pytest.mark.parametrize(
    ("ranks", "count", "per_engine", "is_asked"),
    [
        (4, 8, 2, False),
        (1, 8, 8, False),
        (2, 8, 2, True),
        (2, 8, 3, True),
        (9, 8, 1, True),
        (1, 8, ALL, False),
        (1, 0, ALL, True),
        (4, 0, 1, False),
    ],
)
def test_devices_that_suffice_are_no_problem(ranks, count, per_engine, is_asked):
    assert why_not_shared("a", ranks, count, per_engine, is_count_asked=is_asked) == ""


@pytest.mark.parametrize(
    ("ranks", "count", "per_engine", "is_asked", "facts"),
    [
        (4, 0, 2, False, ["no GPU", "engine 2 wants 2 "]),
        (4, 1, 2, False, ["1 GPU,", "engine 2 wants 2 ", " 1 or all."]),
        (2, 8, 3, False, ["8 GPUs,", "engine 3 ", " 1, 2, 4, 8 or all,", "a:2"]),
        (4, 8, 4, True, ["8 GPUs,", "4 ranks with 4 each want 16", "a:2,", "engine 2"]),
        (9, 8, 4, True, ["8 GPUs,", "9 ranks with 4 each want 36", "a:2."]),
        (2, 8, ALL, True, ["2 ranks", "engine all ", "a:1,"]),
    ],
)
def test_devices_that_do_not_suffice_are_named_with_the_next_step(
    ranks, count, per_engine, is_asked, facts
):
    said = why_not_shared("a", ranks, count, per_engine, is_count_asked=is_asked)
    assert said.startswith("a")
    assert [fact for fact in facts if fact not in said] == []


UUIDS = ("GPU-1a2b", "GPU-1a2c", "GPU-77")


@pytest.mark.parametrize(
    ("device", "index"),
    [("2", 2), ("GPU-1a2c", 1), ("GPU-7", 2), ("GPU-1a2", None), ("MIG-1", None), ("", None)],
)
def test_a_device_is_found_by_its_number_or_the_beginning_of_its_uuid(device, index):
    assert index_on_host(device, UUIDS) == index
