"""The lab does what its users believe it does."""

import contextlib
import errno
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import psutil
import pytest

from tests.facts import assert_tells
from tests.patience import wait_until
from tests.processes.leftovers import name_of

from . import open_lab
from .lab import HostsLab, system

PYTHON = sys.executable
# Lets root exceed the limit for buffers; not every Python names it.
RECEIVE_BUFFER = getattr(socket, "SO_RCVBUFFORCE", 33)
PATIENT_S, BRIEF_S = 15.0, 0.6
"""How long to wait for what must come, on a busy machine too; and for what must not."""
pytestmark = pytest.mark.slow
SLEEPER = ["-c", "import time; print('up', flush=True); time.sleep(60)"]


def ssh(lab, *words):
    """Run a command on a host over ssh, trusting no key that is not known."""
    return subprocess.run(
        [*lab.ssh, "-oStrictHostKeyChecking=yes", "-oBatchMode=yes", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def connects(lab, host, address, port=22, within_s=PATIENT_S):
    """Tell whether a host gets a TCP connection in time."""
    words = ["timeout", f"{within_s:g}", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"]
    return lab.run(host, words).returncode == 0


def is_out_of_reach(lab, host, address, port=22):
    """Tell whether a host gets no TCP connection."""
    return not connects(lab, host, address, port, BRIEF_S)


def head_connects(address, port=22, within_s=PATIENT_S):
    """Tell whether this machine gets a TCP connection in time."""
    with contextlib.suppress(OSError):
        socket.create_connection((address, port), within_s).close()
        return True
    return False


def is_out_of_reach_of_head(address, port=22):
    """Tell whether this machine gets no TCP connection."""
    return not head_connects(address, port, BRIEF_S)


@contextlib.contextmanager
def started(lab, host, argv):
    """Something that runs in a host and has printed its first line."""
    with subprocess.Popen(lab.command(host, argv), stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.fixture
def door(lab):
    """A port of the head, open to all."""
    with socket.create_server((lab.head_address, 0)) as server:
        yield server.getsockname()[1]


def test_a_machine_that_cannot_have_a_lab_says_why(monkeypatch):
    monkeypatch.setitem(system.PROGRAMS, "no-such-program", "some-package")
    assert_tells(system.why_not.__wrapped__(), "missing: no-such-program ", "some-package")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "root" in system.why_not.__wrapped__()


@pytest.mark.parametrize("user", ["root", "alice"])
@pytest.mark.parametrize("host", ["nodeA", "nodeB", "nodeC"])
def test_ssh_reaches_each_host_as_each_user_and_its_key_is_known(lab, host, user):
    home = "/root" if user == "root" else f"/home/{user}"
    done = ssh(lab, "-l", user, host, "whoami; hostname; pwd")
    assert (done.stdout.split(), done.stderr) == ([user, host, home], "")


def test_ssh_reaches_a_host_by_its_addresses(lab):
    for address in filter(None, (lab.address("nodeB"), lab.address6("nodeB"))):
        assert ssh(lab, address, "hostname").stdout == "nodeB\n"


def test_a_login_has_nothing_of_our_environment(lab, monkeypatch):
    monkeypatch.setenv("JD_SECRET", "x")
    assert "JD_SECRET" not in ssh(lab, "nodeA", "env").stdout
    assert "JD_SECRET" not in lab.run("nodeA", ["env"]).stdout


def test_each_host_has_its_own_files(lab):
    folders = ("/tmp", "/root", "/home", "/run", "/dev/shm", "/var/tmp", "/etc")
    files = [f"{folder}/only-on-nodeA" for folder in folders]
    assert ssh(lab, "nodeA", "touch", *files).returncode == 0
    assert lab.run("nodeA", ["ls", "-U", *files]).stdout.split() == files
    assert lab.run("nodeB", ["ls", *files]).stdout == ""
    assert not any(Path(file).exists() for file in files)
    lab.run("nodeA", ["rm", files[-1]])
    assert lab.run("nodeB", ["cat", "/etc/hostname"]).stdout == "nodeB\n"
    assert lab.path("nodeA", "/tmp/only-on-nodeA").exists()


def test_each_host_sees_only_its_own_processes_and_interfaces(lab):
    assert lab.run("nodeA", ["ls", "/sys/class/net"]).stdout.split() == ["eth0", "lo"]
    assert str(os.getpid()) not in lab.run("nodeA", ["ls", "/proc"]).stdout.split()


@pytest.mark.parametrize("user", ["root", "alice"])
def test_our_python_runs_there_and_cannot_be_damaged_there(lab, user):
    code = "import jupyter_dist, msgspec; print(jupyter_dist.__file__)"
    done = ssh(lab, "-l", user, "nodeC", f'{PYTHON} -c "{code}"')
    assert done.stdout.strip().endswith("/jupyter_dist/__init__.py"), done.stderr
    done = ssh(lab, "-l", user, "nodeC", f"touch {sys.prefix}/x {Path(__file__).parent}/x")
    assert done.stderr.count(os.strerror(errno.EROFS)) == 2


def test_hosts_reach_each_other_and_the_head(lab, door):
    assert connects(lab, "nodeA", "nodeB")
    assert connects(lab, "nodeB", lab.address("nodeC"))
    assert connects(lab, "nodeC", "head", door)
    if lab.address6("nodeA"):
        assert connects(lab, "nodeB", lab.address6("nodeA"))


def test_what_takes_too_long_is_ended_in_the_host_too(lab):
    with pytest.raises(subprocess.TimeoutExpired):
        lab.run("nodeA", ["sleep", "61"], timeout_s=0.3)
    wait_until(lambda: not lab.processes("nodeA"), 5, "nothing runs there")


def test_a_cut_host_is_gone_until_healed_and_sessions_survive(lab):
    with socket.create_connection((lab.address("nodeA"), 22), PATIENT_S) as session:
        assert session.recv(100).startswith(b"SSH-2.0")
        lab.cut("nodeA")
        assert is_out_of_reach_of_head(lab.address("nodeA"))
        assert is_out_of_reach(lab, "nodeA", lab.address("nodeB"))
        assert head_connects(lab.address("nodeB"))
        lab.heal("nodeA")
        session.sendall(b"what is this\r\n")
        session.settimeout(PATIENT_S)
        assert session.recv(100)
    assert head_connects(lab.address("nodeA"))


@pytest.mark.parametrize(
    ("direction", "arrives_there", "arrives_here"),
    [("in", False, True), ("out", True, False), ("both", False, False)],
)
def test_packets_are_dropped_one_way_or_both(lab, direction, arrives_there, arrives_here):
    receive = (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', 7000));"
        f"print('up', flush=True); s.settimeout({PATIENT_S if arrives_there else BRIEF_S});"
        "print(s.recv(9))"
    )
    send = f"echo hello > /dev/udp/{lab.head_address}/7001"
    lab.drop("nodeA", direction)
    with socket.socket(type=socket.SOCK_DGRAM) as here:
        here.bind((lab.head_address, 7001))
        here.settimeout(PATIENT_S if arrives_here else BRIEF_S)
        words = lab.command("nodeA", [PYTHON, "-c", receive])
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as there:
            there.stdout.readline()
            here.sendto(b"hello", (lab.address("nodeA"), 7000))
            lab.run("nodeA", ["bash", "-c", send])
            assert ("hello" in there.stdout.read()) is arrives_there
        with contextlib.suppress(TimeoutError):
            assert here.recv(9) == b"hello\n"
            assert arrives_here
            return
        assert not arrives_here


def test_a_direction_that_does_not_exist_is_refused(lab):
    with pytest.raises(ValueError, match=r"'up': .*both, in, out"):
        lab.drop("nodeA", "up")


def test_a_firewall_blocks_ports_of_the_head_for_one_host(lab, door):
    lab.block_port("nodeA", door)
    assert is_out_of_reach(lab, "nodeA", lab.head_address, door)
    assert connects(lab, "nodeB", lab.head_address, door)
    lab.heal("nodeA")
    assert connects(lab, "nodeA", lab.head_address, door)
    lab.block_port("nodeA", f"{door - 1}-{door + 1}")
    assert is_out_of_reach(lab, "nodeA", lab.head_address, door)
    assert head_connects(lab.address("nodeA"))
    lab.block_port("nodeB", 22, "in")
    assert is_out_of_reach_of_head(lab.address("nodeB"))
    assert connects(lab, "nodeA", lab.address("nodeB"))


def test_without_a_route_back_only_the_head_can_connect(lab, door):
    lab.no_route_back("nodeA")
    assert is_out_of_reach(lab, "nodeA", lab.head_address, door)
    assert connects(lab, "nodeA", lab.address("nodeB"))
    assert ssh(lab, "nodeA", "hostname").stdout == "nodeA\n"


def test_two_hosts_can_be_separated(lab):
    lab.separate("nodeA", "nodeB")
    assert is_out_of_reach(lab, "nodeA", lab.address("nodeB"))
    assert is_out_of_reach(lab, "nodeB", lab.address("nodeA"))
    assert connects(lab, "nodeC", lab.address("nodeA"))
    assert head_connects(lab.address("nodeA"))
    lab.heal("nodeB")
    assert connects(lab, "nodeA", lab.address("nodeB"))


def test_some_packets_are_lost(lab):
    code = (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM);"
        f"[s.sendto(b'x', ('{lab.head_address}', 7001)) for _ in range(400)]"
    )
    lab.lose("nodeA", 30)
    with socket.socket(type=socket.SOCK_DGRAM) as here:
        here.bind((lab.head_address, 7001))
        # The usual buffer is too small for all of them: it would lose packets on its own.
        here.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER, 4 << 20)
        assert lab.run("nodeA", [PYTHON, "-c", code]).returncode == 0
        here.setblocking(False)
        count = 0
        with contextlib.suppress(BlockingIOError):
            while here.recv(9):
                count += 1
    assert 220 < count < 340


def test_packets_are_delayed_and_sessions_survive(lab):
    def round_trip_s(address):
        """Give the shortest of five: a busy machine may make one longer, but none shorter."""
        found_s = []
        for _ in range(5):
            start_s = time.monotonic()
            socket.create_connection((address, 22), PATIENT_S).close()
            found_s.append(time.monotonic() - start_s)
        return min(found_s)

    with socket.create_connection((lab.address("nodeA"), 22), PATIENT_S) as session:
        assert session.recv(100).startswith(b"SSH-2.0")
        lab.delay("nodeA", 40)
        assert 0.08 < round_trip_s(lab.address("nodeA")) < 0.3
        assert round_trip_s(lab.address("nodeB")) < 0.08
        if lab.address6("nodeA"):
            assert 0.08 < round_trip_s(lab.address6("nodeA")) < 0.3
        session.sendall(b"what is this\r\n")
        assert session.recv(100)
    # Large frames with pending checksums pass in both directions.
    done = ssh(lab, "nodeA", "head -c 3000000 /dev/zero")
    assert len(done.stdout) == 3_000_000
    lab.block_port("nodeA", 22, "in")
    assert is_out_of_reach_of_head(lab.address("nodeA"))
    lab.heal("nodeA")
    assert round_trip_s(lab.address("nodeA")) < 0.08


def test_a_crashed_host_says_nothing_and_boots_with_its_files(lab):
    ssh(lab, "nodeA", "echo kept > kept; touch /dev/shm/jupyter-dist-lost")
    with socket.create_connection((lab.address("nodeA"), 22), PATIENT_S) as session:
        session.recv(100)
        lab.crash("nodeA")
        assert lab.processes("nodeA") == []
        with pytest.raises(RuntimeError, match="nodeA is down"):
            lab.run("nodeA", ["true"])
        session.settimeout(0.3)
        with pytest.raises(TimeoutError):
            session.recv(100)
        lab.boot("nodeA")
        assert ssh(lab, "nodeA", "cat kept; ls /dev/shm").stdout == "kept\n"
        session.sendall(b"anybody there?\r\n")
        session.settimeout(PATIENT_S)
        with pytest.raises(ConnectionResetError):
            session.recv(100)


def test_sshd_dies_with_its_sessions_and_starts_again(lab):
    with subprocess.Popen([*lab.ssh, "nodeA", "echo up; exec sleep 62"], stdout=-1) as session:
        session.stdout.readline()
        lab.kill_sshd("nodeA")
        assert session.wait(PATIENT_S) == 255
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((lab.address("nodeA"), 22), PATIENT_S)
    # It has said so before it became another program.
    wait_until(lambda: [name_of(each) for each in lab.processes("nodeA")] == ["sleep"], 10, "sleep")
    lab.start_sshd("nodeA")
    assert ssh(lab, "nodeA", "pkill sleep").returncode == 0


def test_a_new_host_key_is_noticed(lab):
    lab.new_host_key("nodeA")
    done = ssh(lab, "nodeA", "true")
    assert done.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr
    lab.reset()
    assert ssh(lab, "nodeA", "true").returncode == 0


def test_differences_last_until_reset(lab):
    lab.write("nodeA", "/root/.bashrc", "echo noise\n")
    lab.write("nodeA", "/etc/hostname", "other\n", 0o600)
    lab.write("nodeA", "/etc/profile.d/lab.sh", "export LAB=1\n")
    assert ssh(lab, "nodeA", "hostname").stdout == "noise\nnodeA\n"
    assert ssh(lab, "nodeA", "bash -l -c 'echo $LAB'").stdout == "noise\n1\n"
    lab.make_read_only_home("nodeA")
    assert "Read-only" in ssh(lab, "nodeA", "touch /root/x").stderr
    assert "Read-only" in ssh(lab, "-l", "alice", "nodeA", "touch ~/x").stderr
    lab.reset()
    assert ssh(lab, "nodeA", "touch x; cat /etc/hostname").stdout == "nodeA\n"
    assert ssh(lab, "-l", "alice", "nodeA", "touch x; stat -c %a /etc/hostname").stdout == "644\n"
    assert ssh(lab, "nodeA", "ls /etc/profile.d/lab.sh").returncode != 0


def test_a_second_network_is_a_way_of_its_own(lab):
    lab.add_network("fast", ["nodeA", "nodeB"], with_head=False)
    address = lab.address("nodeB", "fast")
    assert address != lab.address("nodeB")
    assert address in lab.run("nodeB", ["ip", "addr", "show", "eth1"]).stdout
    lab.cut("nodeB", network="main")
    assert connects(lab, "nodeA", address)
    assert is_out_of_reach(lab, "nodeA", lab.address("nodeB"))
    assert is_out_of_reach(lab, "nodeC", address)
    assert is_out_of_reach_of_head(address)
    lab.crash("nodeA")
    lab.boot("nodeA")
    assert connects(lab, "nodeA", address)
    lab.reset()
    assert lab.run("nodeB", ["ip", "addr", "show", "eth1"]).returncode != 0


def test_leftovers_are_named_and_removed(lab):
    lab.assert_nothing_left()
    listen = "import socket,time; s=socket.create_server(('', 7000)); print(1, flush=True);time.sleep(60)"
    files = ["/tmp/jupyter-dist-x", "/dev/shm/jupyter-dist-y", "/tmp/other"]
    lab.run("nodeB", ["touch", *files])
    with (
        started(lab, "nodeA", [PYTHON, *SLEEPER]),
        started(lab, "nodeB", [PYTHON, "-c", listen]),
        started(lab, "nodeB", ["bash", "-c", "echo up; sleep 63; exit # jupyter_dist"]),
        started(lab, "nodeC", ["bash", "-c", "echo up; sleep 64; exit"]),
    ):
        with pytest.raises(AssertionError, match="left behind") as failure:
            lab.assert_nothing_left(0.2)
        told = re.sub(r"process \d+", "process", str(failure.value)).splitlines()[1:]
        wait_until(
            lambda: {process.name() for process in lab.processes("nodeC")} == {"bash", "sleep"},
            5,
            "bash has begun to sleep",
        )
        for host in lab.names:
            lab.remove_leftovers(host)
    assert f"nodeA: process: {PYTHON} {' '.join(SLEEPER)}" in told
    assert "nodeB: process: bash -c echo up; sleep 63; exit # jupyter_dist" in told
    assert_tells("\n".join(told), "nodeB: someone listens", "port 7000")
    assert [line for line in told if "file" in line] == [
        f"nodeB: file {file}" for file in files[:2]
    ]
    assert not any(line.startswith("nodeC") for line in told)
    lab.assert_nothing_left()
    assert [lab.processes(host) for host in lab.names] == [[], [], []]


def test_two_labs_stand_side_by_side(lab, make_lab):
    other = make_lab("nodeA", "nodeZ")
    assert other.address("nodeA") != lab.address("nodeA")
    assert ssh(other, "nodeZ", "hostname").stdout == "nodeZ\n"
    lab.cut("nodeA")
    assert ssh(other, "nodeA", "hostname").stdout == "nodeA\n"
    assert is_out_of_reach(other, "nodeA", lab.address("nodeB"))


def test_paths_are_visible_where_they_are(make_lab, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/file").write_text("seen")
    lab = make_lab("nodeA", visible=[tmp_path / "shared"])
    assert lab.run("nodeA", ["cat", tmp_path / "shared/file"]).stdout == "seen"
    lab.reset()
    assert (tmp_path / "shared/file").exists()
    assert lab.run("nodeA", ["cat", tmp_path / "shared/file"]).stdout == "seen"


def test_a_person_gets_a_cluster_to_start_and_faults_to_choose_from(lab, monkeypatch, capsys):
    spec = tomllib.loads(open_lab.write_spec(lab).read_text())
    assert [host["name"] for host in spec["hosts"]] == list(lab.names)
    words = [*shlex.split(spec["defaults"]["ssh"]), "nodeC", spec["defaults"]["python"], "-V"]
    assert _told(*words).startswith("Python 3.")
    lines = iter(
        ["", "cut nodeA", "drop nodeA up", "drop", "heal nodeX", "leftovers nodeB", "quit"]
    )
    monkeypatch.setattr("builtins.input", lambda _prompt: next(lines))
    open_lab.obey(lab)
    assert is_out_of_reach_of_head(lab.address("nodeA"))
    facts = ("done", "'up': ", "missing", "'nodeX'", "nothing")
    for line, fact in zip(capsys.readouterr().out.splitlines(), facts, strict=True):
        assert fact in line


def traces(interfaces, root):
    """What labs with these networks and this directory have on this machine."""
    told = [
        _told("ip", "-o", "link"),
        _told("ip", "netns", "list"),
        _told("ip", "route", "show", "table", "all"),
        _told("nft", "list", "ruleset"),
        _told("ls", "/dev/shm"),
        Path("/proc/self/mountinfo").read_text(),
        Path("/proc/net/unix").read_text().replace("@jupyter-dist-lab-", "jdl"),
    ]
    ours = re.compile(rf"\b({'|'.join(interfaces)})\b|{re.escape(str(root))}")
    return [line for text in told for line in text.splitlines() if ours.search(line)]


def _told(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=10).stdout


def test_a_lab_leaves_nothing(tmp_path):
    others = set(psutil.Process().children(recursive=True))
    with HostsLab(["nodeA", "nodeB"], tmp_path) as lab:
        lab.add_network("fast", ["nodeA"])
        interfaces = [network.interface for network in lab._networks.values()]
        lab.delay("nodeA", 5)
        lab.drop("nodeA")
        lab.crash("nodeB")
        with started(lab, "nodeA", [PYTHON, *SLEEPER]):
            processes = set(psutil.Process().children(recursive=True)) - others
            assert len(processes) >= 5
            assert len(traces(interfaces, tmp_path)) >= 4
            lab.close()
    assert not [process for process in processes if process.is_running()]
    assert traces(interfaces, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_hosts_die_with_whoever_built_them(tmp_path, make_lab):
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from tests.hosts.lab import HostsLab\n"
        "with HostsLab(['nodeA'], sys.argv[2]) as lab:\n"
        "    lab.delay('nodeA', 5)\n"
        "    print(lab._networks['main'].interface, flush=True); time.sleep(60)\n"
    )
    words = [PYTHON, "-c", program, str(Path(__file__).parents[2]), str(tmp_path / "killed")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as builder:
        interfaces = [builder.stdout.readline().strip()]
        processes = psutil.Process(builder.pid).children(recursive=True)
        assert len(processes) >= 5  # the switch, the relay, pid 1, sshd
        builder.send_signal(signal.SIGKILL)
    assert psutil.wait_procs(processes, PATIENT_S)[1] == []
    make_lab("nodeB")  # removes what a dead process could not
    wait_until(lambda: not traces(interfaces, tmp_path / "killed"), 5, "all is removed")
