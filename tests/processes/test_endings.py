"""However a cluster ends, what happened is said and nothing is left."""

import gc
import pkgutil
import signal
import subprocess
import sys
import time

import pytest

from jupyter_dist import Cluster
from jupyter_dist.cluster import cluster as cluster_module
from jupyter_dist.cluster import session as session_module
from jupyter_dist.errors import CellRefused, ClusterGone, DistError
from jupyter_dist.views.cell.crash_card import crash_lines
from tests.matrix import only
from tests.patience import let_pass
from tests.small_disk import mounted_disk
from tests.suspending import resume, suspend

from .leftovers import (
    Home,
    agents_of,
    command_of,
    coordinator_of,
    is_alive,
    wait_until,
    zygotes_of,
)
from .listener import begin
from .programs import run_script


def busy(cluster, in_background, code="import time\ntime.sleep(60)"):
    """Have every rank run something; gives the future of its result."""
    return begin(in_background, cluster, f"print('here')\n{code}")


def test_exit_handlers_of_cells_run_and_stopping_twice_is_harmless(start, within, tmp_path):
    cluster = start("localhost:2")
    place = str(tmp_path)
    cluster.run(
        f"import atexit, pathlib\n_ = atexit.register(pathlib.Path({place!r}, f'{{rank}}').touch)"
    )
    with within(3):
        cluster.stop()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.isdigit()) == ["0", "1"]
    cluster.stop()
    assert not cluster.is_running
    assert cluster.topology().state == "stopped"
    assert "gone" in repr(cluster)
    with pytest.raises(ClusterGone, match="%dist_start") as caught:
        cluster.run("1")
    assert (caught.value.name, "stopped" in caught.value.reason) == (cluster.name, True)


@pytest.mark.parametrize("who", only(["starter"], ["starter", "visitor"]))
def test_a_coordinator_that_does_not_answer_is_not_said_to_have_stopped(start, monkeypatch, who):
    cluster = start("localhost:1", name="deaf")
    ours = cluster if who == "starter" else Cluster.visit("deaf")
    coordinator = coordinator_of(cluster)
    suspend(coordinator.pid)
    try:
        with monkeypatch.context() as shorter:
            shorter.setattr(Cluster, "longest_end_s", 1.0)
            shorter.setattr(cluster_module, "_LAST_MOMENTS_S", 0.2)
            with pytest.raises(DistError, match=f"still runs .* kill -9 {coordinator.pid}"):
                ours.stop()
        assert Cluster.running() == ["deaf"]
    finally:
        resume(coordinator.pid)
    ours.stop()  # whether the first order has come or not
    assert not is_alive(coordinator)


def test_a_busy_cluster_is_stopped_as_well(start, in_background, within):
    cluster = start("localhost:2")
    running = busy(cluster, in_background, "while True: pass")
    with within(6):
        cluster.stop()
    assert isinstance(running.exception(5), ClusterGone)


def test_a_cell_that_ignores_every_signal_does_not_outlive_stop(start, in_background, within):
    cluster = start("localhost:1")
    code = (
        "import signal, time\n"
        "for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\n"
        "while True: time.sleep(1)"
    )
    busy(cluster, in_background, code)
    with within(8):
        cluster.stop()


def test_leaving_the_context_by_an_exception_stops_the_cluster(home):
    def fail_inside(cluster):
        with cluster:
            home.remember(cluster)
            raise LookupError("the user's own")

    cluster = Cluster.start("localhost:1")
    with pytest.raises(LookupError, match="the user's own"):
        fail_inside(cluster)
    assert not cluster.is_running
    home.assert_nothing_left()


def test_a_killed_coordinator_is_noticed_and_takes_everything_with_it(
    start, home, in_background, within
):
    cluster = start("localhost:2")
    running = busy(cluster, in_background)
    coordinator_of(cluster).kill()
    with within(3):
        error = running.exception(10)
    assert isinstance(error, ClusterGone)
    assert "coordinator" in error.reason
    assert "%dist_start" in str(error)
    assert cluster.topology().state == "gone"
    wait_until(lambda: not home.processes(), 10, "agent, zygote and engines have ended")
    for call in (lambda: cluster.run("1"), cluster.interrupt, lambda: cluster.push({"x": 1})):
        with pytest.raises(ClusterGone):
            call()
    with within(3):
        cluster.stop()


@pytest.mark.slow
def test_a_coordinator_that_hangs_does_not_hang_its_clients(start, within, monkeypatch):
    # It goes on before its lines are cut, which happens after 10 s.
    monkeypatch.setattr(session_module, "ANSWER_TIMEOUT_S", 3.0)
    cluster = start("localhost:1")
    coordinator = coordinator_of(cluster)
    suspend(coordinator.pid)
    try:
        with within(10):
            assert cluster.topology().state == "gone"
    finally:
        resume(coordinator.pid)
    assert cluster.run("1").ok


