"""The coordinator on a node of its job, for a notebook that nodes cannot reach."""

import contextlib
import subprocess
import sys

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import ClusterGone
from tests.facts import assert_tells
from tests.hosts.lab.cable import Cable
from tests.hosts.lab.system import program
from tests.processes.leftovers import command_of, coordinator_of, wait_until

from .clusters import SUM, values, wait_for_stage


@pytest.fixture
def inside(slurm):
    """Options of a start in a job; no node opens a connection to here but those of Slurm."""
    for host in slurm.names:
        slurm.hosts.no_route_back(host, "30000-65535")
    jobs = slurm.shared / "jobs"
    jobs.mkdir()
    yield {
        "coordinator": "job",
        "ssh": slurm.hosts.ssh,
        "python": sys.executable,
        "job_dir": str(jobs),
    }
    assert list(jobs.iterdir()) == []


NOTEBOOK = """
from jupyter_dist import Cluster
cluster = Cluster.start({options})
cluster.run("kept = rank")
cluster.detach()
found = Cluster.attach(cluster.name)
print([rank.value for rank in found.run({cell!r})], found.run("kept")[1].value)
found.stop()
"""
PLACE = 200
"""Of the notebook on the network of the lab, where no host is."""
TRIES = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), 1)
except OSError as problem:
    print(type(problem).__name__)
