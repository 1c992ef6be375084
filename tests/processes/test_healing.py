"""Lost ranks are replaced, or left out; whoever lives keeps its process and all it has."""

import os
import signal
from pathlib import Path

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import CellRefused, HealFailed, UsageError
from tests.matrix import only
from tests.suspending import resume, suspend

from .leftovers import agents_of, is_alive, kill_ranks, pids_of, wait_until, zygotes_of
from .listener import Listener, begin
from .results import values

SUM = "import numpy as np; float(comm.all_reduce(np.ones(3))[0])"
IN_C = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'a', b'b', 60_000_000)"


@pytest.fixture
def ward(shared):
    """Four ranks with a state and a setup cell; new ones in the place of those that tests lost."""
    cluster = shared.whole()
    if not cluster.run("limit").ok:
        values(cluster.run("import math\nlimit = 10", is_setup=True, label=2))
    values(cluster.run("kept = rank * 11"))
    return cluster


def test_a_killed_rank_is_replaced_and_the_others_have_what_they_had(ward, within):
    before = pids_of(ward)
    kill_ranks(ward, 2)
    stages = []
    with within(6):
        healed = ward.heal(on_stage=stages.append)
    after = pids_of(ward)
    assert {rank for rank in range(4) if before[rank] != after[rank]} == {2}
    assert values(ward.run("globals().get('kept')")) == ["0", "11", None, "33"]
    assert values(ward.run("(rank, world_size, math.pi > 3, limit)"))[2] == "(2, 4, True, 10)"
    assert values(ward.run(SUM)) == ["4.0"] * 4
    assert healed.replaced == {2: "localhost"}
    assert healed.replayed == ("In[2]",)
    assert healed.missing["kept"] == (2,)
    assert "rank 2 lacks kept" in str(healed)
    assert stages


@pytest.mark.slow
def test_several_ranks_are_replaced_at_once(ward):
    kill_ranks(ward, 0, 3)
    assert ward.heal().replaced == {0: "localhost", 3: "localhost"}
    assert values(ward.run(SUM)) == ["4.0"] * 4
    assert (
        values(ward.run("comm.broadcast_object(rank + 100 if rank == 0 else None)")) == ["100"] * 4
    )


@pytest.mark.slow
def test_a_replaced_rank_can_be_lost_and_replaced_again(ward):
    for _ in range(3):
        kill_ranks(ward, 1)
        ward.heal()
    assert values(ward.run("(rank, globals().get('kept'))"))[1:3] == ["(1, None)", "(2, 22)"]
    (agent,) = agents_of(ward)
    records = Path("/dev/shm").glob(f"jupyter-dist-*-{agent.pid}-*/rank-*.collectives")
    assert len(list(records)) == 4, "one of each rank, and none of those that were replaced"
    assert sorted(ward.collectives().ranks) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_setup_cell_that_fails_on_the_new_rank_is_told(start):
    cluster = start("localhost:2")
    cluster.run("import os\nfirst = os.environ.setdefault('SEEN', str(rank))", is_setup=True)
    values(cluster.run("comm.barrier()", is_setup=True, label=4))
    kill_ranks(cluster, 1)
    healed = cluster.heal()
    assert len(healed.problems) == 1
    assert healed.problems[0].startswith("setup cell In[4] on rank 1:")
    assert values(cluster.run("first")) == ["'0'", "'1'"]


@pytest.mark.slow
def test_a_rank_that_does_not_respond_to_interrupts_is_killed_and_replaced(
    ward, in_background, within
):
    before = pids_of(ward)
    cell = begin(in_background, ward, f"print('here')\nif rank == 1:\n    {IN_C}\n'done'")
    with within(8):
        ward.heal([1])
    result = cell.result(5)
    assert [rank.status for rank in result] == ["ok", "lost", "ok", "ok"]
    assert "replaced" in str(result[1].error)
    after = pids_of(ward)
    assert {rank for rank in range(4) if before[rank] != after[rank]} == {1}
    assert not is_alive_pid(before[1])
    assert values(ward.run("kept", [0, 2, 3])) == ["0", "22", "33"]


def test_a_stopped_process_is_named_by_a_heal_and_replaced_where_that_is_asked_for(ward):
    before = pids_of(ward)
    suspend(before[3])
    with pytest.raises(HealFailed, match="rank 3 "):
        ward.heal()
    ward.heal([3])
    assert not is_alive_pid(before[3])
    assert values(ward.run(SUM)) == ["4.0"] * 4


def test_a_rank_that_dies_while_another_one_is_replaced_is_replaced_with_it(ward):
    before = pids_of(ward)
    (zygote,) = zygotes_of(ward)

    def kill_one_more(stage):
        if "forming" in stage and is_alive_pid(before[1]):
            suspend(before[0])  # so that no generation stands before it is known
            resume(zygote.pid)
            os.kill(before[1], signal.SIGKILL)
            wait_until(lambda: ward.status().ranks[1] != "idle", 10, "rank 1 is known to be lost")
            resume(before[0])

    kill_ranks(ward, 2)
    suspend(zygote.pid)  # so that no rank is born before that
    assert ward.heal(on_stage=kill_one_more).replaced == {1: "localhost", 2: "localhost"}
    assert pids_of(ward)[0] == before[0]
    assert values(ward.run(SUM)) == ["4.0"] * 4
    assert values(ward.run("kept", [0, 3])) == ["0", "33"]