def test_a_coordinator_told_to_terminate_cleans_up(start, home, in_background):
    cluster = start("localhost:2")
    running = busy(cluster, in_background)
    coordinator_of(cluster).terminate()
    assert isinstance(running.exception(10), ClusterGone)
    home.assert_nothing_left(within_s=8)


def test_one_of_two_hosts_may_be_lost_and_files_of_killed_processes_go_with_them(start, home):
    cluster = start("localhost:1,127.0.0.1:1", one_machine=True)
    cluster.run("kept = rank")
    agent = agents_of(cluster)[1]
    theirs = f"-{agent.pid}-"
    assert any(theirs in name for name in home.leftovers() if name.startswith("file"))
    agent.kill()
    wait_until(lambda: cluster.status().ranks[1] == "lost", 3, "rank 1 is lost")
    assert "host 127.0.0.1" in cluster.topology().engines[1].reason
    assert cluster.topology().hosts[1].state == "lost"
    wait_until(lambda: not any(theirs in name for name in home.leftovers()), 10, "its files go")
    assert cluster.run("kept", ranks=0)[0].value_repr == "0"
    coordinator_of(cluster).kill()
    home.assert_nothing_left(within_s=12)


@pytest.mark.parametrize(
    ("find", "words"),
    [(agents_of, "host localhost is"), (zygotes_of, "(the zygote) is")],
    ids=["agent", "zygote"],
)
def test_ranks_end_with_what_keeps_them(start, home, in_background, find, words):
    cluster = start("localhost:2")
    running = busy(cluster, in_background)
    (victim,) = find(cluster)
    victim.kill()
    result = running.result(5)
    assert [rank.status for rank in result] == ["lost", "lost"]
    assert words in str(result[0].error)
    text = "\n".join(crash_lines([rank.crash for rank in result]))
    assert "ranks 0-1 are lost" in text.splitlines()[0]
    assert words in text
    assert "killed" not in text
    with pytest.raises(CellRefused, match=r"ranks 0-1 .*are lost.*%dist_heal"):
        cluster.run("1")
    assert set(cluster.status().ranks.values()) == {"lost"}
    engines = [p for p in home.processes() if "zygote" in " ".join(command_of(p))]
    wait_until(lambda: not any(map(is_alive, engines)), 10, "zygote and engines have ended")
    cluster.stop()


def test_a_cluster_nobody_wants_ends_by_itself(start, home):
    cluster = start("localhost:1", keep_s=2)
    cluster.detach()
    home.assert_nothing_left(within_s=8)


def test_a_cluster_whose_client_was_killed_ends_by_itself(home, driver):
    assert driver.do("cluster = Cluster.start('localhost:1', keep_s=2)") == "ok"
    assert len(home.processes()) >= 4
    driver.close()
    home.assert_nothing_left(within_s=8)


@pytest.mark.slow
def test_a_cluster_that_is_not_to_be_kept_ends_with_its_owner_and_not_before(home, driver):
    assert driver.do("cluster = Cluster.start('localhost:1', keep_s=0)") == "ok"
    suspend(driver.pid)  # as one whose C code holds the interpreter
    visitor = Cluster.visit()
    visitor.detach()
    deadline_s = time.monotonic() + 6  # it would be left alone for 3 s
    while time.monotonic() < deadline_s:
        assert Cluster.running()
        time.sleep(0.1)
    driver.close()
    home.assert_nothing_left(within_s=8)


SCRIPT = """
import os, sys
from jupyter_dist import Cluster
{first}
cluster = Cluster.start("localhost:1"{options})
print(cluster.run("6 * 7")[0].value_repr, flush=True)
{last}
"""


@pytest.mark.parametrize("last", ["", "os._exit(0)"], ids=["ends", "is killed"])
def test_a_script_takes_its_cluster_with_it(home, last):
    assert run_script(SCRIPT.format(first="", options="", last=last)).strip() == "42"
    home.assert_nothing_left(within_s=8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "options", "last"),
    [
        ("", "", "cluster.detach()"),
        ("", ", keep_s=60", ""),
        ("sys.ps1 = '>>> '", "", ""),
    ],
    ids=["a script detaches", "a script says so", "a person started it"],
)
def test_a_cluster_is_left_where_that_is_meant(home, start, first, options, last):
    run_script(SCRIPT.format(first=first, options=options, last=last))
    let_pass(5)  # it would end after 3 s
    cluster = start.attach()
    home.remember(cluster)
    assert cluster.run("rank")[0].value_repr == "0"


