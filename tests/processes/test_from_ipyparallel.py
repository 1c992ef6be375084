"""Clusters on the hosts of an ipyparallel cluster that runs: its engines start our agents."""

import contextlib
import os
import re
import socket
import stat
import sys
import time
import venv
from base64 import b64decode, b64encode

import ipyparallel
import psutil
import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import ClusterExists, StartFailed, UsageError
from jupyter_dist.probe.network import list_interfaces, offered_addresses
from tests.facts import assert_tells

from .leftovers import command_of, is_alive, wait_until
from .results import values

pytestmark = [
    pytest.mark.skipif(
        not offered_addresses(list_interfaces()), reason="this machine is in no network"
    ),
]

SUM = "import numpy as np\nint(comm.all_reduce(np.array(rank)))"
ENGINES = 3
READABLE = b64encode(b"-----BEGIN PRIVATE KEY--")
"""How a key begins in a message of ours."""


class Theirs:
    """A cluster of ipyparallel, in directories of its own."""

    def __init__(self, root):
        self.temp_dir = root / "tmp"
        self.temp_dir.mkdir()
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("TMPDIR", str(self.temp_dir))
            monkeypatch.setenv("IPYTHONDIR", str(root / "ipython"))
            # The shorter this period, the sooner engines are registered.
            self._cluster = ipyparallel.Cluster(n=ENGINES, controller_args=["--ping=300"])
            self.client = self._cluster.start_and_connect_sync()
        self.pids = dict(enumerate(self.client[:].apply_sync(os.getpid)))
        self._own = {process.pid for process in self._all()}

    def connect(self):
        """One more client."""
        return self._cluster.connect_client_sync()

    def _all(self):
        mark = str(self.temp_dir)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("TMPDIR") == mark:
                    yield process

    def guests(self):
        """What runs here and is not theirs, and what is left of that in files."""
        found = [
            " ".join(command_of(process))
            for process in self._all()
            if process.pid not in self._own and is_alive(process)
        ]
        return found + [str(path) for path in self.temp_dir.iterdir()]

    def zombies(self):
        """Children of their engines that nobody has reaped."""
        children = [child for pid in self.pids.values() for child in psutil.Process(pid).children()]
        return [child for child in children if _is_zombie(child)]

    def close(self):
        """End it."""
        self.client.close()
        self._cluster.stop_cluster_sync()


@pytest.fixture(scope="module")
def their_cluster(tmp_path_factory):
    theirs = Theirs(tmp_path_factory.mktemp("theirs"))
    yield theirs
    theirs.close()


