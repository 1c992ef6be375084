"""Agents that are started by hand, with the file that a waiting cluster has written for them."""

import contextlib
import errno
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from jupyter_dist import Cluster
from jupyter_dist.coordinator.agents.certificates import Authority
from jupyter_dist.errors import CellRefused, StartFailed
from jupyter_dist.launch.files.connection_file import running_clusters
from jupyter_dist.launch.files.join_file import JOINER, join_path, read_join_file, write_join_file
from jupyter_dist.launch.launcher import JoinTicket
from jupyter_dist.model.hosts.rank import default_slots
from jupyter_dist.probe.gpus import count_gpus
from jupyter_dist.probe.network import list_interfaces, offered_addresses
from jupyter_dist.version import WIRE
from tests.facts import assert_tells
from tests.matrix import only
from tests.patience import Stopwatch

from .leftovers import coordinator_of, engines_of, is_alive, ports_of, wait_until
from .results import values

pytestmark = [
    pytest.mark.skipif(
        not offered_addresses(list_interfaces()), reason="this machine is in no network"
    ),
]

SUM = "import numpy as np\nint(comm.all_reduce(np.array(rank)))"


class Joiner:
    """One `jupyter dist agent --join FILE`, as someone starts it in a terminal."""

    def __init__(self, log_path, *words, stdin=os.devnull):
        self._log_path = log_path
        command = [sys.executable, "-m", "jupyter_dist.cli.__main__", "agent", *words]
        with log_path.open("wb") as log, open(stdin, "rb") as file:
            self.process = subprocess.Popen(
                command, stdin=file, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def pid(self):
        return self.process.pid

    @property
    def said(self):
        return self._log_path.read_text()

    def has_joined(self):
        return self.said.startswith("joined cluster ")

    def joined_as(self):
        """Give the name that it has got; it says so in one line, and nothing else."""
        return re.fullmatch(r"joined cluster demo as (\S+); .*\n", self.said)[1]

    def end(self, within_s=30.0):
        """Wait for its end; gives its status."""
        return self.process.wait(within_s)

    def leftovers(self):
        """Processes and directories that it has made."""
        left = [f"process {child.pid}" for child in self._children if is_alive(child)]
        for folder in (os.environ["TMPDIR"], "/dev/shm"):
            left += [str(path) for path in Path(folder).glob(f"jupyter-dist-*-{self.pid}-*")]
        return left

    def remember(self):
        """Take note of the processes that it has started."""
        self._children = psutil.Process(self.pid).children(recursive=True)
        return self._children


class Joiners:
    """Starts agents; all must have ended on their own when the test is over."""

    def __init__(self, folder):
        self._folder = folder
        self._all = []

    def __call__(self, *words, file=None, stdin=os.devnull):
        """Start one; words as on the command line after the file."""
        log_path = self._folder / f"joiner-{len(self._all)}.log"
        words = ("--join", str(file or join_path("demo")), *words)
        self._all.append(Joiner(log_path, *words, stdin=stdin))
        return self._all[-1]

    def close(self):
        """Wait for them; one that does not end is ended and blamed."""
        stuck = []
        for joiner in self._all:
            try:
                joiner.end()
            except subprocess.TimeoutExpired:
                stuck.append(joiner)
                os.killpg(joiner.pid, signal.SIGKILL)
                joiner.end()
        assert not stuck, [joiner.said for joiner in stuck]


@pytest.fixture
def join(home, tmp_path):
    joiners = Joiners(tmp_path)
    yield joiners
    joiners.close()


@pytest.fixture
def start(join, start):
    """As ever; the agents that have joined end after their clusters."""
    return start


@pytest.fixture
def waiting(start, in_background):
    """Have a cluster wait for its agents; gives its future once the file is there."""

    def begin(hosts="join:2", **options):
        future = in_background(start, hosts, name="demo", **{"timeout_s": 30.0, **options})
        wait_until(
            lambda: join_path("demo").exists() or future.done(), 10, "the join file is there"
        )
        return future

    return begin


@pytest.fixture
def copy(tmp_path):
    """Keep the join file where nobody removes it, with these fields changed."""

    def keep(**changed):
        path = tmp_path / f"copy-{len(list(tmp_path.iterdir()))}"
        write_join_file(path, msgspec.structs.replace(read_join_file(join_path("demo")), **changed))
        return path

    return keep


def joined(*joiners):
    for joiner in joiners:
        wait_until(joiner.has_joined, 10, f"{joiner.process.args} has joined; said {joiner.said!r}")


# --- joining ---


def test_agents_by_hand_make_a_cluster(waiting, join):
    started = waiting()
    path = join_path("demo")
    assert path.stat().st_mode & 0o777 == 0o600, "the file is its owner's alone"
    first = join("--name", "x", "--slots", "2", file="-", stdin=path)
    joined(first)
    assert path.exists()
    second = join("--name", "y", "--slots", "1")
    cluster = started.result(20)
    wait_until(lambda: not path.exists(), 3, "the join file is gone")
    assert values(cluster.run(SUM)) == ["3"] * 3
    assert {host.name: len(host.engines) for host in cluster.topology().hosts} == {"x": 2, "y": 1}
    assert first.joined_as() == "x"
    cluster.stop()
    assert [first.end(), second.end()] == [0, 0]
    assert second.joined_as() == "y"


class Crowd:
    """Strangers who take every connection that they get: see crowd.py."""

    NUMBER = 1500
    """To each port: more than a process with 1024 files can have."""

    def __init__(self, ports):
        command = [sys.executable, str(Path(__file__).with_name("crowd.py")), str(self.NUMBER)]
        self._process = subprocess.Popen(
            [*command, *map(str, ports)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout.readline(), "it has come to an end"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self._process.poll() is None, "it was there until the end"
        self._process.communicate(timeout=30)


@pytest.fixture
def few_files():
    """Processes that are started may have 1024 open files, the usual limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("few_files")
def test_who_holds_a_key_gets_in_past_a_crowd_of_strangers(waiting, join, start, sweep):
    started = waiting("join:2")
    coordinator = psutil.Process(running_clusters()[0].coordinator_pid)
    # How many ranks will join is not known yet, so it takes as many as it may.
    assert coordinator.rlimit(psutil.RLIMIT_NOFILE)[0] > 1024
    with Crowd(ports_of(coordinator)):
        join("--name", "x", "--slots", "2")
        join("--name", "y", "--slots", "2")
        cluster = started.result(30)
        ranks = [port for engine in engines_of(cluster) for port in ports_of(engine)]
        with Crowd(ranks):
            watch = Stopwatch()
            assert values(cluster.run(SUM)) == ["6"] * 4
            watch.assert_less(1, "a cell")
            cluster.run("kept = rank")
            dies = f"import os\nif rank == 3: os.kill(os.getpid(), {signal.SIGKILL:d})"
            assert cluster.run(dies)[3].status == "lost"
            cluster.heal()
            assert values(cluster.run("kept", ranks=[0, 1, 2])) == ["0", "1", "2"]
            assert values(cluster.run(SUM)) == ["6"] * 4
            with Cluster.visit("demo") as visitor:
                assert set(visitor.status().ranks.values()) == {"idle"}
        cluster.stop()


@pytest.mark.slow
def test_who_waits_is_told_for_how_many_and_a_name_that_is_taken_gets_a_number(waiting, join):
    told = []
    started = waiting(on_progress=told.append)
    agents = [join("--name", "x", "--slots", "1")]
    joined(*agents)
    wait_until(lambda: told and "an agent" in told[-1].stage, 5, "the first one is taken note of")
    agents.append(join("--name", "x", "--slots", "1"))
    cluster = started.result(20)
    how = f": jupyter dist agent --join {join_path('demo')}"
    for_two, for_one, starting = dict.fromkeys(step.stage for step in told)
    assert_tells(for_two, "waiting for 2 agents", how)
    assert_tells(for_one, "waiting for an agent", how)
    assert starting == "starting ranks"
    assert sorted(host.name for host in cluster.topology().hosts) == ["x", "x-2"]
    assert sorted(agent.joined_as() for agent in agents) == ["x", "x-2"]


def test_without_wishes_a_host_has_its_own_name_and_as_many_ranks_as_it_can_take(waiting, join):
    started = waiting("join:1")
    join()
    cluster = started.result(20)
    (host,) = cluster.topology().hosts
    assert host.name == socket.gethostname()
    assert len(host.engines) == default_slots(count_gpus(), len(os.sched_getaffinity(0)))
    assert values(cluster.run("world_size")) == [str(cluster.world_size)] * len(host.engines)


# --- refused ---


@pytest.mark.slow
def test_one_too_many_hears_who_has_joined(waiting, join, copy):
    started = waiting()
    kept = copy()
    joined(join("--name", "x", "--slots", "1"), join("--name", "y", "--slots", "1"))
    late = join("--name", "z", file=kept)
    assert late.end() == 1
    assert_tells(late.said, "jupyter-dist: ", "used up", "2 of 2 agents")
    assert "x" in late.said.partition("joined (")[2]
    assert "y" in late.said.partition("joined (")[2]
    assert values(started.result(20).run(SUM)) == ["1", "1"]


@pytest.mark.slow
def test_who_may_not_join_is_told_why_and_costs_no_place(waiting, join, copy):
    started = waiting("localhost:1,join:1")
    issued = Authority().issue_agent(JOINER)
    no_name = join("--name", "a b")
    old = join(file=copy(wire="jupyter-dist/0"))
    stranger = join(
        *("--name", "stranger"),
        file=copy(
            certificate=issued.certificate, private_key=issued.private_key, dial_timeout_s=2.0
        ),
    )
    assert [wrong.end() for wrong in (no_name, old, stranger)] == [1, 1, 1]
    assert_tells(no_name.said, "jupyter-dist: 'a b' ", "--name")
    assert no_name.said.count("\n") == 1, "no traceback"
    assert_tells(old.said, f" {WIRE}, ", "jupyter-dist/0")
    assert "agent's certificate" in stranger.said
    join("--name", "x", "--slots", "1")
    cluster = started.result(20)
    assert [host.name for host in cluster.topology().hosts] == ["localhost", "x"]
    assert values(cluster.run(SUM)) == ["1", "1"]


def test_a_file_that_is_gone_says_where_another_one_comes_from(join, tmp_path):
    wrong = join(file=tmp_path / "none.join")
    assert wrong.end() == 2
    assert_tells(wrong.said, "none.join' ", os.strerror(errno.ENOENT), "%dist_start")


@pytest.mark.slow
def test_the_file_of_a_cluster_that_is_gone_says_so_and_until_when_it_was_good(waiting, join, copy):
    started = waiting("join:1")
    until_s = read_join_file(join_path("demo")).good_until_s
    kept = {"is": until_s, "was": until_s - 3600}
    files = {word: copy(good_until_s=good_until_s) for word, good_until_s in kept.items()}
    join("--name", "x", "--slots", "1")
    started.result(20).stop()
    for word, file in files.items():
        late = join("--name", "y", file=file)
        assert late.end() == 1
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(kept[word]))
        good = f"{word} good until {until}"
        assert_tells(late.said, "cluster 'demo'", "Connection refused", good)
        assert late.said.count("\n") == 1, "no traceback"


@pytest.mark.slow
def test_the_file_of_one_cluster_does_not_open_the_next_of_that_name(waiting, join, copy):
    started = waiting("join:1")
    kept = copy()
    join("--name", "x", "--slots", "1")
    started.result(20).stop()
    started = waiting("join:1")
    present = read_join_file(join_path("demo"))
    write_join_file(kept, msgspec.structs.replace(read_join_file(kept), ports=present.ports))
    stranger = join(file=kept)
    assert stranger.end() == 1
    assert_tells(stranger.said, "answered", "cluster's coordinator")
    join("--name", "x", "--slots", "1")
    started.result(20)


# --- nobody comes ---


@pytest.mark.slow
def test_when_nobody_joins_the_start_is_given_up_naming_the_file(home, within):
    path = join_path("demo")
    with within(12), pytest.raises(StartFailed) as caught:
        Cluster.start("join:2", name="demo", timeout_s=4)
    assert_tells(str(caught.value), " 4 s", "2 agents", f" {path}")
    home.assert_nothing_left(within_s=1)


@pytest.mark.slow
def test_agents_that_have_joined_end_with_a_start_that_is_given_up(waiting, join, home):
    started = waiting(timeout_s=10)
    first = join("--name", "x")
    joined(first)
    error = started.exception(20)
    assert isinstance(error, StartFailed)
    assert_tells(str(error), "an agent", f" {join_path('demo')}")
    first.end()
    home.assert_nothing_left(within_s=1)


@pytest.mark.slow
def test_when_an_agent_is_ended_while_others_are_awaited_the_start_is_given_up(
    waiting, join, home, within
):
    started = waiting()
    victim = join("--name", "x", "--slots", "1")
    joined(victim)
    with within(8):
        victim.process.terminate()
        error = started.exception(15)
    assert isinstance(error, StartFailed)
    assert "host x is gone" in str(error)
    # The start is given up when its stream ends; it ends its zygote after that.
    home.assert_nothing_left(within_s=8)


def test_a_coordinator_that_is_killed_takes_those_that_have_joined_with_it(waiting, join, start):
    started = waiting("join:1")
    agent = join("--name", "x", "--slots", "2")
    cluster = started.result(20)
    agent.remember()
    coordinator_of(cluster).kill()
    agent.end()
    assert agent.leftovers() == []
    cluster.stop()
    Cluster.running()  # removes the connection file
    join_path("demo").unlink(missing_ok=True)  # younger than the last look of the coordinator
    start("localhost:1").stop()  # removes the directory of the killed coordinator


# --- an agent is ended ---


@pytest.mark.parametrize("how", only(["SIGTERM"], ["SIGTERM", "Ctrl-C"]))
def test_an_agent_that_is_ended_leaves_nothing_and_its_ranks_are_lost(waiting, join, within, how):
    started = waiting()
    victim, other = join("--name", "x", "--slots", "2"), join("--name", "y", "--slots", "1")
    cluster = started.result(20)
    before = cluster.topology()
    cluster.run("kept = rank")
    assert len(victim.remember()) >= 3, "a zygote and two ranks"
    with within(8):
        if how == "SIGTERM":
            victim.process.terminate()
        else:  # as a terminal does: to everything that runs in it
            os.killpg(victim.pid, signal.SIGINT)
        victim.end()
    assert victim.leftovers() == []
    assert "Traceback" not in victim.said
    hosts = {host.name: [engine.rank for engine in host.engines] for host in before.hosts}
    (kept,) = hosts["y"]
    states = {**dict.fromkeys(hosts["x"], "lost"), kept: "idle"}
    wait_until(lambda: cluster.status().ranks == states, 5, "its ranks are lost")
    assert values(cluster.run("kept", ranks=kept)) == [str(kept)]
    with pytest.raises(CellRefused, match="lost"):
        cluster.run("1")
    assert other.process.poll() is None


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_that_is_ended_before_it_has_found_home_leaves_nothing(join, home, how):
    """Its way home is a port that never answers."""
    with contextlib.closing(socket.create_server(("127.0.0.2", 0))) as silence:
        port = silence.getsockname()[1]
        path = Path(home.runtime_dir).parent / "silent.join"
        authority = Authority()
        write_join_file(path, _ticket(authority, "127.0.0.2", port))
        agent = join(file=path)
        silence.settimeout(60)
        with silence.accept()[0]:
            agent.remember()
            os.killpg(agent.pid, how)
            assert agent.end() == 1
    assert agent.leftovers() == []
    assert agent.said == ""


def _ticket(authority, address, port):
    issued = authority.issue_agent(JOINER)
    return msgspec.convert(
        {
            "wire": WIRE,
            "cluster": "demo",
            "host": "",
            "homes": [address],
            "ports": {"agents": port, "engines": port, "beats": port},
            "dial_timeout_s": 5.0,
            "ca_certificate": authority.certificate,
            "certificate": issued.certificate,
            "private_key": issued.private_key,
            "good_until_s": time.time() + 60,
        },
        JoinTicket,
    )
