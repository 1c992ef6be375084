"""How ranks become engines of ipyparallel and leave it, and what is left when something is killed."""

import os
import threading

import psutil
import pytest
from ipyparallel import Client, error, interactive

from jupyter_dist.errors import ClusterGone, FrameworkError
from tests.patience import Spell, Stopwatch
from tests.suspending import resume, suspend

from .leftovers import command_of, coordinator_of, engines_of, is_alive, kill_ranks, wait_until

FOREVER = "import time\nwhile True: time.sleep(0.01)"


def controllers_of(cluster):
    """The processes of its controller: one, or none."""
    module = "jupyter_dist.frameworks.ipyparallel.controller"
    children = coordinator_of(cluster).children(recursive=True)
    return [child for child in children if module in command_of(child)]


def busy(client, *ranks):
    """Have ranks run something without end; gives the result to come when they do."""
    return client[list(ranks)].execute(FOREVER, block=False)


def pids(client):
    return client[:].apply_sync(os.getpid)


@pytest.mark.slow
def test_eight_ranks_are_registered_within_two_seconds(start):
    cluster = start("localhost:8")
    cluster.ipyparallel().close()  # ranks import ipyparallel for the first one
    cluster.leave_ipyparallel()
    watch = Stopwatch()
    client = cluster.ipyparallel()
    spell = watch.spell()
    print(f"8 ranks registered {client.registration_s:.2f} s after their controller served")
    assert client.ids == list(range(8))
    assert client[:]["rank"] == list(range(8))
    Spell(client.registration_s, min(client.registration_s, spell.stalled_s)).assert_less(
        2.0, "the registration"
    )
    client.close()


@pytest.mark.slow
def test_leaving_ends_the_controller_and_spares_the_ranks_and_stopping_ends_tasks(start, within):
    cluster = start("localhost:2")
    before = [engine.pid for engine in cluster.topology().engines]
    client = cluster.ipyparallel()
    client[:].push({"kept": 3}, block=True)
    (controller,) = controllers_of(cluster)
    open_files = "len(__import__('os').listdir('/proc/self/fd'))"
    with within(8):
        assert cluster.leave_ipyparallel() is True
    before_it = [rank.value_repr for rank in cluster.run(open_files)]
    assert not is_alive(controller)
    assert cluster.leave_ipyparallel() is False
    assert [rank.value_repr for rank in cluster.run("kept")] == ["3", "3"]
    threads = "[t.name for t in __import__('threading').enumerate() if 'parallel' in t.name]"
    assert [rank.value_repr for rank in cluster.run(threads)] == ["[]", "[]"]
    with cluster.ipyparallel() as outer:
        assert pids(outer) == before
        with cluster.ipyparallel() as inner:
            assert inner.ids == [0, 1]
        assert len(controllers_of(cluster)) == 1, "someone else uses it"
        assert outer[:]["kept"] == [3, 3]
    assert controllers_of(cluster) == [], "it has ended with the last block"
    assert [rank.value_repr for rank in cluster.run(open_files)] == before_it
    client = cluster.ipyparallel()
    running = busy(client, 0, 1)
    with within(8):
        cluster.stop()
        with pytest.raises(error.CompositeError, match="EngineError"):
            running.get(5)
    with pytest.raises(ClusterGone):
        cluster.ipyparallel()


@pytest.mark.slow
def test_no_end_of_engines_or_controller_costs_a_rank_and_nobody_waits_for_it(start, within):
    cluster = start("localhost:2")
    with cluster.ipyparallel() as client:
        client[:].push({"kept": 7}, block=True)
        with Client(connection_info=client.connection_info) as theirs:
            theirs.shutdown(block=True)
        wait_until(lambda: client.ids == [], 10, "the engines are unregistered")
    assert [rank.value_repr for rank in cluster.run("kept")] == ["7", "7"]
    with cluster.ipyparallel() as again:
        assert again[:]["kept"] == [7, 7]
    before = [engine.pid for engine in cluster.topology().engines]
    client = cluster.ipyparallel()
    client[:].push({"kept": 3}, block=True)
    running = client[:].execute("import time\nfor _ in range(300): time.sleep(0.01)", block=False)
    (controller,) = controllers_of(cluster)
    with within(8):
        controller.kill()
        with pytest.raises(error.CompositeError, match="controller"):
            running.get(8)
    again = cluster.ipyparallel()
    assert pids(again) == before
    assert again[:]["kept"] == [3, 3]
    again.close()


@pytest.mark.slow
def test_a_killed_coordinator_leaves_no_process(start, home, sweep):
    del sweep
    cluster = start("localhost:2")
    client = cluster.ipyparallel()
    (controller,) = controllers_of(cluster)
    running = busy(client, 0)
    coordinator_of(cluster).kill()
    wait_until(lambda: not is_alive(controller), 2, "the controller ends with the coordinator")
    with pytest.raises(error.CompositeError, match="EngineError"):
        running.get(5)
    wait_until(lambda: not home.processes(), 15, "no process is left")
    cluster.detach()


@pytest.mark.slow
def test_a_killed_program_leaves_nothing_when_its_cluster_ends(home, driver):
    assert driver.do("cluster = Cluster.start('localhost:2', keep_s=0.5)") == "ok"
    assert driver.do("client = cluster.ipyparallel()") == "ok"
    assert driver.do("assert client[:]['rank'] == [0, 1]") == "ok"
    assert any("ipyparallel.controller" in " ".join(command_of(p)) for p in home.processes())
    driver.close()
    wait_until(lambda: not home.processes(), 20, "no process is left")


