"""The doctor on real hosts: it names what was planted, and leaves nothing."""

import contextlib
import errno
import os
import shlex
import signal
import subprocess
import sys

import pytest

from jupyter_dist.cluster.doctor.diagnosis import NOTEBOOK
from jupyter_dist.cluster.doctor.examination import examine
from jupyter_dist.cluster.spec.specification import specify
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.probe.host_answers import MARKER_PREFIX
from jupyter_dist.views.tables.findings_table import findings_text
from tests.facts import assert_tells
from tests.patience import wait_until
from tests.processes.leftovers import command_of

ALL = "nodeA:2,nodeB:2,nodeC:2"
OTHER_PYTHON = "/home/alice/other"
AN_HOUR_AHEAD = """\
import time
real_time = time.time
time.time = lambda: real_time() + 3600
"""
FIREWALL = """\
table inet planted {{
  chain c {{
    type filter hook {} priority 0;
    {}
  }}
}}
"""
OPENING = "tcp flags & (syn | ack) == syn"
ONE_WAY = f"ip saddr {{}} {OPENING} drop"


def bad(diagnosis):
    """(host, subject) of everything that is bad."""
    return {(each.host, each.subject) for each in diagnosis.findings if each.level == "bad"}


def of(diagnosis, host, subject):
    """The worst that was found about a subject on a host."""
    return diagnosis.of(host, subject)[0]


def check(lab, hosts=ALL, **wishes):
    return examine(specify(hosts, ssh=lab.ssh, **wishes))


def markers(lab, *hosts):
    """Files that tell whether homes are shared, where there are any."""
    return [path for host in hosts for path in lab.path(host, "/root").glob(f"{MARKER_PREFIX}*")]


@contextlib.contextmanager
def closed(lab, host, rules, hook="input"):
    """Let a host's own firewall do something to what comes in, or to its output."""
    done = lab.run(host, ["nft", "-f", "-"], input=FIREWALL.format(hook, rules))
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        lab.run(host, ["nft", "delete", "table", "inet", "planted"])


def test_healthy_hosts_have_nothing_bad_and_nothing_is_left_on_them(lab):
    diagnosis = check(lab, f"{ALL},localhost:2")
    assert diagnosis.is_good, findings_text(diagnosis)
    assert diagnosis.hosts == ("nodeA", "nodeB", "nodeC", "localhost")
    for host in diagnosis.hosts:
        assert of(diagnosis, host, "network").level == "good"
        assert of(diagnosis, host, "jupyter-dist").level == "good"
    assert of(diagnosis, "nodeA", "network").brief == "eth0"
    assert set(diagnosis.versions["python"]) == {NOTEBOOK, *diagnosis.hosts}
    lab.assert_nothing_left(2)
    assert markers(lab, "nodeA", "nodeB", "nodeC") == []


def test_three_planted_faults_are_all_named_with_their_remedies(lab):
    lab.new_host_key("nodeA")
    lab.no_route_back("nodeB")
    made = lab.run("nodeC", [sys.executable, "-m", "venv", "--without-pip", OTHER_PYTHON])
    assert made.returncode == 0, made.stderr
    lab.write("nodeC", "/tmp/ahead/sitecustomize.py", AN_HOUR_AHEAD)
    setup = ("export PYTHONPATH=/tmp/ahead", "echo noise")
    hosts = [
        HostSpec("nodeA", 2),
        HostSpec("nodeB", 2),
        HostSpec("nodeC", 2, python=OTHER_PYTHON, setup=setup),
    ]
    diagnosis = check(lab, hosts)
    assert bad(diagnosis) == {
        ("nodeA", "ssh"),
        ("nodeB", "network"),
        ("nodeC", "jupyter-dist"),
        ("nodeC", "clock"),
    }, findings_text(diagnosis)
    key = of(diagnosis, "nodeA", "ssh")
    assert "host key" in key.what
    assert "ssh-keygen" in key.next_step
    way = of(diagnosis, "nodeB", "network")
    assert_tells(way.what, "no answer", lab.head_address, "reaches it")
    assert "--tunnel" in way.next_step
    missing = of(diagnosis, "nodeC", "jupyter-dist")
    assert f"{OTHER_PYTHON}/bin/python has no" in missing.what
    assert "--install" in missing.next_step
    clock = of(diagnosis, "nodeC", "clock")
    assert "60 min ahead" in clock.what
    assert "NTP" in clock.next_step


def test_a_home_that_cannot_be_written_is_named(lab):
    lab.make_read_only_home("nodeB")
    diagnosis = check(lab)
    home = of(diagnosis, "nodeB", "home")
    assert home.level == "warning"
    assert f"/root ({os.strerror(errno.EROFS)})" in home.what
    assert of(diagnosis, "nodeA", "home").level == "good"


