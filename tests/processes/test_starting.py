"""Starting a cluster: what is accepted, what is refused, and what a failed start leaves: nothing."""

import os
import re
import subprocess
import sys
from time import monotonic

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import ClusterExists, NoCluster, StartFailed, UsageError
from jupyter_dist.model.hosts.start_stage import StartStage
from tests.facts import assert_tells
from tests.matrix import only

from .programs import run_program
from .results import values


@pytest.mark.parametrize(
    ("hosts", "options"),
    [
        ("localhost:0", {}),
        ("localhost:2,127.0.0.1:2", {}),
        ("localhost:1", {"comm": "bogus"}),
        ("localhost:1", {"name": "../up"}),
        ("localhost:1", {"cwd": "/no/such/place"}),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(home, within, hosts, options):
    with within(5), pytest.raises(UsageError):
        Cluster.start(hosts, **options)
    assert not home.processes()


def test_a_name_is_taken_only_once_and_the_first_cluster_goes_on(start, home):
    first = start("localhost:1", name="mine")
    first.run("kept = 1")
    before = {process.pid for process in home.processes()}
    with pytest.raises(ClusterExists) as caught:
        start("localhost:1", name="mine")
    assert caught.value.name == "mine"
    for way_out in ("'mine'", "attach", "stop", "--name"):
        assert way_out in str(caught.value)
    assert {process.pid for process in home.processes()} == before
    assert values(first.run("kept")) == ["1"]


def test_of_two_that_start_with_one_name_at_once_one_wins(start, in_background):
    attempts = [in_background(start, "localhost:1", name="race") for _ in range(2)]
    errors = [attempt.exception(20) for attempt in attempts]
    assert sorted(error is None for error in errors) == [False, True]
    loser = next(error for error in errors if error is not None)
    assert isinstance(loser, ClusterExists)
    (winner,) = [attempt.result() for attempt in attempts if attempt.exception() is None]
    assert winner.run("1").ok


def test_names_are_given_in_order_and_clusters_do_not_disturb_each_other(start):
    first, second = start("localhost:1"), start("localhost:2")
    assert Cluster.running() == ["cluster-1", "cluster-2"]
    first.run("x = 'first'")
    second.run("x = 'second'")
    assert values(first.run("x")) == ["'first'"]
    with pytest.raises(NoCluster, match="cluster-1, cluster-2") as caught:
        Cluster.attach()
    assert (caught.value.name, caught.value.running) == (None, ("cluster-1", "cluster-2"))
    assert values(start.attach("cluster-1").run("x")) == ["'first'"]
    first.stop()
    assert Cluster.running() == ["cluster-2"]
    assert values(second.run("x")) == ["'second'"] * 2


ORDER = list(StartStage)
"""Of the stages that a host goes through."""


def test_progress_is_told_until_all_are_ready_stage_by_stage(start):
    told, came_s = [], []

    def hear(step):
        told.append(step)
        came_s.append(monotonic())

    start("localhost:3", on_progress=hear)
    # At most five times a second; those that one look at the socket gives were sent apart.
    assert len(came_s) <= 3 + 5 * (came_s[-1] - came_s[0] + 2.0)
    assert [step.world_size for step in told] == [3] * len(told)
    ready = [step.ready_ranks for step in told]
    assert ready == sorted(ready)
    # What is told before the client listens is not told again: the agent may have joined by then.
    assert "localhost" in told[0].stage or told[0].stage == "starting ranks"
    assert told[-1].stage == "starting ranks"
    hosts = [step.hosts[0] for step in told]
    assert {host.host for host in hosts} == {"localhost"}
    places = [ORDER.index(host.stage) for host in hosts]
    assert places == sorted(places)
    # The client may come too late to hear of the first; the times in the end tell of each.
    last = hosts[-1]
    assert (last.stage, last.ready_ranks, last.ranks, last.is_up) == (StartStage.READY, 3, 3, True)
    assert list(last.passed_s) == ["agent", "engines", "communicator"]
    assert list(told[-1].passed_s) == ["hosts", "engines", "communicator"]
    assert all(0 < seconds < 90 for seconds in last.passed_s.values())


def test_a_start_that_fails_tells_last_who_was_how_far(home, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no Python today' >&2\nexit 3\n")
    python.chmod(0o755)
    told = []
    with pytest.raises(StartFailed, match="no Python today"):
        Cluster.start("localhost:2", python=str(python), on_progress=told.append)
    host = told[-1].hosts[0]
    assert host.stage is StartStage.LOST
    assert "status 3" in host.note
    assert not home.processes()


def test_a_terminal_says_in_the_end_what_each_stage_took(home):
    """`jupyter dist start`, whose stderr is a terminal."""
    master, terminal = os.openpty()
    command = [sys.executable, "-m", "jupyter_dist.cli", "start", "-n", "2", "--name", "seen"]
    with subprocess.Popen(command, stderr=terminal, stdout=subprocess.PIPE) as process:
        os.close(terminal)
        process.wait(90)
    said = os.read(master, 1 << 16).decode()
    os.close(master)
    Cluster.visit("seen").stop()
    assert re.search(r"localhost: (agent|engines|communicator) .*? · 0/2 ranks ready", said)
    assert re.search(
        r"cluster seen: 2 ranks .* [\d.]+ s "
        r"\(hosts [\d.]+ s, engines [\d.]+ s, communicator [\d.]+ s\)\r\n$",
        said,
    )
    assert not home.processes()


def test_environment_and_directory_reach_the_cells(start, tmp_path):
    place = tmp_path / "a place"
    place.mkdir()
    cluster = start("localhost:2", env={"MY_FLAG": "ä=1 2", "OMP_NUM_THREADS": "3"}, cwd=place)
    code = "import os\nprint(os.environ['MY_FLAG'], os.environ['OMP_NUM_THREADS'], os.getcwd())"
    assert [rank.stdout for rank in cluster.run(code)] == [f"ä=1 2 3 {place}\n"] * 2


@pytest.mark.slow
def test_files_named_like_modules_of_ours_do_no_harm(start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("zmq.py", "numpy.py", "msgspec.py", "signal.py", "random.py", "queue.py"):
        (tmp_path / name).write_text("raise RuntimeError('the wrong file')\n")
    where = "import os; os.getcwd()"
    assert values(start("localhost:1").run(where)) == [repr(str(tmp_path))], "without `cwd`"
    assert start("localhost:1", start_method="spawn").run("1").ok


def test_ranks_can_be_spawned_instead_of_forked(start):
    cluster = start("localhost:2", start_method="spawn")
    code = "import numpy as np\nprint('hi')\ncomm.all_reduce(np.ones(2)).tolist()"
    assert values(cluster.run(code)) == ["[2.0, 2.0]"] * 2
    assert values(cluster.run("(rank, world_size)")) == ["(0, 2)", "(1, 2)"]


def test_without_a_communicator_comm_explains_itself(start):
    cluster = start("localhost:2", comm="none")
    result = cluster.run("import numpy as np\ncomm.all_reduce(np.ones(2))")
    assert [rank.status for rank in result] == ["raised"] * 2
    assert "--comm none" in str(result[0].error)
    assert values(cluster.run("rank")) == ["0", "1"]


def test_two_hosts_number_their_ranks_host_by_host(start):
    cluster = start("localhost:2,127.0.0.1:2", one_machine=True)
    assert values(cluster.run("(rank, local_rank, local_world_size)")) == [
        "(0, 0, 2)",
        "(1, 1, 2)",
        "(2, 0, 2)",
        "(3, 1, 2)",
    ]
    hosts = cluster.topology().hosts
    assert [(host.name, [e.rank for e in host.engines]) for host in hosts] == [
        ("localhost", [0, 1]),
        ("127.0.0.1", [2, 3]),
    ]
    assert values(cluster.run("int(comm.all_reduce(rank))")) == ["6"] * 4
    assert values(cluster.run("import os\nint(os.environ['LOCAL_RANK'])")) == ["0", "1", "0", "1"]


def test_a_start_that_takes_too_long_is_given_up(home, within):
    with within(10), pytest.raises(StartFailed) as caught:
        Cluster.start("localhost:2", timeout_s=0.05)
    assert "0.05 s" in str(caught.value)
    home.assert_nothing_left(within_s=1)


BROKEN_IMPORT = """
import sys
class Trap:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ImportError("{module} is broken on purpose")
sys.meta_path.insert(0, Trap())
"""


@pytest.mark.parametrize(
    "module",
    [
        pytest.param("IPython", id="zygote"),
        pytest.param("jupyter_dist.agent.connection.coordinator_stream", id="agent"),
        pytest.param("jupyter_dist.coordinator.cells.cell_run", id="coordinator"),
    ],
)
@pytest.mark.parametrize("start_method", only(["fork"], ["fork", "spawn"]))
def test_an_installation_that_is_broken_is_told(home, first_of_all, within, module, start_method):
    first_of_all(BROKEN_IMPORT.format(module=module))
    with within(12), pytest.raises(StartFailed) as caught:
        Cluster.start("localhost:2", timeout_s=60, start_method=start_method)
    assert f"{module} is broken" in str(caught.value)
    home.assert_nothing_left(within_s=1)


@pytest.mark.slow
def test_engines_are_not_forked_with_cudas_driver_and_the_reason_is_told(
    home, tmp_path, first_of_all, within
):
    (tmp_path / "libcuda.so.1").write_bytes(bytes(4096))
    first_of_all(
        f"import mmap\nwith open('{tmp_path}/libcuda.so.1', 'rb') as file:\n"
        "    driver = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n",
    )
    with within(12), pytest.raises(StartFailed) as caught:
        Cluster.start("localhost:2", timeout_s=60)
    assert "libcuda.so" in str(caught.value)
    home.assert_nothing_left(within_s=1)
    with Cluster.start("localhost:1", timeout_s=60, start_method="spawn") as cluster:
        assert values(cluster.run("rank")) == ["0"]


@pytest.mark.slow
def test_a_program_that_starts_clusters_leaves_no_warnings(home):
    script = (
        "from jupyter_dist import Cluster\n"
        "with Cluster.start('localhost:1') as cluster:\n"
        "    print(cluster.run('40 + 2')[0].value_repr)\n"
    )
    done = run_program("-X", "dev", "-W", "error", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


NETWORK = """
import fcntl, pathlib, socket, struct, sys
with socket.socket() as some:  # a new network namespace begins with its loopback down
    fcntl.ioctl(some, 0x8914, struct.pack("16sH14s", b"lo", 1, bytes(14)))
pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(sys.argv[1])
from jupyter_dist import Cluster
from jupyter_dist.errors import StartFailed
try:
    Cluster.start("localhost:2", timeout_s=60)
except StartFailed as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ports", ["40000 40002", "40000 40007"], ids=["coordinator", "ranks"])
def test_when_all_ports_are_taken_the_start_says_so(home, within, ports):
    alone = ["unshare", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("making a network namespace is not allowed here")
    with within(20):
        done = subprocess.run(
            [*alone, sys.executable, "-c", NETWORK, ports],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    assert_tells(done.stdout, "127.0.0.1 is free", "ss -tln")
    home.assert_nothing_left(within_s=1)
