import os

import pytest

from jupyter_dist.probe.cgroup import cgroup_of, count_oom_kills


@pytest.fixture
def machine(tmp_path):
    """Folders as /proc and /sys/fs/cgroup; `machine.says` is what /proc has of process 7."""

    class Machine:
        proc, groups = tmp_path / "proc", tmp_path / "cgroup"

        def says(self, text):
            (self.proc / "7").mkdir(parents=True)
            (self.proc / "7" / "cgroup").write_text(text)
            self.groups.mkdir(exist_ok=True)

        def write(self, path, text):
            file = self.groups / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

        def group(self):
            return cgroup_of(7, proc=self.proc, groups=self.groups)

    return Machine()


def test_version_2_tells_kills_and_the_lowest_limit_on_the_way_up(machine):
    machine.says("0::/pod/rank\n")
    machine.write("pod/rank/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n")
    machine.write("pod/rank/memory.max", "max\n")
    machine.write("pod/memory.max", "4294967296\n")
    group = machine.group()
    assert (group.oom_kills, group.limit_bytes) == (2, 4 << 30)


def test_version_1_tells_kills_and_the_limit_of_its_memory_hierarchy(machine):
    machine.says("5:cpu:/\n4:memory:/job\n0::/\n")
    machine.write("memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    machine.write("memory/job/memory.limit_in_bytes", "1048576\n")
    machine.write("memory/memory.limit_in_bytes", "9223372036854771712\n")
    group = machine.group()
    assert (group.oom_kills, group.limit_bytes) == (1, 1 << 20)


def test_a_container_whose_own_group_is_mounted_as_the_first_one_is_read_there(machine):
    machine.says("4:memory:/docker/abc\n")
    machine.write("memory/memory.oom_control", "oom_kill 5\n")
    assert machine.group().oom_kills == 5


def test_a_group_without_limit_and_counter_says_so(machine):
    machine.says("0::/\n")
    assert (machine.group().oom_kills, machine.group().limit_bytes) == (None, 0)


def test_a_group_that_is_gone_counts_nothing(machine):
    machine.says("0::/pod\n")
    machine.write("pod/memory.max", "4096\n")
    group = machine.group()
    (machine.groups / "pod/memory.max").unlink()
    (machine.groups / "pod").rmdir()
    assert (group.oom_kills, group.limit_bytes) == (None, 0)


def test_without_groups_there_is_none(machine):
    assert machine.group() is None
    machine.says("")
    assert machine.group() is None


def test_the_machine_counts_all_kills(tmp_path):
    assert count_oom_kills(tmp_path) == 0
    (tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill 3\n")
    assert count_oom_kills(tmp_path) == 3


def test_this_process_can_be_looked_up():
    group = cgroup_of(os.getpid())
    assert group is None or group.folder.is_dir()


def test_the_least_room_for_processes_on_the_way_up_counts(machine):
    machine.says("0::/pod/rank\n")
    assert machine.group().tasks_left is None
    machine.write("pod/rank/pids.max", "max\n")
    machine.write("pod/pids.max", "100\n")
    machine.write("pod/pids.current", "70\n")
    machine.write("pids.max", "1000\n")
    machine.write("pids.current", "900\n")
    assert machine.group().tasks_left == (30, 100, machine.groups / "pod")