def _is_zombie(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it was reaped meanwhile
        return False


@pytest.fixture
def theirs(their_cluster):
    """Three engines of ipyparallel; after the test nothing of ours is left with them."""
    yield their_cluster
    wait_until(
        lambda: not their_cluster.guests() and not their_cluster.zombies(),
        10,
        f"nothing of ours is left with them: {their_cluster.guests()}",
    )


@pytest.fixture
def start(theirs, home):
    """Start clusters where their engines are; they end with the test."""
    with contextlib.ExitStack() as clusters:

        def begin(client=theirs.client, **options):
            cluster = Cluster.from_ipyparallel(client, **{"timeout_s": 30.0, **options})
            home.remember(cluster)
            return clusters.enter_context(cluster)

        yield begin


@pytest.fixture
def busy(theirs, tmp_path):
    """Keep an engine of theirs busy until the file that this gives is there."""
    go = tmp_path / "go"
    asked = []

    def occupy(engine):
        asked.append(theirs.client[engine].apply_async(eval, wait_for(go)))
        return go

    yield occupy
    go.touch()
    theirs.client.wait(asked, timeout=10)


def wait_for(path):
    """An expression that is computed once this file is there."""
    return (
        f"[None for _ in iter(lambda: __import__('time').sleep(0.01) or "
        f"__import__('os').path.exists({str(path)!r}), True)]"
    )


@pytest.fixture
def python(theirs, tmp_path):
    """Have engine 0 take this for its interpreter; a text is a script of sh."""
    view = theirs.client[0]
    before = view.apply_sync(eval, "__import__('sys').executable")

    def pretend(path_or_script):
        path = path_or_script
        if isinstance(path, str):
            path = tmp_path / "python"
            path.write_text(f"#!/bin/sh\n{path_or_script}\n")
            path.chmod(stat.S_IRWXU)
        view.apply_sync(eval, f"setattr(__import__('sys'), 'executable', {str(path)!r})")
        return path

    yield pretend
    pretend(type(tmp_path)(before))


def refusal(start, **options):
    with pytest.raises(StartFailed) as caught:
        start(**options)
    return str(caught.value)


# --- what one gets ---


@pytest.mark.slow
def test_each_host_has_as_many_ranks_as_it_has_engines_of_theirs(start):
    cluster = start()
    assert values(cluster.run(SUM)) == ["3"] * ENGINES
    (host,) = cluster.topology().hosts
    assert host.name == socket.gethostname()
    assert Cluster.running() == [cluster.name]


def test_their_engines_are_free_once_it_runs(start, theirs, within):
    start(slots=1)
    with within(5):
        assert theirs.client[:].apply_sync(os.getpid) == list(theirs.pids.values())


def test_ranks_do_not_take_themselves_for_engines_of_theirs(start, theirs):
    code = "import os\nsorted(name for name in os.environ if name.startswith('IPP_'))"
    assert theirs.client[0].apply_sync(eval, "'IPP_CLUSTER_ID' in __import__('os').environ")
    assert values(start(slots=1).run(code)) == ["[]"]


def test_ranks_may_see_what_any_engine_of_the_host_may_see(start, theirs):
    setting = "__import__('os').environ.__setitem__('CUDA_VISIBLE_DEVICES', {!r})"
    for engine, visible in enumerate(("2", "0", "0,1")):
        theirs.client[engine].apply_sync(eval, setting.format(visible))
    try:
        (agent,) = agents(theirs, start(slots=1))
        assert agent.environ()["CUDA_VISIBLE_DEVICES"] == "2,0,1"
    finally:
        theirs.client[:].apply_sync(eval, "__import__('os').environ.pop('CUDA_VISIBLE_DEVICES')")


def agents(theirs, cluster):
    """Agents that their engines have started for a cluster."""
    engines = {engine.pid for engine in cluster.topology().engines}
    return [
        process
        for process in theirs._all()
        if "jupyter_dist.agent" in command_of(process)
        and engines <= {child.pid for child in process.children(recursive=True)}
    ]


@pytest.mark.slow
def test_it_ends_with_our_cluster_and_not_with_theirs(home, tmp_path):
    (root := tmp_path / "theirs").mkdir()
    theirs = Theirs(root)
    try:
        cluster = Cluster.from_ipyparallel(theirs.client, slots=2, timeout_s=90)
        home.remember(cluster)
    finally:
        theirs.close()
    with cluster:
        assert values(cluster.run(SUM)) == ["1"] * 2
        (agent,) = agents(theirs, cluster)
    wait_until(lambda: not is_alive(agent) and not theirs.guests(), 5, "nothing of ours is left")


def test_nothing_that_opens_our_cluster_passes_through_theirs(start, theirs):
    start(slots=1)
    records = theirs.client.db_query({"msg_id": {"$ne": ""}}, keys=["msg_id", "buffers"])
    passed = b"".join(bytes(each) for record in records for each in record["buffers"] or ())
    sealed = b64decode(re.findall(rb"'ticket': '([^']+)'", passed)[-1])
    assert len(sealed) > len(READABLE)
    for secret in (b"PRIVATE KEY", b"private_key", READABLE):
        assert secret not in passed
        assert secret not in sealed


# --- engines that are busy ---


def test_engines_that_are_busy_are_named_and_waited_for(start, busy):
    go, told = busy(1), []

    def release(step):
        told.append(step.stage)
        if "engine 1 " in step.stage:
            go.touch()

    assert values(start(on_progress=release).run("rank")) == ["0", "1", "2"]
    assert any("engine 1 " in stage for stage in told), told
    assert any(stage.endswith(f" {socket.gethostname()}") for stage in told), told


@pytest.mark.slow
def test_the_wait_for_an_engine_that_stays_busy_ends(start, busy, theirs, within):
    go = busy(1)
    with within(9):
        told = refusal(start, timeout_s=4.0)
    assert_tells(told, "engine 1 ", " 4 s", "busy")
    go.touch()
    loaded = "[name for name in __import__('sys').modules if name.startswith('_jupyter_dist')]"
    before = theirs.client[1].apply_sync(eval, loaded)
    assert theirs.client[1].apply_sync(eval, loaded) == before


def test_ctrl_c_ends_the_wait(start, busy, theirs, within):
    busy(0)

    def interrupt(step):
        raise KeyboardInterrupt

    with within(6), pytest.raises(KeyboardInterrupt):
        start(on_progress=interrupt)
    assert Cluster.running() == []


@pytest.mark.slow
def test_ctrl_c_takes_back_what_an_engine_has_not_begun(start, busy, theirs):
    stages = []

    def interrupt(step):
        stages.append(step.stage)
        if "starts agents" in step.stage:
            busy(0)
        if step.stage == "waits for engine 0 of ipyparallel":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(on_progress=interrupt)
    assert len(stages) == 2
    busy(0).touch()
    assert theirs.client[0].apply_sync(os.getpid) == theirs.pids[0]
    assert theirs.guests() == []


# --- what goes wrong ---


def test_a_host_without_the_package_says_how_to_install_it(start, python, tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    bare = python(tmp_path / "bare" / "bin" / "python")
    host = socket.gethostname()
    assert_tells(
        refusal(start), f"host {host}: ", "jupyter_dist", f"{bare} -m pip ", "jupyter-dist=="
    )


def test_the_last_words_of_an_agent_that_ends_at_once_are_told(start, python):
    python("echo oh no >&2; exit 3")
    host = socket.gethostname()
    told, *said = refusal(start).splitlines()
    assert_tells(told, f"host {host}: ", "status 3")
    assert said == [f"--- {host} said last ---", "oh no"]


def test_the_last_words_of_an_agent_that_is_not_taken_in_are_told(start, python):
    python(f'exec {sys.executable} "$@" --name "no name"')
    lines = refusal(start).splitlines()
    assert "status 1" in lines[0]
    assert_tells(lines[-1], "jupyter-dist: 'no name' ", "--name")


@pytest.mark.slow
def test_an_agent_that_says_nothing_is_ended(start, python, tmp_path, within):
    python(f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    with within(13):
        told = refusal(start, timeout_s=8.0)
    assert_tells(told, f"host {socket.gethostname()}: ", "not joined", "ended")
    assert told.count("\n") == 0, "it has said nothing"
    wait_until(
        lambda: not psutil.pid_exists(int((tmp_path / "pid").read_text())), 5, "it has ended"
    )


@pytest.mark.slow
def test_agents_that_wait_end_when_the_name_is_taken(start, theirs):
    start(slots=1, name="mine")
    before = theirs.guests()
    with pytest.raises(ClusterExists):
        start(slots=1, name="mine")
    wait_until(lambda: len(theirs.guests()) == len(before), 5, "the second agent is gone")


def test_an_interpreter_that_is_not_there_is_named(start, python, tmp_path):
    missing = python(tmp_path / "no" / "python")
    assert str(missing) in refusal(start)


def test_a_client_that_is_closed_is_refused(start, theirs):
    client = theirs.connect()
    client.close()
    with pytest.raises(UsageError, match="this client"):
        start(client)


@pytest.mark.slow
def test_an_engine_that_dies_meanwhile_is_named(home, tmp_path):
    (root := tmp_path / "theirs").mkdir()
    theirs = Theirs(root)
    try:
        shot = []

        def shoot(step):
            if not shot:
                shot.append(psutil.Process(theirs.pids[2]))
                shot[0].kill()

        theirs.client[2].apply_async(time.sleep, 60)
        with pytest.raises(StartFailed, match=r"engine 2: .*died"):
            Cluster.from_ipyparallel(theirs.client, timeout_s=90, on_progress=shoot)
        assert shot
    finally:
        theirs.close()
    assert not theirs.guests()
