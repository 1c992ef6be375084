"""Hosts that keep a cluster from starting: the start says which and why, and leaves nothing."""

import contextlib
import re
import select
import shutil
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import jupyter_dist
from jupyter_dist import Cluster
from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.model.hosts.start_stage import StartStage
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.version import WIRE, __version__
from tests.facts import assert_tells
from tests.processes.leftovers import ports_of, wait_until

from .clusters import crash, parts, waiting

PAIR = "nodeA:1,nodeB:1"
LATE_ENGINES = """
import sys, time
if "jupyter_dist.engine.zygote" in sys.orig_argv:
    time.sleep(60)
"""


# --- ssh does not get there ---


def test_all_hosts_that_ssh_does_not_reach_are_named_with_their_reasons(start, lab):
    lab.kill_sshd("nodeB")
    told, said = parts(start.refusal("nowhere:1,nodeA:1,nodeB:1,bob@nodeC:1"))
    assert_tells(told[0], "3 hosts failed", "nowhere: ", "resolved (", "`ssh -G nowhere`")
    assert_tells(told[1], "nodeB: ", "refused", "port 22", "sshd")
    assert_tells(told[2], "nodeC: ", "bob", "(the host takes publickey)", "`ssh-copy-id bob@nodeC`")
    last = {line: words for line, words in pairwise(said) if line[:3] == "---"}
    assert list(last) == [f"--- {host} said last ---" for host in ("nowhere", "nodeB", "nodeC")]
    for host, words in zip(last, ("resolve hostname", "Connection refused", "denied"), strict=True):
        assert words in last[host]


@pytest.mark.slow
def test_what_ssh_says_of_one_host_is_told_while_others_are_waited_for(start, lab):
    lab.kill_sshd("nodeA")
    told = []
    start.refusal([HostSpec("nodeA", 1), waiting("nodeB")], on_progress=told.append)
    lost = [step.hosts for step in told if step.hosts[0].stage is StartStage.LOST]
    assert_tells(lost[0][0].note, "refused", "port 22")
    assert lost[0][1].stage is StartStage.SSH
    assert lost[0][1].note.startswith("ssh connects")
    assert [host.stage for host in told[-1].hosts] == [StartStage.LOST, StartStage.SSH]


def test_a_host_that_is_silent(start, lab):
    lab.drop("nodeB")
    hosts = [
        HostSpec("nodeA", 1, ssh=lab.ssh),
        HostSpec("nodeB", 1, ssh=(*lab.ssh, "-oConnectTimeout=2")),
    ]
    told, said = parts(start.refusal(hosts, ssh=None))
    assert_tells(told[0], "nodeB: nothing answered", "port 22")
    assert "timed out" in said[-1]


@pytest.mark.slow
def test_a_host_key_that_has_changed(start, lab):
    lab.new_host_key("nodeA")
    told, said = parts(start.refusal(PAIR))
    known = lab.ssh_config.with_name("known_hosts")
    remedy = f"`ssh-keygen -f '{known}' -R '{lab.address('nodeA')}'`"
    assert_tells(told[0], "nodeA: ", "has changed", f"line 1 of {known}.", remedy)
    assert "verification failed" in said[-1]


@contextlib.contextmanager
def sshd_config(lab, host, line):
    """Let a host's sshd run with one more line in front of its configuration."""
    path = "/etc/ssh/sshd_config"
    old = lab.path(host, path).read_text()

    def run_with(text):
        lab.write(host, path, text)
        lab.kill_sshd(host)
        lab.start_sshd(host)

    run_with(f"{line}\n{old}")
    try:
        yield
    finally:
        run_with(old)


def test_a_host_that_asks_for_a_password(start, lab):
    lab.path("nodeA", "/root/.ssh/authorized_keys").unlink()
    with sshd_config(lab, "nodeA", "PasswordAuthentication yes"):
        told, said = parts(start.refusal(PAIR))
    assert_tells(told[0], "nodeA: ", "root", "publickey,password", "`ssh-copy-id nodeA`")
    assert said[-1].endswith("Permission denied (publickey,password).")


