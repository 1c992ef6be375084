"""mpiexec starts an agent on each host: here with MPICH, on this machine and on two hosts."""

import os
import signal
import stat

import pytest

from jupyter_dist.launch.batch.programs import find_mpiexec
from tests.processes.leftovers import coordinator_of, name_of
from tests.processes.listener import begin

from .clusters import IN_A_COLLECTIVE, SUM, lose_all, values

pytestmark = [
    pytest.mark.skipif(
        not find_mpiexec() and "CI" not in os.environ, reason="there is no mpiexec here"
    ),
]


def mpiexec_of(cluster):
    """The mpiexec that runs the cluster's agents."""
    (found,) = [
        process
        for process in coordinator_of(cluster).children(recursive=True)
        if "mpiexec" in name_of(process)
    ]
    return found


@pytest.fixture
def over_ssh(slurm, tmp_path):
    """Arguments with which MPICH's mpiexec starts on both hosts over ssh."""
    ssh = tmp_path / "lab-ssh"
    ssh.write_text(f'#!/bin/sh\nexec ssh -F "{slurm.hosts.ssh_config}" "$@"\n')
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    # Where they find this machine: by its own address, since its name is known to nobody.
    return ["-launcher", "ssh", "-launcher-exec", str(ssh), "-localhost", slurm.hosts.head_address]


def test_ranks_on_this_machine(start):
    cluster = start(launcher="mpi", nodes=1, slots=2)
    assert values(cluster.run(SUM)) == ["3.0", "3.0"]
    cluster.stop()
    start.assert_nothing_left(5)


def test_ranks_on_two_hosts(start, over_ssh):
    cluster = start(launcher="mpi", launcher_args=[*over_ssh, "-hosts", "nodeA,nodeB"])
    assert values(cluster.run(SUM)) == ["10.0"] * 4
    assert sorted(host.name for host in cluster.topology().hosts) == ["nodeA", "nodeB"]
    cluster.stop()
    start.assert_nothing_left(5)


@pytest.mark.slow
def test_ranks_that_use_mpi_themselves(start):
    pytest.importorskip("mpi4py")
    cluster = start(launcher="mpi", nodes=1, slots=2)
    cell = "from mpi4py import MPI\n(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)"
    assert values(cluster.run(cell)) == ["(0, 2)", "(1, 2)"]


@pytest.mark.slow
def test_a_killed_mpiexec_is_the_reason_of_the_loss(start, in_background, sweep):
    cluster = start(launcher="mpi", nodes=1, slots=2)
    future = begin(in_background, cluster, IN_A_COLLECTIVE)
    mpiexec_of(cluster).kill()
    for reason in lose_all(future):
        assert "mpiexec" in reason
        assert signal.SIGKILL.name in reason


@pytest.mark.slow
def test_a_host_that_mpiexec_does_not_reach(start, over_ssh):
    told = start.refusal(30, launcher="mpi", launcher_args=[*over_ssh, "-hosts", "nodeA,nowhere"])
    assert "mpiexec" in told
    assert "nowhere" in told


@pytest.mark.slow
def test_an_argument_that_mpiexec_does_not_know(start):
    told = start.refusal(15, launcher="mpi", nodes=1, launcher_args=["-no-such-option"])
    assert "no-such-option" in told
