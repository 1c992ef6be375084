"""What keeps a cluster is killed, or it is hit while it starts or stops: said, and nothing left."""

import signal
from functools import partial
from pathlib import Path

import psutil
import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import ClusterGone, StartFailed
from tests.matrix import only
from tests.processes.driver import Driver
from tests.processes.leftovers import (
    agents_of,
    command_of,
    coordinator_of,
    engines_of,
    placed_files,
    wait_until,
    zygotes_of,
)
from tests.processes.listener import Listener
from tests.suspending import STOP_RANKS, STOP_ZYGOTES, await_stop, resume, suspend

from . import promises
from .conftest import Patient, describe, sweep
from .faults import ARM, HEARTBEAT_WITHIN_S, Fault, Outcome
from .moments import MOMENTS, Computing, InACollective, Printing
from .scene import Files, Scene

GONE_WITHIN_S = 5.0
ENDED_WITHIN_S = 15.0
STOPPED_WITHIN_S = 15.0


def assert_all_ended(home, within_s=ENDED_WITHIN_S):
    wait_until(lambda: not home.processes(), within_s, "every process has ended")


# --- the coordinator ---


def kill_coordinator(cluster, _process):
    coordinator_of(cluster).kill()


@pytest.mark.parametrize(
    "moment",
    only(
        ["in_a_collective"],
        ["idle", "computing", "in_a_collective", "printing", "pushing", "rendezvous", "healing"],
    ),
)
def test_a_killed_coordinator_is_told_at_once_and_takes_all_with_it(
    moment, tmp_path, in_background
):
    patient = Patient(tmp_path / "home")
    (tmp_path / "home").mkdir()
    fault = Fault("coordinator_killed", kill_coordinator, Outcome.OK)
    try:
        scene = Scene(patient, fault, tmp_path, in_background)
        stage = MOMENTS[moment]()
        stage.begin(scene)
        scene.strike()
        error = stage.answer.exception(GONE_WITHIN_S) if moment != "idle" else None
        assert moment == "idle" or isinstance(error, ClusterGone), error
        with pytest.raises(ClusterGone) as caught:
            scene.cluster.run("1")
        assert "coordinator" in caught.value.reason
        assert scene.cluster.topology().state == "gone"
        assert_all_ended(patient.home)
    finally:
        patient.close()


# --- while it starts ---