def test_an_ssh_that_does_not_exist(start):
    told, _ = parts(start.refusal("nodeA:1", ssh="/no/such/ssh"))
    assert_tells(told[0], "nodeA: ssh cannot", "/no/such/ssh")


# --- Python there is another one ---


def test_no_such_python(start):
    told, said = parts(start.refusal(PAIR, python="/opt/none"))
    assert_tells(told[0], "2 hosts failed", "nodeA: ", "no Python at /opt/none")
    assert_tells(told[1], "nodeB: ", "no Python at /opt/none")
    assert_tells(said[0], "--- nodeA ")
    assert_tells(said[1], "jupyter-dist: ", " /opt/none")


def test_a_python_without_jupyter_dist(start):
    python = sys._base_executable
    words = [python, "-P", "-c", "import jupyter_dist"]
    if subprocess.run(words, capture_output=True, check=False).returncode == 0:
        pytest.skip("the Python below this environment has jupyter-dist, too")
    told, said = parts(start.refusal([HostSpec("nodeA", 1, python=python), HostSpec("nodeB", 1)]))
    assert_tells(told[0], f"nodeA: {python} ", "no jupyter-dist", "--install")
    assert "'jupyter_dist'" in said[-1]


@pytest.mark.slow
def test_a_jupyter_dist_that_speaks_differently(start, lab):
    package = lab.path("nodeA", "/root/other/jupyter_dist")
    source = Path(jupyter_dist.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    version = package / "version.py"
    version.write_text(version.read_text().replace(WIRE, "jupyter-dist/0"))
    odd = HostSpec("nodeA", 1, setup=("export PYTHONPATH=/root/other",))
    told, _ = parts(start.refusal([odd, HostSpec("nodeB", 1)]))
    theirs = f"{__version__} ({sys.executable})"
    assert_tells(told[0], "nodeA: ", theirs, "jupyter-dist/0", f"({__version__})", f" {WIRE}. ")


@pytest.mark.slow
def test_a_setup_command_that_hangs_ends_with_the_start(start, lab):
    hanging = HostSpec("nodeB", 1, setup=("touch ~/here; sleep 60",), user="alice")
    hosts = [HostSpec("nowhere", 1), hanging]
    told, _ = parts(start.refusal(hosts))
    assert told[0].startswith("nowhere: ")
    assert lab.path("nodeB", "/home/alice/here").exists()
    wait_until(lambda: not lab.processes("nodeB"), 5, "nothing runs on the host any more")


def test_an_installation_that_is_broken(start, lab):
    lab.write("nodeA", "/root/trap/IPython/__init__.py", "raise ImportError('on purpose')")
    odd = HostSpec("nodeA", 1, setup=("export PYTHONPATH=/root/trap",))
    text = start.refusal([odd, HostSpec("nodeB", 1)])
    assert text.splitlines()[0].startswith("nodeA: ")
    assert "ImportError: on purpose" in text


# --- no way home ---


def ports_of_coordinator(home):
    """The ports on which the coordinator listens, once it listens on all of them."""
    for process in home.processes():
        ports = ports_of(process)
        if len(ports) == 4:
            return ports
    return []


def ports_of_zmq(address, ports):
    """Those two of the ports where someone speaks first, as ZeroMQ does and TLS does not."""
    with contextlib.ExitStack() as stack:
        asked = {}
        for port in ports:
            with contextlib.suppress(OSError):
                asked[stack.enter_context(socket.create_connection((address, port), 5))] = port

        def spoken():
            heard = select.select(asked, (), (), 0)[0]
            found = [asked[each] for each in heard if each.recv(1, socket.MSG_PEEK) == b"\xff"]
            return found if len(found) >= 2 else []

        return wait_until(spoken, 10, "ZeroMQ speaks on two ports")


@pytest.mark.slow
def test_hosts_from_which_no_way_leads_home(start, lab, home, in_background):
    stages = []
    lab.no_route_back("nodeC")
    hosts = [waiting("nodeA"), waiting("nodeB"), HostSpec("nodeC", 1)]
    failing = in_background(
        start.refusal, hosts, within_s=20, on_progress=lambda step: stages.append(step.stage)
    )
    ports = wait_until(lambda: ports_of_coordinator(home), 10, "the coordinator listens")
    control = ports_of_zmq(lab.head_address, ports)
    assert len(control) == 2, "that of the control channel and that of the heartbeats"
    for host, blocked in zip(("nodeA", "nodeB"), control, strict=True):
        lab.block_port(host, blocked)
        lab.path(host, "/root/go").touch()
    told, said = parts(failing.result(40))
    assert any("nodeC (" in stage and "dials home" in stage for stage in stages)
    assert_tells(told[0], "3 hosts failed", "nodeA: ")
    for host, line, port in zip(lab.names, told, (*control, r"\d+"), strict=True):
        assert_tells(line, f"{host}: ", "cluster 'cluster-1'", lab.head_address)
        address = re.escape(lab.head_address)
        assert re.search(rf"{address}[^;]* silent [^;]*port {port} \(a firewall", line)
        for step in ("Open", "--interface", "--tunnel"):
            assert step in line
        assert f"--- {host} said last ---" in said
    assert_tells(said[-1], "jupyter-dist: no address", "'cluster-1'")


# --- it goes away meanwhile ---


@pytest.mark.slow
def test_hosts_that_die_or_are_cut_off_before_their_agents_have_come(start, lab, in_background):
    hosts = [HostSpec("nodeA", 1), waiting("nodeB"), waiting("nodeC")]
    failing = in_background(start.refusal, hosts, within_s=20)
    for host in ("nodeB", "nodeC"):
        wait_until(lab.path(host, "/root/here").exists, 15, "ssh has reached the host")
    crash(lab, "nodeB")
    lab.cut("nodeC")
    lab.path("nodeC", "/root/go").touch()  # its agent comes, and nobody hears it
    told, said = parts(failing.result(60))
    assert_tells(told[0], "2 hosts failed", "nodeB: ", "stopped answering")
    assert_tells(told[1], "nodeC: ", "stopped answering")
    assert "not responding" in said[-1]


@pytest.mark.slow
def test_a_host_that_dies_before_its_ranks_have_come(start, lab, in_background):
    lab.write("nodeB", "/root/trap/sitecustomize.py", LATE_ENGINES)
    slow = HostSpec("nodeB", 1, setup=("export PYTHONPATH=/root/trap",))

    def on_progress(step):
        if step.stage == "starting ranks" and lab.processes("nodeB"):
            crash(lab, "nodeB")

    text = start.refusal([HostSpec("nodeA", 1), slow], within_s=20, on_progress=on_progress)
    assert_tells(text, "rank 1 ended", "host nodeB", "not heard")


# --- one machine twice ---


def test_the_same_host_twice_is_refused(home):
    with pytest.raises(HostSpecError, match="named twice"):
        Cluster.start("nodeA:1,NODEA:1")
    assert not home.processes()


def test_this_machine_and_its_address_are_refused(home, lab):
    with pytest.raises(UsageError) as caught:
        Cluster.start(f"localhost:1,{lab.head_address}:2", ssh=lab.ssh)
    told = str(caught.value)
    assert_tells(told, f"localhost and {lab.head_address} ", "same machine (this", ": localhost:3")
    assert not home.processes()


def test_two_names_of_one_host_are_refused(start, lab):
    address = lab.address("nodeA")
    told, _ = parts(start.refusal(f"nodeA:1,{address}:2,nodeB:1"))
    assert_tells(told[0], f"nodeA and {address} ", "same machine (nodeA)", ": nodeA:3")
