"""Finding a cluster again, and several clients on one cluster."""

import os
import stat
import threading
from itertools import pairwise

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import ClusterGone, NoCluster

from .leftovers import coordinator_of, wait_until
from .listener import begin
from .programs import run_script


def connection_file(home, cluster):
    return home.runtime_dir / f"jupyter-dist-{cluster.name}.json"


def test_the_connection_file_is_for_its_owner_only_and_comes_back_when_it_is_deleted(start, home):
    cluster = start("localhost:1", name="mine")
    path = connection_file(home, cluster)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.runtime_dir.stat().st_mode) & 0o022 == 0
    assert [entry.name for entry in home.runtime_dir.iterdir()] == [path.name]
    for entry in home.temp_dir.iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) == 0o700
    before = path.read_bytes()
    path.unlink()
    assert cluster.run("1").ok
    wait_until(path.exists, 3, "the connection file is back")
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Cluster.running() == [cluster.name]
    path.unlink()
    cluster.stop()


@pytest.mark.slow
def test_the_file_of_a_dead_coordinator_is_removed_and_one_of_a_stranger_passed_over(start, home):
    stranger = home.runtime_dir / "jupyter-dist-odd.json"
    stranger.write_text("{}")
    cluster = start("localhost:1")
    assert Cluster.running() == [cluster.name]
    assert start.attach().name == cluster.name
    path = connection_file(home, cluster)
    coordinator_of(cluster).kill()
    wait_until(lambda: not cluster.is_running, 3, "the coordinator is gone")
    assert Cluster.running() == []
    assert not path.exists()
    wait_until(lambda: not home.processes(), 10, "every process has ended")
    start("localhost:1").stop()  # removes the directories of killed processes
    stranger.unlink()


def test_two_clients_run_cells_and_each_gets_its_own(start, in_background):
    cluster = start("localhost:2")
    cluster.run("shared = 'kept'")
    other = in_background(
        run_script,
        "from jupyter_dist import Cluster\n"
        "cluster = Cluster.visit()\n"
        "print(cluster.name, cluster.world_size)\n"
        "print(cluster.run('shared')[1].value_repr)\n"
        "for k in range(30):\n"
        "    result = cluster.run(f'print(\"second\", {k}, rank)')\n"
        "    assert [r.stdout for r in result] == [f'second {k} {r}\\n' for r in (0, 1)], result\n"
        "print('done')\n",
    )
    count = 0
    while not other.done():
        result = cluster.run(f"print('first', {count}, rank)")
        assert [rank.stdout for rank in result] == [f"first {count} {k}\n" for k in (0, 1)]
        count += 1
    assert other.result().splitlines() == [f"{cluster.name} 2", "'kept'", "done"]
    assert count > 0


def test_a_second_client_attaches_while_a_cell_runs_and_hears_of_the_end(start, in_background):
    cluster = start("localhost:2")
    code = "import time\nprint('here')\ntime.sleep(60)"
    running = begin(in_background, cluster, code)
    second = start.attach(cluster.name)
    assert set(second.status().ranks.values()) == {"busy"}
    assert second.interrupt() == (0, 1)
    assert {rank.status for rank in running.result(5)} == {"interrupted"}
    running = begin(in_background, second, code)
    cluster.stop()
    assert isinstance(running.exception(5), ClusterGone)
    assert "%dist_start" in str(running.exception())
    assert second.topology().state == "gone"
    assert not second.is_running


def test_without_a_cluster_there_is_nothing_to_attach_to(home):
    for name in (None, "mine"):
        with pytest.raises(NoCluster, match="%dist_start") as caught:
            Cluster.attach(name)
        assert (caught.value.name, caught.value.running) == (name, ())


def test_a_client_that_detaches_leaves_the_cluster_to_others(start):
    cluster = start("localhost:1")
    second = start.attach()
    cluster.run("kept = 1")
    cluster.detach()
    assert not cluster.is_running
    with pytest.raises(ClusterGone, match="detached"):
        cluster.run("1")
    with pytest.raises(NoCluster, match=rf"'there' is running\. Running now: {cluster.name}\."):
        Cluster.attach("there")
    assert second.run("kept")[0].value_repr == "1"
    second.stop()


@pytest.mark.slow
def test_the_topology_is_watched_until_the_end(start):
    cluster = start("localhost:2")
    seen, over = [], threading.Event()

    def watch(topology):
        seen.append(topology)
        if topology.state in ("stopped", "gone"):
            over.set()

    cluster.watch_topology(watch, interval_s=0.2)
    wait_until(lambda: len(seen) >= 3, 5, "three pictures")
    assert [engine.state for engine in seen[-1].engines] == ["idle", "idle"]
    wait_until(lambda: seen[-1].engines[0].rss_bytes > 1 << 20, 5, "memory of rank 0")
    assert all(later.sequence > earlier.sequence for earlier, later in pairwise(seen))
    cluster.stop()
    assert over.wait(30)


def test_a_program_that_detaches_leaves_the_cluster(start, home):
    run_script(
        "from jupyter_dist import Cluster\n"
        "cluster = Cluster.start('localhost:1', name='left')\n"
        "cluster.run('kept = 5')\n"
        "cluster.detach()\n"
    )
    cluster = start.attach("left")
    home.remember(cluster)
    assert cluster.run("kept")[0].value_repr == "5"
    assert os.getpid() != coordinator_of(cluster).ppid()
