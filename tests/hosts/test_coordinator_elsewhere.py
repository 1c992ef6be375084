"""The coordinator on a host of the lab, and the notebook outside, behind one ssh connection."""

import signal
import socket

import numpy as np
import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import ClusterExists, FrameworkError, StartFailed
from tests.facts import assert_tells
from tests.processes.leftovers import command_of, coordinator_of, wait_until
from tests.processes.listener import Listener

from .clusters import values, waiting

GO, DONE = "/root/go", "/root/done"
WAITS = f"""
import os, time
if rank == 0:
    print("here")
    while not os.path.exists({GO!r}):
        time.sleep(0.05)
    print("during the break")
    open({DONE!r}, "w").close()
"""


@pytest.fixture
def start_on_a(start, lab):
    """Start clusters whose coordinator is on nodeA, from where ssh reaches the other hosts."""
    key = (lab.directory / "id_ed25519").read_text()
    known = (lab.directory / "known_hosts").read_text()
    lab.write("nodeA", "/root/.ssh/id_ed25519", key, 0o600)
    lab.write("nodeA", "/root/.ssh/known_hosts", known)

    def begin(hosts=None, **options):
        return start(hosts, coordinator="nodeA", **options)

    return begin


def ssh_of(cluster):
    """The ssh processes through which this machine reaches the coordinator."""
    return [each for each in coordinator_of(cluster).children() if "ssh" in command_of(each)[0]]


def coordinators_on(lab, host):
    """The coordinators that run on a host."""
    words = ["-P", "-m", "jupyter_dist.coordinator"]
    return [each for each in lab.processes(host) if command_of(each)[1:4] == words]


def test_hosts_dial_the_coordinators_machine_and_the_notebook_has_one_ssh(start_on_a, lab):
    for host in ("nodeA", "nodeB"):
        lab.no_route_back(host)  # to the notebook's machine
    with socket.create_server(("127.0.0.1", 0)) as taken:  # as by another ssh with the same wish
        own_wish = ("-L", f"{taken.getsockname()[1]}:localhost:80")
        cluster = start_on_a("localhost:1,nodeB:1", ssh=[*lab.ssh, *own_wish])
    names = values(cluster.run("import socket; socket.gethostname()"))
    assert names == ["'nodeA'", "'nodeB'"]
    assert len(ssh_of(cluster)) == 1
    x = np.arange(1 << 20)
    cluster.push({"x": x})
    assert [found.sum() for found in cluster.pull("x + rank").values()] == [x.sum(), (x + 1).sum()]
    assert Cluster.running() == [cluster.name]
    with pytest.raises(FrameworkError, match="on another one"):
        cluster.ipyparallel()
    cluster.stop()
    assert coordinators_on(lab, "nodeA") == []


@pytest.mark.slow
def test_ranks_work_at_home_where_the_notebooks_directory_is_not(
    start_on_a, lab, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # each host has a /tmp of its own
    cluster = start_on_a("localhost:1")
    assert values(cluster.run("import os; os.getcwd()")) == ["'/root'"]
    cluster.stop()
    lab.path("nodeA", "/root/project").mkdir()
    cluster = start_on_a("localhost:1", cwd="project")
    assert values(cluster.run("import os; os.getcwd()")) == ["'/root/project'"]


@pytest.mark.slow
def test_what_a_cell_says_during_a_break_comes_after_it(start_on_a, lab, in_background, within):
    cluster, listener = start_on_a("nodeB:2"), Listener()
    cell = in_background(cluster.run, WAITS, watcher=listener)
    listener.wait_for("here", ranks=[0])
    lab.kill_sshd("nodeA")
    listener.wait_for_note("nodeA is out of reach")
    lab.run("nodeB", ["touch", GO])
    wait_until(lambda: lab.path("nodeB", DONE).exists(), 10, "the cell has gone on")
    assert listener.text[0] == "here\n"
    lab.start_sshd("nodeA")
    with within(30):
        assert cell.result(40)[0].stdout == "here\nduring the break\n"
    assert values(cluster.run("rank")) == ["0", "1"]


def test_who_lets_go_of_a_cluster_finds_it_again(start_on_a, lab):
    cluster = start_on_a("localhost:1", keep_s=600.0)
    cluster.run("kept = rank")
    proxy, way = coordinator_of(cluster), {"coordinator": "nodeA", "ssh": lab.ssh}
    cluster.detach()
    proxy.send_signal(signal.SIGTERM)
    wait_until(lambda: not Cluster.running(), 10, "this machine has forgotten it")
    with pytest.raises(ClusterExists):
        start_on_a("localhost:1", name=cluster.name)
    with pytest.raises(StartFailed, match=f"no cluster 'other' runs there; .*{cluster.name}"):
        Cluster.attach("other", **way)
    found = Cluster.attach(cluster.name, **way)
    coordinator_of(found).kill()
    wait_until(lambda: not found.is_running, 10, "its end is noticed")
    found.detach()
    found = Cluster.attach(cluster.name, **way)
    assert values(found.run("kept")) == ["0"]
    assert Cluster.attach(cluster.name, watch=True, **way).is_observer
    found.stop()


def test_a_coordinator_that_ends_while_it_is_out_of_reach_is_gone(start_on_a, lab):
    cluster = start_on_a("localhost:1")
    lab.kill_sshd("nodeA")
    for process in coordinators_on(lab, "nodeA"):
        process.terminate()
        process.wait(15)
    lab.start_sshd("nodeA")
    wait_until(lambda: not cluster.is_running, 30, "its end is known here")
    with pytest.warns(UserWarning, match=f"%dist_attach {cluster.name} --coordinator nodeA"):
        cluster.stop()  # for all that is known here it may go on


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"coordinator": "nowhere"}, ("nowhere", "`ssh -G nowhere`")),
        ({"coordinator": "nodeC", "python": "/no/python"}, ("nodeC", "/no/python", "--python")),
        ({"coordinator": "nodeC", "hosts": "bob@nodeB:1"}, ("nodeB",)),
        ({"coordinator": "nodeC", "cwd": "no/such"}, ("nodeC", "no/such", "--cwd")),
    ],
)
def test_a_start_that_fails_says_where_and_leaves_nothing(start, options, facts):
    assert_tells(start.refusal(**{"within_s": 30.0, **options}), *facts)


def test_a_start_that_a_person_gives_up_leaves_nothing(start_on_a, start, lab):
    def give_up(_progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start_on_a([waiting("nodeB")], on_progress=give_up)
    start.assert_no_process_left()
    lab.run("nodeB", ["rm", "-f", "/root/here"])


@pytest.mark.slow
def test_an_sshd_that_forwards_nothing_is_named(start, lab):
    config = lab.path("nodeC", "/etc/ssh/sshd_config").read_text()
    lab.write("nodeC", "/etc/ssh/sshd_config", f"AllowTcpForwarding no\n{config}")
    lab.kill_sshd("nodeC")
    lab.start_sshd("nodeC")
    assert "AllowTcpForwarding" in start.refusal("localhost:1", coordinator="nodeC", within_s=30.0)
