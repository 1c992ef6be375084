"""The batch system of these tests does what a real one does; otherwise they would prove nothing."""

import subprocess
from pathlib import Path

import psutil
import pytest

from tests.patience import Stopwatch
from tests.processes.leftovers import command_of, is_alive, name_of, wait_until

from .slurm_lab import SlurmLab


def wait_for_file(path, within_s=10):
    wait_until(path.exists, within_s, f"{path.name} is written")


def test_a_step_runs_on_both_hosts(slurm):
    assert sorted(slurm.ask("srun", "-N2", "--ntasks-per-node=2", "hostname").split()) == [
        *["nodeA"] * 2,
        *["nodeB"] * 2,
    ]


def test_hosts_and_this_machine_share_a_directory_that_all_write_to(slurm):
    (slurm.shared / "asked").write_text("by head")
    slurm.ask("srun", "-N2", "sh", "-c", f"cat {slurm.shared}/asked >{slurm.shared}/$(hostname)")
    for host in slurm.names:
        assert (slurm.shared / host).read_text() == "by head"


def test_a_job_waits_while_the_hosts_are_taken_and_runs_when_they_are_free(slurm):
    taken = slurm.sbatch("-N2", "--exclusive", "-o", "/dev/null", "--wrap", "exec sleep 60")
    wait_until(lambda: slurm.job(taken)["JobState"] == "RUNNING", 10, "the first job runs")
    second = slurm.sbatch("-N2", "-o", "/dev/null", "--wrap", f"touch {slurm.shared}/second")
    wait_until(lambda: f"{second} PENDING Resources" in slurm.squeue(), 5, "the second one waits")
    slurm.scancel(taken)
    wait_for_file(slurm.shared / "second")
    assert slurm.job(taken)["JobState"] == "CANCELLED"


def test_a_host_that_crashed_takes_jobs_again_once_it_is_up(slurm):
    slurm.crash("nodeA")
    slurm.heal("nodeA")
    slurm.wait_until_idle()
    assert slurm.ask("srun", "-w", "nodeA", "hostname") == "nodeA\n"


def test_what_a_job_has_left_is_seen(slurm):
    path = slurm.shared / "left"
    script = f"import time; open({str(path)!r}, 'w'); time.sleep(60)  # jupyter_dist"
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    words = ["setsid", "--fork", "python3", "-c", script]
    slurm.hosts.run("nodeA", words, capture_output=False, **quiet)
    wait_for_file(path)
    with pytest.raises(AssertionError, match=r"nodeA: process .*time\.sleep"):
        slurm.assert_nothing_left()
    slurm.remove_leftovers()
    slurm.assert_nothing_left()


def test_everything_of_it_ends_with_it(slurm_lab, tmp_path):
    root = tmp_path / "other"
    watch = Stopwatch()
    with SlurmLab(["nodeC"], root) as other:
        watch.assert_less(20, "the lab")  # not a minute, as a time-out within it would take
        assert other.ask("srun", "hostname") == "nodeC\n"
        servers = [
            process
            for process in psutil.process_iter()
            if name_of(process) in ("munged", "slurmctld", "slurmd") and _belongs_to(process, root)
        ]
        assert sorted(server.name() for server in servers) == [
            *["munged"] * 2,
            "slurmctld",
            "slurmd",
        ]
    assert not any(is_alive(server) for server in servers)
    assert not root.exists()
    assert str(root) not in Path("/proc/self/mounts").read_text()
    assert slurm_lab.ask("srun", "-N2", "-l", "hostname")


def _belongs_to(process, root):
    return any(str(root) in word for word in command_of(process))