"""


@contextlib.contextmanager
def outside(slurm, words):
    """Run a program in a network of its own, to which no host opens a connection."""
    network = slurm.hosts.main_network
    cable = Cable(network, PLACE, "eth0")
    begin = [program("unshare"), "--net", "sh", "-c", 'echo up; read _; exec "$@"', "sh", *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(begin, text=True, **pipes) as process:
        try:
            assert process.stdout.readline() == "up\n"
            cable.plug(process.pid)
            to_it = f"oifname {{ {', '.join(cable.ports)} }}"
            first = "tcp flags & (syn | ack) == syn drop"
            network.filter(
                [PLACE], [f"{to_it} {first}", f"{to_it} meta l4proto {{ udp, icmp }} drop"]
            )
            yield process
        finally:
            process.kill()
            network.unfilter(PLACE)
            cable.unplug()


def test_a_notebook_that_no_node_reaches_has_its_coordinator_in_the_job(slurm, start, inside):
    options = {"launcher": "slurm", "nodes": 2, "slots": 1, "timeout_s": 60, **inside}
    text = ", ".join(f"{name}={value!r}" for name, value in options.items())
    notebook = NOTEBOOK.format(options=text, cell=SUM)
    with outside(slurm, [sys.executable, "-c", notebook]) as process:
        address = slurm.hosts.main_network.address(PLACE)
        for node in slurm.names:
            tried = slurm.hosts.run(node, [sys.executable, "-c", TRIES, address])
            assert tried.stdout == "TimeoutError\n", tried
        said, errors = process.communicate("\n", timeout=60)
    assert said == "[3.0, 3.0] 1\n", errors
    start.assert_nothing_left()


@pytest.mark.slow
def test_the_coordinator_is_on_the_first_node_and_nothing_is_left(slurm, start, inside):
    told = []
    cluster = start(slots=1, on_progress=told.append, **inside)
    assert any("Slurm job" in step.stage for step in told)
    assert values(cluster.run(SUM)) == ["3.0"] * 2
    job = slurm.only_job()
    assert cluster._connection.coordinator_host == node_of(slurm)
    assert f"Slurm job {job}, RUNNING" in str(cluster.status())
    cluster.run("kept = rank")
    cluster.detach()
    assert Cluster.running() == [cluster.name]
    found = Cluster.attach(cluster.name)
    assert values(found.run("kept")) == ["0", "1"]
    found.stop()
    start.assert_nothing_left()


@pytest.mark.slow
def test_a_job_that_a_person_cancels_is_told(slurm, start, inside):
    cluster = start(slots=1, **inside)
    job = slurm.only_job()
    slurm.scancel(job)
    wait_until(lambda: not cluster.is_running, 30, "its end is known here")
    with pytest.raises(ClusterGone) as caught:
        cluster.run("rank")
    assert_tells(str(caught.value), f"Slurm job {job}", "CANCELLED")
    cluster.stop()
    start.assert_nothing_left()


@pytest.mark.slow
def test_a_job_goes_on_while_its_node_is_out_of_reach(slurm, start, inside):
    cluster = start(slots=1, **inside)
    cluster.run("kept = rank")
    slurm.hosts.kill_sshd(node_of(slurm))
    wait_until(cluster._control.describe_break, 15, "the break is known here")
    slurm.hosts.start_sshd(node_of(slurm))
    assert values(cluster.run("kept")) == ["0", "1"]
    cluster.stop()


@pytest.mark.slow
def test_who_lets_go_of_a_job_finds_it_again(slurm, start, home, inside):
    cluster = start(slots=1, keep_s=600.0, **inside)
    cluster.run("kept = rank")
    node, proxy = node_of(slurm), coordinator_of(cluster)
    cluster.detach()
    proxy.terminate()
    wait_until(lambda: not Cluster.running(), 10, "this machine has forgotten it")
    assert slurm.squeue("%T") == ["RUNNING"]
    config = slurm.hosts.path(node, "/etc/ssh/sshd_config").read_text()
    setting = f"SetEnv JUPYTER_RUNTIME_DIR={home.runtime_dir}\n"
    slurm.hosts.write(node, "/etc/ssh/sshd_config", setting + config)
    slurm.hosts.kill_sshd(node)
    slurm.hosts.start_sshd(node)
    way = {"ssh": slurm.hosts.ssh, "python": sys.executable}
    found = Cluster.attach(cluster.name, coordinator=node, **way)
    assert values(found.run("kept")) == ["0", "1"]
    found.stop()
    slurm.hosts.write(node, "/etc/ssh/sshd_config", config)
    start.assert_nothing_left()


@pytest.mark.slow
def test_a_start_that_waits_says_so_and_can_be_given_up(slurm, start, inside, busy_nodes):
    told = []

    def give_up(progress):
        told.append(progress)
        if "PENDING" in progress.stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(on_progress=give_up, **inside)
    assert slurm.squeue("%i") == [str(busy_nodes)]
    slurm.scancel(busy_nodes)
    start.assert_nothing_left()


@pytest.mark.slow
def test_a_start_that_waits_too_long_says_what_for(slurm, start, inside, busy_nodes):
    said = start.refusal(after=lambda: slurm.scancel(busy_nodes), timeout_s=5, **inside)
    assert_tells(said, "PENDING", "--timeout")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"queue": "nowhere"}, ("sinfo", "--queue")),
        ({"python": "/no/python"}, ("/no/python", "--python")),
        ({"ssh": ("false",)}, ("node", "--ssh")),
    ],
)
def test_a_start_that_fails_says_why_and_leaves_nothing(start, inside, options, facts):
    assert_tells(start.refusal(**{**inside, **options}), *facts)


@pytest.mark.slow
def test_a_script_of_ones_own_may_run_the_coordinator_on_each_node(slurm, start, inside, tmp_path):
    template = tmp_path / "job.sh"
    template.write_text("""#!/bin/sh
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --no-kill
#SBATCH --no-requeue
srun --kill-on-bad-exit=0 --no-kill --mpi=none {agent}
""")
    cluster = start(slots=1, template=str(template), **inside)
    assert values(cluster.run(SUM)) == ["3.0"] * 2
    cluster.stop()
    start.assert_nothing_left()


@pytest.mark.slow
def test_a_job_whose_proxy_is_killed_while_it_waits_ends_without_a_client(
    slurm, start, home, in_background, busy_nodes
):
    told = []
    options = {"coordinator": "job", "ssh": slurm.hosts.ssh, "python": sys.executable}
    future = in_background(start, keep_s=1, on_progress=told.append, **options)
    wait_for_stage(told, "PENDING")
    (proxy,) = [
        each for each in home.processes() if "jupyter_dist.launch.proxy" in command_of(each)
    ]
    proxy.kill()
    assert future.exception(20) is not None
    slurm.scancel(busy_nodes)
    start.assert_no_process_left(40)
    start(slots=1, **options).stop()  # the next job removes what that one has left beside it
    start.assert_nothing_left()


def node_of(slurm):
    """The node of the one job that there is on which its script runs."""
    return slurm.job(slurm.only_job())["BatchHost"]
