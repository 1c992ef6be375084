import os
import signal
import subprocess
import sys

import msgspec
import pytest

from jupyter_dist.agent.engines import exit_evidence as evidence
from jupyter_dist.agent.engines.exit_evidence import SAMPLES, Ended, EvidenceKeeper
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.model.ranks.records import CallRecord
from jupyter_dist.probe.kernel_log import KernelLog

KILLED = Ended(pid=1, signal=signal.SIGKILL, peak_bytes=1 << 50)


class Group:
    """A control group whose counter a test turns."""

    limit_bytes = 1 << 30
    is_first = False

    def __init__(self, folder):
        self.folder = folder
        self.oom_kills = 0


@pytest.fixture
def group(tmp_path, monkeypatch):
    group = Group(tmp_path)
    monkeypatch.setattr(evidence, "cgroup_of", lambda _pid: group)
    return group


@pytest.fixture
def keeper(tmp_path, group):
    """Has noted the birth of engines 0 and 1, which are this process, in that group."""
    del group
    keeper = EvidenceKeeper(KernelLog(str(tmp_path / "none")))
    for engine in ("0", "1"):
        keeper.begin(engine, os.getpid(), 0.0)
    return keeper


def end(keeper, engine, at_s, ended=KILLED, path="none"):
    return keeper.end(engine, ended, path, at_s)


def test_the_last_samples_of_memory_are_kept_with_their_age(keeper):
    for number in range(100):
        keeper.look({"0": number, "unknown": 1}, number * 0.5)
    found = end(keeper, "0", 50.0, Ended(1, exit_code=3)).memory
    assert len(found) == SAMPLES
    assert (found[0].age_s, found[0].rss_bytes) == (30.0, 40)
    assert (found[-1].age_s, found[-1].rss_bytes) == (0.5, 99)


def test_errors_of_every_gpu_of_a_rank_are_told(keeper, monkeypatch):
    monkeypatch.setattr(evidence, "bus_of", lambda device: f"bus {device}" if device else "")
    asked = []
    monkeypatch.setattr(keeper._log, "gpu_errors", lambda _pid, bus, _: asked.append(bus) or [bus])
    keeper.place("2", "2,GPU-1a")
    keeper.begin("2", os.getpid(), 0.0)
    assert list(end(keeper, "2", 1.0).gpu_errors) == ["bus 2", "bus GPU-1a"]
    assert list(end(keeper, "1", 1.0).gpu_errors) == []
    assert asked == ["bus 2", "bus GPU-1a"]


@pytest.mark.parametrize("kills", [1, 2])
def test_each_kill_for_memory_explains_one_end(keeper, group, kills):
    group.oom_kills = kills
    first = end(keeper, "0", 5.0)
    assert (first.oom_kills, first.memory_limit_bytes) == (kills, 1 << 30)
    assert end(keeper, "1", 5.1).oom_kills == kills - 1


def test_a_process_that_is_just_ending_is_still_of_its_group(keeper, group, tmp_path, monkeypatch):
    first = Group(tmp_path.parent)
    first.is_first = True
    monkeypatch.setattr(evidence, "cgroup_of", lambda _pid: first)
    group.oom_kills = 1
    keeper.look({"0": 1}, 1.0)
    assert end(keeper, "0", 2.0).oom_kills == 1


def test_a_kill_of_long_ago_or_from_before_its_birth_explains_nothing(keeper, group):
    group.oom_kills = 1
    for at_s in range(1, 60):
        keeper.look({"0": 1}, float(at_s))
    assert end(keeper, "0", 60.0).oom_kills == 0
    keeper.begin("2", os.getpid(), 60.0)
    assert end(keeper, "2", 61.0).oom_kills == 0


def test_a_group_that_was_made_again_counts_its_own_kills(keeper, group, tmp_path):
    group.folder = tmp_path / "job"
    group.folder.mkdir()
    group.oom_kills = 1
    keeper.look({"0": 1, "1": 1}, 1.0)
    (tmp_path / "next").mkdir()  # beside the first one, so it has another inode
    group.folder.rmdir()
    (tmp_path / "next").rename(group.folder)
    group.oom_kills = 0
    keeper.look({"0": 1, "1": 1}, 2.0)
    group.oom_kills = 1
    assert end(keeper, "1", 3.0).oom_kills == 1


def test_only_sigkill_is_the_oom_killers(keeper, group):
    group.oom_kills = 1
    assert end(keeper, "0", 1.0, Ended(1, exit_code=3)).oom_kills == 0


def test_the_most_it_had_is_told_of_a_kill_for_memory_only(keeper, group):
    keeper.look({"0": 5, "1": 5}, 1.0)
    assert [sample.rss_bytes for sample in end(keeper, "0", 2.0).memory] == [5]
    group.oom_kills = 1
    assert [sample.rss_bytes for sample in end(keeper, "1", 2.0).memory] == [5, 1 << 50]


def test_the_last_calls_are_read(keeper, tmp_path):
    path = tmp_path / "rank-0.collectives"
    recorder = CollectiveRecorder(path)
    for number in range(9):
        recorder.end(recorder.begin(Call(Signature("all_reduce", "<f4", ""), number)))
    recorder.close()
    calls = msgspec.msgpack.decode(
        end(keeper, "0", 1.0, path=path).calls, type=tuple[CallRecord, ...]
    )
    assert [call.sequence for call in calls] == [4, 5, 6, 7, 8]


def test_memory_that_an_end_has_freed_is_not_taken_for_free(keeper, monkeypatch):
    class Memory:
        available = 100

    monkeypatch.setattr(evidence.psutil, "virtual_memory", lambda: Memory)
    keeper.look({"0": 5}, 1.0)
    Memory.available = 9000
    assert end(keeper, "0", 1.5).memory_available_bytes == 100


@pytest.mark.skipif(sys.platform != "linux", reason="limits of others are told on Linux only")
def test_the_limit_of_its_address_space_is_seen(keeper):
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))\n"
        "print('limited', flush=True)\n"
        "input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout.readline() == b"limited\n"
        keeper.begin("2", process.pid, 0.0)
        process.communicate(b"\n")
    assert end(keeper, "2", 1.0).address_limit_bytes == 1 << 40


def test_an_engine_that_nobody_knew_leaves_no_evidence(keeper):
    found = end(keeper, "9", 1.0)
    assert not found.memory
    assert found.oom_kills == 0
