"""Starting over ssh: who is where, what ranks find there, what is told and what stays secret."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.connection_file import connection_path, read_connection
from jupyter_dist.model.hosts.start_stage import StartStage
from jupyter_dist.model.spec.cluster_spec import HostSpec
from tests.facts import assert_tells
from tests.patience import Stopwatch
from tests.pretended.systems import variables_of
from tests.processes.listener import begin
from tests.processes.programs import run_program

from . import open_lab
from .clusters import parts, values, waiting

THREE = "nodeA:1,nodeB:1,nodeC:1"


def test_ranks_of_three_hosts_compute_together(start, lab):
    cluster = start("nodeA:2,nodeB:2,nodeC:2")
    assert cluster.world_size == 6
    code = "import socket\n(rank, socket.gethostname(), local_rank, local_world_size)"
    assert values(cluster.run(code)) == [
        f"({rank}, '{host}', {rank % 2}, 2)"
        for rank, host in enumerate(np.repeat(("nodeA", "nodeB", "nodeC"), 2))
    ]
    code = "import numpy as np\nx = comm.all_reduce(np.arange(200_000) * (rank + 1))\nint(x[-1])"
    assert values(cluster.run(code)) == [str(21 * 199_999)] * 6
    assert [(host.name, host.address) for host in cluster.topology().hosts] == [
        (host, lab.address(host)) for host in ("nodeA", "nodeB", "nodeC")
    ]
    assert cluster.notes == ()
    cluster.name_axes("host=-1,local=2")
    assert [each.rank for each in cluster.run("1", on="nodeB,nodeC,local=0")] == [2, 4]
    with pytest.raises(UsageError, match="Did you mean nodeA"):
        cluster.select(on="nodea")


@pytest.mark.slow
def test_a_coordinator_does_without_what_windows_lacks(start, monkeypatch, tmp_path):
    for name, value in variables_of("win32", tmp_path).items():
        monkeypatch.setenv(name, value)
    cluster = start("nodeA:1,nodeB:1")
    cluster.push({"large": bytes(1 << 22)})
    assert values(cluster.run("len(large), int(comm.all_reduce(rank))")) == ["(4194304, 1)"] * 2
    assert [len(got) for got in cluster.pull("large").values()] == [1 << 22] * 2
    ended = cluster.run("import os, signal\nif rank:\n    os.kill(os.getpid(), signal.SIGBUS)")
    assert [rank.status for rank in ended] == ["ok", "lost"]
    assert "SIGBUS" in ended[1].crash.reason
    cluster.heal()
    assert values(cluster.run("rank")) == ["0", "1"]
    done = run_program("-m", "jupyter_dist.cli", "status", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "ready"


@pytest.mark.slow
def test_without_slots_a_host_takes_a_rank_for_each_core_up_to_four(start):
    cluster = start("nodeA,nodeB:1")
    assert cluster.world_size == min(4, len(os.sched_getaffinity(0))) + 1
    hosts = cluster.topology().hosts
    assert [len(host.engines) for host in hosts] == [cluster.world_size - 1, 1]


def test_a_user_is_somebody_else_on_the_host(start):
    cluster = start("alice@nodeA:1,nodeB:1")
    code = "import os\n(os.getuid(), os.environ['HOME'])"
    assert values(cluster.run(code)) == ["(2001, '/home/alice')", "(0, '/root')"]
    assert values(cluster.run("int(comm.all_reduce(rank))")) == ["1", "1"]


@pytest.mark.slow
def test_hosts_may_be_named_by_their_ipv6_addresses(start, lab):
    if not lab.address6("nodeA"):
        pytest.skip("this machine has no IPv6")
    one, other = (f"[{lab.address6(host)}]" for host in ("nodeA", "nodeB"))
    cluster = start(f"{one}:1,{other}:1")
    assert values(cluster.run("import socket\nsocket.gethostname()")) == ["'nodeA'", "'nodeB'"]
    assert [host.name for host in cluster.topology().hosts] == [one, other]
    assert values(cluster.run("int(comm.all_reduce(1))")) == ["2", "2"]


def test_this_machine_and_others_make_one_cluster(start, lab):
    cluster = start("localhost:1,nodeA:1")
    code = "import os\nos.stat('/proc/self/ns/net').st_ino"
    here, there = values(cluster.run(code))
    assert (here == str(os.stat("/proc/self/ns/net").st_ino), here == there) == (True, False)
    assert values(cluster.run("int(comm.all_reduce(rank + 1))")) == ["3", "3"]
    addresses = [host.address for host in cluster.topology().hosts]
    assert addresses == [lab.head_address, lab.address("nodeA")]


def test_through_a_tunnel_a_host_needs_no_way_back(start, lab):
    for host in ("nodeA", "nodeB"):
        lab.no_route_back(host)
    cluster = start("nodeA:1,nodeB:1", tunnel=True)
    assert values(cluster.run("int(comm.all_reduce(rank + 1))")) == ["3", "3"]
    addresses = [host.address for host in cluster.topology().hosts]
    assert addresses == [lab.address("nodeA"), lab.address("nodeB")]
    coordinator = psutil.Process(cluster._connection.coordinator_pid)
    listening = {
        each.laddr.ip.removeprefix("::ffff:")
        for each in coordinator.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


SPEC = """
[defaults]
ssh = "{ssh}"
env = {{ OF_ALL = "1" }}

