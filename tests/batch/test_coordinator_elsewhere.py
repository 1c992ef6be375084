"""A job that the coordinator on a node submits, for a notebook that nodes cannot reach."""

import sys

import pytest

from jupyter_dist.errors import StartFailed

from .clusters import SUM, values


@pytest.fixture
def far(slurm):
    """Options of a start whose coordinator is on nodeA; no node opens a connection to here but Slurm's."""
    hosts = slurm.hosts
    for host in slurm.names:
        hosts.no_route_back(host, "30000-65535")
    config = hosts.path("nodeA", "/etc/ssh/sshd_config").read_text()
    setting = f"SetEnv SLURM_CONF={slurm.env['SLURM_CONF']}\n"
    hosts.write("nodeA", "/etc/ssh/sshd_config", setting + config)
    hosts.kill_sshd("nodeA")
    hosts.start_sshd("nodeA")
    jobs = slurm.shared / "jobs"
    jobs.mkdir()
    yield {
        "coordinator": "nodeA",
        "ssh": hosts.ssh,
        "python": sys.executable,
        "job_dir": str(jobs),
    }
    hosts.write("nodeA", "/etc/ssh/sshd_config", config)
    hosts.kill_sshd("nodeA")
    hosts.start_sshd("nodeA")
    assert list(jobs.iterdir()) == []


@pytest.mark.slow
def test_nodes_dial_the_machine_that_submits_and_nothing_is_left(slurm, start, far):
    cluster = start(slots=1, **far)
    assert values(cluster.run(SUM)) == ["3.0"] * 2
    assert f"Slurm job {slurm.only_job()}, RUNNING" in str(cluster.status())
    cluster.stop()
    start.assert_nothing_left()


@pytest.mark.slow
def test_a_job_that_is_cancelled_in_the_queue_is_told_from_there(slurm, start, far, busy_nodes):
    def cancel(progress):
        for job in slurm.squeue("%i"):
            if int(job) != busy_nodes:
                slurm.scancel(job)

    def end_other_job():
        slurm.scancel(busy_nodes)

    said = start.refusal(error=StartFailed, after=end_other_job, on_progress=cancel, **far)
    assert "was cancelled" in said
