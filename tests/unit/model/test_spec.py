import pytest

from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.model.spec import (
    ClusterSpec,
    HostSpec,
    check_spec,
    parse_duration_s,
    parse_hosts,
)


def make(**changes):
    return ClusterSpec(**{"name": "demo", "hosts": parse_hosts("a:2,b:3"), **changes})


def test_hosts_keep_their_order_and_slots():
    assert parse_hosts("b:8, a:2") == (HostSpec("b", 8), HostSpec("a", 2))


def test_an_ipv6_address_stands_in_brackets():
    assert parse_hosts("[::1]:4") == (HostSpec("[::1]", 4),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not HOST:SLOTS"),
        ("a:1,", "is not HOST:SLOTS"),
        ("a b:1", "is not HOST:SLOTS"),
        ("::1:4", "is not HOST:SLOTS"),
        ("a;rm -rf:1", "is not HOST:SLOTS"),
        ("a", "does not say how many slots"),
        ("a:", "'' is not a number of slots"),
        ("a:0", "'0' is not a number of slots"),
        ("a:-1", "'-1' is not a number of slots"),
        ("a:1.5", "'1.5' is not a number of slots"),
        ("a:1,b:1,a:2", "a is named twice"),
    ],
)
def test_hosts_that_cannot_be_meant_are_refused_with_their_problem(text, problem):
    with pytest.raises(HostSpecError) as caught:
        parse_hosts(text)
    assert problem in str(caught.value)
    assert caught.value.given == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86400),
        ("1.5m", 90),
        ("250ms", 0.25),
    ],
)
def test_durations_are_read_in_their_unit(text, seconds):
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "-5s", "5 minutes", "1e3", "nan", "inf", "5s5"])
def test_durations_that_cannot_be_read_are_refused(text):
    with pytest.raises(UsageError, match="15m"):
        parse_duration_s(text)


def test_the_world_is_as_large_as_all_slots():
    assert make().world_size == 5


def test_a_sound_spec_passes_unchanged():
    spec = make()
    assert check_spec(spec) is spec


@pytest.mark.parametrize("name", ["", "-x", ".hidden", "../x", "a/b", "a b", "x" * 65, "ä"])
def test_names_that_cannot_be_file_names_are_refused(name):
    with pytest.raises(UsageError, match="cluster name"):
        check_spec(make(name=name))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"communicator": "mpi"}, "auto, ring, none"),
        ({"timeout_s": 0}, "timeout 0"),
        ({"timeout_s": float("nan")}, "timeout nan"),
        ({"keep_s": -1}, "keep -1"),
        ({"start_method": "vfork"}, "fork and spawn"),
    ],
)
def test_what_cannot_be_meant_is_named_with_what_is_accepted(changes, named):
    with pytest.raises(UsageError, match=named):
        check_spec(make(**changes))
