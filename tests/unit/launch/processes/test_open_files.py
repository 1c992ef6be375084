import os
import resource

import pytest

from jupyter_dist.errors import DistError, StartFailed
from jupyter_dist.launch.processes.open_files import (
    allow_files_of_the_coordinator,
    allow_open_files,
    check_open_files,
    check_room,
    name_limit,
)
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec


@pytest.fixture
def limits(monkeypatch):
    """Play limits; gives what they are by now."""
    played = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: played[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: played.append(limit))
    return played


def spec(ranks, launcher="local"):
    """A cluster of one host."""
    return ClusterSpec(name="big", hosts=(HostSpec("localhost", ranks, launcher),))


@pytest.mark.parametrize("ranks", [1, 400, 1900])
def test_what_the_hard_limit_allows_may_start(limits, ranks):
    check_open_files(spec(ranks))
    assert limits == [(1024, 4096)], "the processes that need it raise it"


@pytest.mark.parametrize("launcher", ["local", "ssh"])
def test_what_it_does_not_allow_is_told_with_all_numbers(limits, launcher):
    with pytest.raises(StartFailed) as caught:
        check_open_files(spec(2500, launcher))
    for fact in ("2500 ranks", "5101 open files", "RLIMIT_NOFILE: 1024, 4096 at most"):
        assert fact in str(caught.value)


def test_no_limit_is_no_limit(limits):
    limits.append((1024, resource.RLIM_INFINITY))
    check_open_files(spec(4096))
    allow_open_files(9000)
    assert limits[-1] == (9000, resource.RLIM_INFINITY)


@pytest.mark.parametrize(("needed", "soft"), [(10, 1024), (2000, 2000), (9000, 4096)])
def test_the_soft_limit_is_only_raised_and_not_beyond_the_hard_one(limits, needed, soft):
    allow_open_files(needed)
    assert limits[-1] == (soft, 4096)


@pytest.mark.parametrize(
    ("ranks", "launcher", "soft"),
    [
        (8, "ssh", 1024),
        (1000, "ssh", 2101),
        (0, "local", 1024),
        (0, "ssh", 4096),  # as many as it has GPUs
        (0, "join", 4096),
    ],
)
def test_a_coordinator_has_room_for_ranks_that_other_machines_bring(limits, ranks, launcher, soft):
    allow_files_of_the_coordinator(spec(ranks, launcher))
    assert limits[-1] == (soft, 4096)


def test_a_program_with_many_open_files_gets_room_or_is_told(limits, monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda _: ["x"] * 1000)
    check_room(DistError)
    assert limits[-1] == (1064, 4096)
    limits.append((1010, 1020))
    with pytest.raises(DistError, match=r"has 1000 open files.* 1020 at most"):
        check_room(DistError)


def test_errors_of_other_kinds_get_no_word_on_limits(limits):
    assert name_limit(None) == name_limit(2) == ""
    assert "1024 open files" in name_limit(24)
    assert "fs.file-max" in name_limit(23)