def test_a_host_that_is_off_keeps_no_other_from_being_examined(lab):
    lab.kill_sshd("nodeB")
    diagnosis = check(lab)
    assert bad(diagnosis) == {("nodeB", "ssh")}
    assert "refused" in of(diagnosis, "nodeB", "ssh").what
    assert of(diagnosis, "nodeC", "network").level == "good"


@pytest.mark.slow
def test_hosts_that_do_not_reach_each_other_are_told_once(lab):
    lab.separate("nodeA", "nodeC")
    diagnosis = check(lab)
    assert bad(diagnosis) == {("nodeA", "network"), ("nodeC", "network")}
    found = of(diagnosis, "nodeA", "network")
    assert_tells(found.what, "nodeA", "nodeC cannot", "no answer")
    assert found.what == of(diagnosis, "nodeC", "network").what


def test_a_way_that_is_open_in_one_direction_only_is_told_with_the_direction(lab):
    with closed(lab, "nodeA", ONE_WAY.format(lab.address("nodeB"))):
        diagnosis = check(lab)
    assert bad(diagnosis) == {("nodeA", "network")}
    found = of(diagnosis, "nodeA", "network")
    assert_tells(found.what, "nodeB cannot", "reaches nodeB")


@pytest.mark.slow
def test_another_network_that_is_open_is_offered(lab):
    lab.add_network("second", ["nodeA", "nodeB"])
    here, there = lab.address("nodeA"), lab.address("nodeA", "second")
    first, second = (f"{address.rpartition('.')[0]}.0/24" for address in (here, there))
    with closed(lab, "nodeA", f"iifname eth0 {ONE_WAY.format(lab.address('nodeB'))}"):
        diagnosis = check(lab, "nodeA:2,nodeB:2", interface=first)
        assert f"--interface {second}" in of(diagnosis, "nodeA", "network").next_step
        assert check(lab, "nodeA:2,nodeB:2", interface=second).is_good


@pytest.mark.slow
def test_a_firewall_that_lets_only_some_ports_through_is_no_trouble_when_they_are_named(lab):
    homes = {"ip": lab.head_address, "ip6": lab.head_address6}
    rules = [
        f"{kind} daddr {home} {OPENING} tcp dport != 47000-47099 drop"
        for kind, home in homes.items()
        if home
    ]
    with closed(lab, "nodeA", "\n".join(rules), "output"):
        assert check(lab, ports="47000-47099").is_good
        diagnosis = check(lab)
    assert bad(diagnosis) == {("nodeA", "network")}
    assert "--ports" in of(diagnosis, "nodeA", "network").next_step


def test_two_names_of_one_host_are_found_out(lab):
    diagnosis = check(lab, f"nodeA:2,root@{lab.address('nodeA')}:2")
    assert {subject for _, subject in bad(diagnosis)} == {"machine"}
    found = of(diagnosis, "nodeA", "machine")
    assert_tells(found.what, "same machine", lab.address("nodeA"))


def start_check(lab, hosts):
    words = [sys.executable, "-m", "jupyter_dist.cli", "check"]
    return subprocess.Popen(
        [*words, "--hosts", hosts, "--ssh", shlex.join(lab.ssh)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def commands_on(lab, host):
    """The command lines of what runs there; what ends meanwhile has none."""
    return ["".join(command_of(process)) for process in lab.processes(host)]


def wait_until_it_is_on(lab, host, within_s=10):
    wait_until(
        lambda: any("jupyter-dist check" in command for command in commands_on(lab, host)),
        within_s,
        f"the script is on {host}",
    )


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_check_that_is_interrupted_leaves_nothing_on_any_host(lab, number, status):
    lab.drop("nodeC")  # so that the check waits for it
    with start_check(lab, ALL) as run:
        for host in ("nodeA", "nodeB"):
            wait_until_it_is_on(lab, host)
        run.send_signal(number)
        out, err = run.communicate(timeout=30)
    assert run.returncode == status
    assert out == ""
    assert err == ("jupyter dist: interrupted\n" if number == signal.SIGINT else "")
    lab.assert_nothing_left(3)
    assert markers(lab, "nodeA", "nodeB") == []


@pytest.mark.slow
def test_a_check_whose_host_is_cut_off_ends_and_says_so(lab):
    lab.drop("nodeC")
    with start_check(lab, ALL) as run:
        wait_until_it_is_on(lab, "nodeB")
        lab.cut("nodeB")
        out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (1, "")
    assert "\n✗ nodeB: ssh: " in out
    assert "\n✗ nodeC: ssh: " in out
    assert "\n✗ nodeA" not in out


def test_the_command_line_writes_the_table_and_ends_with_zero_when_all_is_well(lab):
    with start_check(lab, ALL) as run:
        out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (0, "")
    assert "✗" not in out
    assert out.splitlines()[0].split() == ["nodeA", "nodeB", "nodeC"]
