import os
import resource
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from jupyter_dist.agent.engines import room_for_ranks
from jupyter_dist.agent.engines.room_for_ranks import find_lack
from jupyter_dist.probe.cgroup import TasksLeft


@pytest.fixture
def host(monkeypatch):
    """A host of a user who is not root; a test may change what it allows."""
    group = SimpleNamespace(tasks_left=None, limit_bytes=0)
    host = SimpleNamespace(group=group, files=4096, tasks=resource.RLIM_INFINITY, bytes=64 << 30)
    limits = {
        resource.RLIMIT_NOFILE: lambda: (1024, host.files),
        resource.RLIMIT_NPROC: lambda: (host.tasks, host.tasks),
    }
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[kind]())
    monkeypatch.setattr(room_for_ranks, "cgroup_of", lambda _pid: host.group)
    monkeypatch.setattr(os, "getuid", lambda: 7)
    memory = lambda: SimpleNamespace(available=host.bytes)  # noqa: E731
    monkeypatch.setattr(psutil, "virtual_memory", memory)
    processes = [
        SimpleNamespace(info={"uids": SimpleNamespace(real=uid), "num_threads": threads})
        for uid, threads in ((7, 200), (7, 100), (0, 5000))
    ]
    monkeypatch.setattr(psutil, "process_iter", lambda _facts: processes)
    return host


def test_a_host_without_limits_has_room(host):
    assert find_lack(512, 512) == ""
    host.group = None
    assert find_lack(512, 512) == ""


@pytest.mark.parametrize(
    ("limits", "facts"),
    [
        ({"files": 1000}, ("each of 512 ranks", "1088 open files", "1000", "ulimit -Hn")),
        ({"tasks": 4395}, ("4096 processes", "room for 4095", "RLIMIT_NPROC: 4395", "ulimit -u")),
        ({"tasks": 4396}, ()),
        ({"bytes": 5 << 30}, ()),
        ({"bytes": 2 << 30}, ("512 ranks", "5 GiB", "2 GiB")),
    ],
)
def test_what_it_lacks_is_told_with_all_numbers(host, limits, facts):
    vars(host).update(limits)
    lack = find_lack(512, 512)
    assert bool(lack) == bool(facts)
    for fact in facts:
        assert fact in lack


def test_control_groups_count_as_well(host):
    host.group.tasks_left = TasksLeft(4095, 9000, Path("/pod"))
    lack = find_lack(512, 512)
    for fact in ("4096 processes", "/pod", "4095", "pids.max: 9000", "TasksMax=9001"):
        assert fact in lack
    host.group.tasks_left = None
    host.group.limit_bytes = 1 << 30
    assert "1 GiB" in find_lack(512, 512)


def test_few_ranks_of_many_ask_for_files_alone(host):
    host.bytes, host.tasks = 1, 300
    assert find_lack(16, 512) == ""
    assert find_lack(17, 512)