def is_alive_pid(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "find", only([agents_of], [agents_of, zygotes_of]), ids=["agent", "zygote"]
)
def test_a_host_whose_agent_is_gone_gets_a_new_one(ward, find):
    (victim,) = find(ward)
    victim.kill()
    wait_until(lambda: set(ward.status().ranks.values()) == {"lost"}, 12, "all ranks are lost")
    healed = ward.heal()
    assert set(healed.replaced) == {0, 1, 2, 3}
    assert values(ward.run("limit")) == ["10"] * 4
    assert values(ward.run(SUM)) == ["4.0"] * 4
    (agent,) = agents_of(ward)
    assert is_alive(agent)


def test_shrinking_numbers_the_others_anew_and_they_keep_everything(ward):
    before = pids_of(ward)
    kill_ranks(ward, 1)
    shrunken = ward.shrink()
    assert shrunken.renumbered == {0: 0, 2: 1, 3: 2}
    assert "2 is 1, 3 is 2" in str(shrunken)
    assert ward.world_size == 3
    assert pids_of(ward) == {0: before[0], 1: before[2], 2: before[3]}
    code = "import os; (rank, world_size, os.environ['RANK'], local_world_size, kept)"
    assert values(ward.run(code)) == [
        "(0, 3, '0', 3, 0)",
        "(1, 3, '1', 3, 22)",
        "(2, 3, '2', 3, 33)",
    ]
    assert values(ward.run(SUM)) == ["3.0"] * 3
    assert set(ward.pull("kept")) == {0, 1, 2}
    with pytest.raises(UsageError, match="ranks 0-2"):
        ward.run("1", [3])


@pytest.mark.slow
def test_a_shrunken_cluster_tells_collectives_and_losses_by_its_new_numbers(ward):
    kill_ranks(ward, 0)
    ward.shrink()
    values(ward.run("comm.barrier()"))
    table = str(ward.collectives().table())
    assert "rank 3" not in table
    kill_ranks(ward, 2)
    assert ward.heal().replaced == {2: "localhost"}
    assert values(ward.run("globals().get('kept')")) == ["11", "22", None]


@pytest.mark.slow
def test_other_clients_learn_of_the_new_size(ward, shared, monkeypatch):
    shared.enter(monkeypatch)
    other = Cluster.attach(ward.name)
    try:
        kill_ranks(ward, 3)
        ward.shrink()
        wait_until(lambda: other.world_size == 3, 5, "the other client knows the new size")
    finally:
        other.detach()


def test_nothing_is_healed_or_left_out_while_every_rank_is_there(ward):
    for call in (ward.heal, ward.shrink):
        with pytest.raises(UsageError, match="every rank"):
            call()
    with pytest.raises(UsageError):
        ward.heal([7])
    assert values(ward.run(SUM)) == ["4.0"] * 4


def test_a_cluster_may_heal_by_itself(start):
    cluster = start("localhost:3", on_loss="heal")
    listener = Listener()
    result = cluster.run("import os\nrank == 1 and os._exit(3)\ncomm.barrier()", watcher=listener)
    assert result.rank(1).status == "lost"
    assert any("--on-loss heal" in note for note in listener.notes)
    assert values(cluster.run(SUM)) == ["3.0"] * 3


def test_a_cluster_may_go_on_without_by_itself(start):
    cluster = start("localhost:3", on_loss="continue")
    cluster.run("import os\nrank == 1 and os._exit(3)\ncomm.barrier()")
    wait_until(lambda: cluster.status().ranks == {0: "idle", 1: "idle"}, 5, "two ranks go on")
    try:
        result = cluster.run(SUM)
    except CellRefused:  # it waited when ranks had new numbers already: "Run it again"
        result = cluster.run(SUM)
    assert values(result) == ["2.0"] * 2


@pytest.mark.slow
def test_a_cluster_may_end_with_its_first_loss(start, within):
    cluster = start("localhost:3", on_loss="stop")
    with within(20):  # rank 0 is in no collective, so it is interrupted
        result = cluster.run(
            "import os, time\n"
            "rank == 1 and os._exit(3)\n"
            "time.sleep(600) if rank == 0 else comm.barrier()"
        )
    assert [each.status for each in result[:2]] == ["interrupted", "lost"]
    wait_until(lambda: not cluster.is_running, 10, "the cluster has ended")


@pytest.mark.slow
def test_heal_fails_with_the_reason_when_new_engines_cannot_live(start, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    cluster = start("localhost:2", cwd=str(folder))
    kill_ranks(cluster, 1)
    folder.rmdir()
    with pytest.raises(HealFailed, match="working directory"):
        cluster.heal()
    folder.mkdir()
    cluster.heal()
    assert values(cluster.run(SUM)) == ["2.0"] * 2


def test_a_heal_straight_after_a_death_heals(ward):
    for engine in ward.topology().engines[1:]:
        os.kill(engine.pid, signal.SIGKILL)
        assert sorted(ward.heal().replaced) == [engine.rank]
    assert values(ward.run(SUM)) == ["4.0"] * 4