def test_a_replaced_rank_is_the_same_engine_again(start, within):
    cluster = start("localhost:4")
    client = cluster.ipyparallel()
    before = pids(client)
    running = busy(client, 1)
    with within(8):
        kill_ranks(cluster, 1)
        with pytest.raises(error.CompositeError, match="Engine 1 died"):
            running.get(5)
    assert client.ids == [0, 2, 3]
    assert client[:]["rank"] == [0, 2, 3], "the others go on"
    cluster.heal()
    client.wait_for_engines(4, timeout=10)
    assert client.ids == [0, 1, 2, 3]
    after = pids(client)
    assert [one == other for one, other in zip(before, after, strict=True)] == [
        True,
        False,
        True,
        True,
    ]
    assert client[1]["rank"] == 1
    client.close()


@pytest.mark.slow
def test_the_others_are_engines_beside_a_lost_rank_and_then_under_their_new_numbers(start):
    cluster = start("localhost:4")
    cluster.run("mine = rank")
    kill_ranks(cluster, 1)
    client = cluster.ipyparallel()
    assert client.ids == [0, 2, 3]
    assert client[:]["rank"] == [0, 2, 3]
    cluster.shrink()
    again = cluster.ipyparallel()
    assert again.ids == [0, 1, 2]
    assert again[:]["rank"] == [0, 1, 2]
    assert again[:]["mine"] == [0, 2, 3]
    client.close()
    again.close()


@pytest.mark.slow
@pytest.mark.parametrize("repair", ["heal", "shrink"])
def test_ranks_meet_anew_behind_the_task_of_one_of_them(start, in_background, tmp_path, repair):
    path = tmp_path / "go on"
    cluster = start("localhost:3")
    client = cluster.ipyparallel()
    wait = f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)"
    held = client[2].execute(wait, block=False)
    wait_until(lambda: "execute" in str(cluster.status()), 5, "the task is told")
    kill_ranks(cluster, 0)
    stages = []
    repaired = in_background(lambda: getattr(cluster, repair)(on_stage=stages.append))
    kept = 2 if repair == "heal" else 1
    wait_until(
        lambda: any(f"rank {kept} " in stage and "(execute)" in stage for stage in stages),
        15,
        "the task is named",
    )
    path.touch()
    repaired.result(20)
    held.get(10)
    wait_until(lambda: "ipyparallel" not in str(cluster.status()), 5, "the task is over")
    again = cluster.ipyparallel()
    everyone = list(range(cluster.world_size))
    assert again.ids == everyone
    assert again[:]["rank"] == everyone
    found = cluster.run("int(comm.all_reduce(1))")
    assert [rank.value_repr for rank in found] == [str(len(everyone))] * len(everyone)
    client.close()
    again.close()


@pytest.mark.slow
def test_a_rank_that_does_not_answer_is_named_and_no_controller_stays(start):
    cluster = start("localhost:3", lost_after_s=60.0)
    cluster.ipyparallel().close()  # ranks import ipyparallel for the first one
    cluster.leave_ipyparallel()
    stopped = engines_of(cluster)[1]
    suspend(stopped.pid)
    try:
        with pytest.raises(FrameworkError, match=r"rank 1 .*not joined"):
            cluster.ipyparallel(timeout_s=8.0)
        wait_until(lambda: controllers_of(cluster) == [], 8, "the controller ends")
    finally:
        resume(stopped.pid)
    client = cluster.ipyparallel()
    assert client[:]["rank"] == [0, 1, 2]
    client.close()


@pytest.mark.slow
def test_a_rank_that_is_stopped_for_a_while_stays_an_engine(start):
    cluster = start("localhost:2", lost_after_s=60.0)
    client = cluster.ipyparallel()
    stopped = engines_of(cluster)[1]
    suspend(stopped.pid)
    try:
        running = client[1].apply_async(interactive(lambda: rank))  # noqa: F821
        threading.Event().wait(3.0)  # fifteen beats
        assert client.ids == [0, 1]
    finally:
        resume(stopped.pid)
    assert running.get(10) == 1
    client.close()


@pytest.mark.slow
def test_a_range_of_ports_without_a_free_one_is_named(start):
    cluster = start("localhost:2", ports="27370-27375")
    with pytest.raises(FrameworkError, match=r"takes 9 of them .* more --ports"):
        cluster.ipyparallel()
    assert controllers_of(cluster) == []


@pytest.mark.slow
def test_engines_find_the_controller_on_ports_of_the_range(start):
    allowed = range(27320, 27360)
    cluster = start("localhost:2", ports=f"{allowed[0]}-{allowed[-1]}")
    client = cluster.ipyparallel()
    (controller,) = controllers_of(cluster)
    assert controller.children(recursive=True) == [], "it is one process"
    listening = [
        each.laddr.ip for each in controller.net_connections("tcp") if each.status == "LISTEN"
    ]
    assert set(listening) == {"127.0.0.1"}
    assert client.connection_info["curve_serverkey"]
    assert len(client.connection_info["key"]) == 64, "messages are signed as well"
    for rank in engines_of(cluster):
        ours = {
            connection.raddr.port
            for connection in psutil.Process(rank.pid).net_connections("tcp")
            if connection.status == "ESTABLISHED" and connection.raddr.port != connection.laddr.port
        }
        served = {each for each in ours if each in allowed}
        assert len(served) > 6, ours
    client.close()