[[hosts]]
name = "nodeA"
slots = 1
python = "{environment}"
setup = ["export FROM_SETUP='two words'", "umask 027 # not for others"]
env = {{ OF_ONE = "ä b" }}
cwd = "/var/tmp"
devices = [1, 0]

[[hosts]]
name = "nodeB"
slots = 1
setup = "export IS_LOGIN=$(shopt -q login_shell && echo yes)"
"""
SEEN = """
import os, sys
names = "OF_ALL OF_ONE FROM_SETUP IS_LOGIN CUDA_VISIBLE_DEVICES".split()
print(os.getcwd(), oct(os.umask(0o077)), sys.executable, *map(os.environ.get, names), sep="|")
"""


@pytest.mark.slow
def test_a_spec_file_says_what_ranks_of_each_host_find(start, lab, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    spec = tmp_path / "cluster.toml"
    spec.write_text(SPEC.format(ssh=shlex.join(lab.ssh), environment=sys.prefix))
    cluster = start(spec=spec, ssh=None)
    one, other = (rank.stdout for rank in cluster.run(SEEN))
    python = Path(sys.prefix) / "bin/python"
    assert one == f"/var/tmp|0o27|{python}|1|ä b|two words|None|1\n"
    assert other == f"/|0o22|{sys.executable}|1|None|None|yes|None\n"


@pytest.mark.slow
def test_where_a_host_has_no_such_directory_its_ranks_work_at_home(start, tmp_path):
    cluster = start("localhost:1,alice@nodeA:1,nodeB:1", cwd=tmp_path)
    code = "import os\nos.getcwd()"
    expected = [str(tmp_path), "/home/alice", "/root"]
    assert values(cluster.run(code)) == [repr(place) for place in expected]
    of_a, of_b = sorted(cluster.notes)
    assert_tells(of_a, f"nodeA: {tmp_path} ", " /home/alice")
    assert_tells(of_b, f"nodeB: {tmp_path} ", " /root")


@pytest.mark.slow
def test_a_directory_that_was_named_for_a_host_must_be_there(start):
    hosts = [HostSpec("nodeA", 1), HostSpec("nodeB", 1, cwd="/no/such/place")]
    told, _ = parts(start.refusal(hosts))
    assert_tells(told[0], "nodeB: working directory", "'/no/such/place' is not")


@pytest.mark.slow
def test_hosts_start_at_the_same_time(start):
    slow = {"setup": ("sleep 5",)}
    spells = []
    for names in (["nodeA"], ["nodeA", "nodeB", "nodeC"]):
        watch = Stopwatch()
        start([HostSpec(name, 1, **slow) for name in names]).stop()
        spells.append(watch.spell())
    alone, together = spells
    assert alone.took_s > 5
    together.assert_less(alone.took_s + 5)  # one after the other they would take 10 s more


PRIVATE = (b"PRIVATE KEY", b"-----BEGIN")


def secrets_seen(home, lab, secrets):
    """Look at the command line and environment of every process of a cluster."""
    processes = [*home.processes(), *(each for host in lab.names for each in lab.processes(host))]
    found, texts = [], []
    for process in processes:
        for file in (Path(f"/proc/{process.pid}/cmdline"), Path(f"/proc/{process.pid}/environ")):
            with contextlib.suppress(OSError):  # it has just ended
                texts.append(file.read_bytes())
                found += [f"{file}: {secret!r}" for secret in secrets if secret in texts[-1]]
    assert any(b"jupyter_dist" in text for text in texts)
    return found


def test_no_secret_is_on_a_command_line_or_in_an_environment(start, home, lab):
    seen = []
    cluster = start(THREE, on_progress=lambda _: seen.extend(secrets_seen(home, lab, PRIVATE)))
    credentials = read_connection(connection_path(cluster.name)).credentials
    keys = (credentials.server_public, credentials.own.public, credentials.own.secret)
    assert [len(key) for key in keys] == [40] * 3
    secrets = [*PRIVATE, *(key.encode() for key in keys)]
    assert seen + secrets_seen(home, lab, secrets) == []


def test_progress_tells_each_host_by_its_stage(start, lab):
    told = []

    def on_progress(step):
        told.append(step)
        nodes = {host.host: host for host in step.hosts}
        if nodes["nodeA"].stage is StartStage.SSH:
            lab.path("nodeA", "/root/go").touch()
        elif nodes["nodeA"].is_up:
            lab.path("nodeB", "/root/go").touch()

    start([waiting("nodeA"), waiting("nodeB")], on_progress=on_progress)
    stages = list(dict.fromkeys(step.stage for step in told))
    for hosts in ("nodeA, nodeB", "nodeB"):
        assert any(stage.startswith(f"waiting for {hosts} (ssh") for stage in stages), stages
    assert stages[-1] == "starting ranks"
    assert {step.world_size for step in told} == {2}
    first = told[0].hosts
    assert [(host.host, host.stage) for host in first] == [
        ("nodeA", StartStage.SSH),
        ("nodeB", StartStage.SSH),
    ]
    assert first[0].note.startswith("ssh connects")
    between = [step.hosts for step in told if step.hosts[0].is_up and not step.hosts[1].is_up]
    assert between[0][0].stage is StartStage.WAITING
    assert between[0][1].stage in (StartStage.SSH, StartStage.AGENT)
    for host in told[-1].hosts:
        assert (host.stage, host.ready_ranks, host.ranks) == (StartStage.READY, 1, 1)
        # An agent may have joined before what its ssh says of the way to it is read.
        passed = [stage for stage in host.passed_s if stage not in ("agent", "waiting")]
        assert passed == ["ssh", "engines", "communicator"]
    assert "waiting" in told[-1].hosts[0].passed_s
    assert list(told[-1].passed_s) == ["hosts", "engines", "communicator"]


@pytest.mark.slow
def test_versions_that_differ_are_noted(start, lab):
    folder = "/root/other/numpy-0.1.dist-info"
    lab.write("nodeB", f"{folder}/METADATA", "Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    hosts = [HostSpec("nodeA", 1), HostSpec("nodeB", 1, setup=("export PYTHONPATH=/root/other",))]
    here = f"{np.__version__} on the notebook's side, nodeA"
    assert start(hosts).notes == (f"numpy differs: {here}; 0.1 on nodeB",)


@pytest.mark.slow
def test_large_objects_travel_to_hosts_and_back(start):
    cluster = start(THREE)
    sent = np.random.default_rng(1).integers(0, 255, 40 << 20, np.uint8)
    cluster.push({"x": sent})
    assert values(cluster.run("x.nbytes, int(x.sum())")) == [f"({40 << 20}, {sent.sum()})"] * 3
    assert cluster.run("y = x + x.dtype.type(rank)").ok
    got = cluster.pull("y")
    assert sorted(got) == [0, 1, 2]
    assert all((got[rank] == sent + np.uint8(rank)).all() for rank in got)


@pytest.mark.slow
def test_a_cell_is_interrupted_on_all_hosts(start, in_background, within):
    cluster = start(THREE)
    running = begin(
        in_background, cluster, "kept = rank\nprint('here')\nimport time\ntime.sleep(60)"
    )
    with within(5):
        assert cluster.interrupt() == (0, 1, 2)
        result = running.result(10)
    assert [rank.status for rank in result] == ["interrupted"] * 3
    assert values(cluster.run("kept")) == ["0", "1", "2"]


def in_terminal(*words):
    """Run `jupyter dist` as a person does; gives what it wrote to stdout and stderr."""
    command = [Path(sys.executable).with_name("jupyter-dist"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow
def test_clusters_on_hosts_are_started_and_ended_from_a_terminal(start, lab, tmp_path):
    spec = tmp_path / "cluster.toml"
    spec.write_text(open_lab.write_spec(lab).read_text())
    told, progress = in_terminal("start", "--spec", str(spec), "--name", "mine")
    assert told.startswith("mine\n")
    assert "cluster mine: 6 ranks" in progress
    assert in_terminal("list", "--names")[0] == "mine\n"
    told, _ = in_terminal("status", "mine")
    assert "6 ranks on 3 hosts" in told
    lines = [line.split() for line in told.splitlines() if "idle" in line]
    assert [(line[0], line[1]) for line in lines] == [
        (str(rank), host) for rank, host in enumerate(np.repeat(lab.names, 2))
    ]
    assert in_terminal("stop", "mine")[0] == "stopped mine\n"
    start.assert_nothing_left()