@pytest.mark.slow
def test_a_client_that_is_there_keeps_its_cluster(start):
    cluster = start("localhost:1", keep_s=5)
    deadline_s = time.monotonic() + 10  # it would be left alone for 8 s
    while time.monotonic() < deadline_s:
        assert cluster.is_running
        time.sleep(0.1)
    assert cluster.run("1").ok


@pytest.mark.slow
def test_a_running_cell_keeps_a_cluster_without_clients(start, home, tmp_path):
    cluster = start("localhost:1", keep_s=1)
    target = tmp_path / "done"
    script = (
        "import sys, threading, os\n"
        "from jupyter_dist import Cluster\n"
        "cluster = Cluster.visit()\n"
        "class Leave:\n"
        "    def on_output(self, ranks, outputs): os._exit(0)\n"
        "    def on_finished(self, result): pass\n"
        "    def on_note(self, text): pass\n"
        "    def on_tick(self): pass\n"
        "cluster.run(sys.argv[1], watcher=Leave())\n"
    )
    code = f"import time, pathlib\nprint(1)\ntime.sleep(12)\npathlib.Path({str(target)!r}).touch()"
    subprocess.run([sys.executable, "-c", script, code], timeout=90, check=True)
    cluster.detach()
    wait_until(target.exists, 20, "the cell has gone on to its end")
    home.assert_nothing_left(within_s=12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        "cluster.connection.coordinator_process.CoordinatorProcess.send_order",
        "cluster.cluster.start_coordinator",
    ],
)
def test_a_start_that_is_interrupted_between_two_steps_leaves_nothing(home, monkeypatch, where):
    real = pkgutil.resolve_name(f"jupyter_dist.{where}")

    def interrupted(*arguments, **options):
        real(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"jupyter_dist.{where}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Cluster.start("localhost:2", keep_s=60)
    gc.collect()  # with what has no order yet
    home.assert_nothing_left(within_s=1)


def test_an_interrupted_start_leaves_nothing(home):
    script = (
        "from jupyter_dist import Cluster\n"
        "print('go', flush=True)\n"
        "try: Cluster.start('localhost:2')\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    for delay_s in (0.1, 0.4, 0.8):
        with subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as client:
            assert client.stdout.readline() == "go\n"
            time.sleep(delay_s)  # somewhere in the middle: there is nothing to wait for
            client.send_signal(signal.SIGINT)
            stdout, _ = client.communicate(timeout=60)
        if stdout == "interrupted\n":
            home.assert_nothing_left(within_s=1)
        for name in Cluster.running():  # it was ready already
            Cluster.attach(name).stop()


@pytest.fixture
def small_disk(tmp_path, monkeypatch):
    """A home whose temporary directory holds 512 kB."""
    with mounted_disk(tmp_path / "disk", "512k") as disk:
        home = Home(tmp_path, disk / "tmp")
        home.enter(monkeypatch)
        yield home
        home.assert_nothing_left()


@pytest.mark.slow
def test_a_full_disk_costs_no_output_and_no_cell(small_disk, within):
    with Cluster.start("localhost:2", timeout_s=90) as cluster:
        small_disk.remember(cluster)
        with within(20):
            result = cluster.run("for k in range(20_000): print(k, 'x' * 93)\nrank")
        assert [rank.status for rank in result] == ["ok", "ok"]
        expected = "".join(f"{k} {'x' * 93}\n" for k in range(20_000))
        assert [rank.stdout for rank in result] == [expected] * 2
        assert cluster.run("print('next')\nrank")[1].stdout == "next\n"
        again = cluster.run("import numpy as np\ncomm.all_reduce(np.ones(1)).tolist()\n")
        assert [rank.value_repr for rank in again] == ["[2.0]"] * 2
        raised = cluster.run("def f():\n    1/0\nf()", label=8)
        assert "In[8]" in "".join(raised[0].error.traceback).replace(" ", "")
        cluster.push({"x": b"y" * 3_000_000})
        assert cluster.run("len(x)")[0].value_repr == "3000000"


def test_a_rank_that_fills_the_disk_from_below_is_still_heard(small_disk):
    with Cluster.start("localhost:2", timeout_s=90) as cluster:
        small_disk.remember(cluster)
        result = cluster.run("import os\nos.system('yes | head -c 2000000')\nprint('after')")
        assert [rank.status for rank in result] == ["ok", "ok"]
        assert any(rank.stdout.startswith("y\ny\n") for rank in result)
        assert all(rank.stdout.endswith("after\n") for rank in result)