def children_of(pid):
    """Child processes, seen at once."""
    try:
        return [int(pid) for pid in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def find(home, module):
    """The first process of this home that runs a module of ours."""
    for process in home.processes():
        if module in command_of(process):
            return process
    return None


def await_zygote(home):
    """Return the process that gives birth to the ranks, as soon as there is one."""
    return wait_until(lambda: find(home, "jupyter_dist.engine.zygote"), 15, "a zygote")


def await_ranks(zygote):
    """Return the two ranks, which stand still since they were born."""
    wait_until(lambda: len(children_of(zygote.pid)) == 2, 15, "two ranks are born")
    ranks = children_of(zygote.pid)
    for pid in ranks:
        await_stop(pid)
    return map(psutil.Process, ranks)


@pytest.mark.parametrize("fault", only(["sigkill"], ["sigkill", "sigstop", "sigstop_sigcont"]))
def test_a_rank_is_hit_while_the_cluster_starts(fault, start, home, first_of_all, in_background):
    first_of_all(STOP_RANKS)
    starting = in_background(start, None, spec=describe("localhost"))
    engine, other = await_ranks(await_zygote(home))
    resume(other.pid)
    if fault == "sigstop_sigcont":
        resume(engine.pid)
        assert starting.result(20).run("1").ok
        return
    if fault == "sigkill":
        engine.kill()
    error = starting.exception(HEARTBEAT_WITHIN_S + 10)
    assert isinstance(error, StartFailed), error
    word = "SIGKILL" if fault == "sigkill" else "no heartbeat"
    assert word in str(error)
    home.assert_nothing_left(within_s=3)


@pytest.mark.parametrize("whom", ["agent", "zygote", "coordinator"])
def test_a_cluster_that_loses_what_it_needs_while_it_starts_says_so(
    whom, start, home, first_of_all, in_background
):
    first_of_all(STOP_ZYGOTES)
    starting = in_background(start, None, spec=describe("localhost"))
    zygote = await_zygote(home)
    await_stop(zygote.pid)
    module = {"agent": "jupyter_dist.agent", "coordinator": "jupyter_dist.coordinator"}
    victim = zygote if whom == "zygote" else find(home, module[whom])
    victim.kill()
    if zygote.is_running():
        resume(zygote.pid)
    error = starting.exception(20)
    assert isinstance(error, StartFailed), error
    assert whom in str(error)
    assert_all_ended(home)
    sweep(home)
    home.assert_nothing_left(within_s=3)


# --- while it stops ---


STRIKES = {
    "sigkill": lambda cluster: engines_of(cluster)[1].kill,
    "sigstop": lambda cluster: engines_of(cluster)[1].suspend,
    "exit": lambda cluster: partial(engines_of(cluster)[1].send_signal, signal.SIGUSR2),
    "agent_killed": lambda cluster: agents_of(cluster)[0].kill,
    "zygote_killed": lambda cluster: zygotes_of(cluster)[0].kill,
    "coordinator_killed": lambda cluster: coordinator_of(cluster).kill,
}


@pytest.mark.parametrize("fault", only(["agent_killed"], STRIKES))
def test_whatever_happens_while_it_stops_it_stops(fault, start, home, tmp_path, in_background):
    cluster = start(None, spec=describe("localhost"))
    files = Files(tmp_path)
    hold = files.hold.replace("\n", "\n    ")
    code = "import atexit, os, signal, time\n"
    code += "signal.signal(signal.SIGUSR2, lambda *_: os._exit(7))\n"
    code += f"def wait():\n    {hold}\n_ = atexit.register(wait)"
    assert cluster.run(code).ok
    strike = STRIKES[fault](cluster)
    stopping = in_background(cluster.stop)
    files.wait_until_here(range(2))
    strike()
    stopping.result(STOPPED_WITHIN_S)
    assert not cluster.is_running
    assert_all_ended(home)
    sweep(home)
    home.assert_nothing_left(within_s=3)


# --- the notebook ---


@pytest.fixture
def driver(home):
    """A notebook that can be killed."""
    driver = Driver()
    yield driver
    driver.close()


@pytest.fixture
def driven(driver):
    """A cluster that it has started, with armed ranks that have something to keep."""
    assert driver.do("cluster = Cluster.start('localhost:4', comm='ring', keep_s=1)") == "ok"
    assert driver.do(f"cluster.run({ARM!r})") == "ok"
    assert driver.do("cluster.run('kept = rank * 10')") == "ok"
    return driver


def assert_intact(cluster):
    result = cluster.run("kept == rank * 10 and int(comm.all_reduce(1)) == 4", timeout_s=90)
    assert [rank.value_repr for rank in result] == ["True"] * 4


@pytest.mark.parametrize("moment", only([InACollective], [Computing, InACollective, Printing]))
def test_a_cell_survives_its_notebook(moment, driven, start, home, tmp_path, in_background):
    files = Files(tmp_path)
    driven.begin(moment().code(files))
    driven.close()
    cluster = start.attach()
    listener = Listener()
    following = in_background(cluster.follow, listener)
    listener.wait_for("here", ranks=range(4))
    files.go.touch()
    result = following.result(10)
    assert [rank.value_repr for rank in result] == ["'done'"] * 4
    if moment is Printing:
        for rank in result:
            promises.assert_lines_complete(rank.stdout, may_be_cut=False)
    assert_intact(cluster)


def test_a_push_survives_its_notebook(driven, start, tmp_path):
    files = Files(tmp_path)
    code = f"import os, time; rank = int(os.environ['RANK'])\n{files.hold}"
    slow = f"type('Slow', (), {{'__reduce__': lambda self: (exec, ({code!r},))}})()"
    driven.tell(f"cluster.push({{'pushed': {slow}, 'large': b'x' * (1 << 20)}})")
    files.wait_until_here(range(4))
    driven.close()
    cluster = start.attach()
    assert len(placed_files(cluster)) == 1
    files.go.touch()
    result = cluster.run("pushed is None, len(large)", timeout_s=90)
    assert [rank.value_repr for rank in result] == [f"(True, {1 << 20})"] * 4
    assert placed_files(cluster) == []
    assert_intact(cluster)


def test_a_healing_survives_its_notebook(driven, start, tmp_path):
    files = Files(tmp_path)
    assert driven.do("cluster.run('import os, time\\nkept = rank * 10', is_setup=True)") == "ok"
    setup = "if os.path.exists({!r}):\n    {}".format(
        str(tmp_path / "armed"), files.hold.replace("\n", "\n    ")
    )
    assert driven.do(f"cluster.run({setup!r}, is_setup=True)") == "ok"
    (tmp_path / "armed").touch()
    visitor = Cluster.visit()
    engines_of(visitor)[1].kill()
    promises.assert_is_lost(visitor, 1, "SIGKILL", 5)
    driven.tell("cluster.heal()")
    files.wait_until_here([1])
    driven.close()
    visitor.detach()
    cluster = start.attach()
    files.go.touch()
    assert_intact(cluster)
    assert set(cluster.status().ranks.values()) == {"idle"}


def test_a_cluster_whose_notebook_was_killed_ends_by_itself(driven, home):
    assert len(home.processes()) >= 7
    driven.close()
    home.assert_nothing_left(within_s=ENDED_WITHIN_S)


def test_a_notebook_that_is_killed_while_its_cluster_starts_leaves_nothing(driver, home):
    driver.tell("cluster = Cluster.start('localhost:4', comm='ring', keep_s=1)")
    zygote = await_zygote(home)
    suspend(zygote.pid)
    driver.close()
    resume(zygote.pid)
    home.assert_nothing_left(within_s=ENDED_WITHIN_S)


def test_a_notebook_that_is_killed_while_its_cluster_stops_leaves_nothing(driven, home, tmp_path):
    files = Files(tmp_path)
    code = f"import atexit\n_ = atexit.register(exec, {files.hold!r}, globals())"
    assert driven.do(f"cluster.run({code!r})") == "ok"
    driven.tell("cluster.stop()")
    files.wait_until_here(range(4))
    driven.close()
    files.go.touch()
    home.assert_nothing_left(within_s=ENDED_WITHIN_S)
