import pytest

from jupyter_dist.model.devices import (
    device_of,
    index_on_host,
    share_out,
    visible_devices,
)

TWO = ("0", "1")


@pytest.mark.parametrize(
    ("asked", "inherited", "gpu_count", "devices"),
    [
        ((), None, 3, ("0", "1", "2")),
        ((), None, 0, ()),
        ((), "2,0", 3, ("2", "0")),
        ((), " 2 , 0 ", 3, ("2", "0")),
        ((), "", 3, ()),
        ((), "-1", 3, ()),
        ((), "NoDevFiles", 3, ()),
        ((), "GPU-8932f937,MIG-5c89", 3, ("GPU-8932f937", "MIG-5c89")),
        ((2, 0), None, 3, ("2", "0")),
        ((2, 0), "1", 3, ("2", "0")),
    ],
)
def test_devices_are_those_asked_for_else_those_that_the_environment_shows_else_all(
    asked, inherited, gpu_count, devices
):
    assert visible_devices(asked, inherited, gpu_count) == devices


@pytest.mark.parametrize(
    ("inherited", "devices"),
    [("0,-1,1", ("0",)), ("0,,1", ("0",)), ("0,9,1", ("0",)), ("1,0,1", ("1", "0"))],
)
def test_what_cuda_does_not_show_is_no_device(inherited, devices):
    assert visible_devices((), inherited, 2) == devices


def test_without_nvml_a_device_must_have_been_asked_for():
    assert visible_devices((), "GPU-x,GPU-y", 0) == ()
    assert visible_devices((), "0,1", 0) == ()
    assert visible_devices((1,), "0", 0) == ("1",)


@pytest.mark.parametrize(
    ("local_rank", "devices", "oversubscribe", "device"),
    [
        (0, ("3", "5"), False, "3"),
        (1, ("3", "5"), False, "5"),
        (2, ("3", "5"), False, ""),
        (2, ("3", "5"), True, "3"),
        (5, ("3", "5"), True, "5"),
        (0, (), False, ""),
        (0, (), True, ""),
    ],
)
def test_a_rank_has_the_device_of_its_place_or_shares_one(
    local_rank, devices, oversubscribe, device
):
    assert device_of(local_rank, devices, oversubscribe) == device


def test_devices_are_given_to_all_ranks_of_a_host_or_to_none():
    assert share_out(2, ("3", "5", "7"), oversubscribe=False) == ("3", "5")
    assert share_out(3, ("3", "5"), oversubscribe=False) == ()
    assert share_out(3, ("3", "5"), oversubscribe=True) == ("3", "5", "3")
    assert share_out(3, (), oversubscribe=True) == ()


UUIDS = ("GPU-1a2b", "GPU-1a2c", "GPU-77")


@pytest.mark.parametrize(
    ("device", "index"),
    [("2", 2), ("GPU-1a2c", 1), ("GPU-7", 2), ("GPU-1a2", None), ("MIG-1", None), ("", None)],
)
def test_a_device_is_found_by_its_number_or_the_beginning_of_its_uuid(device, index):
    assert index_on_host(device, UUIDS) == index
