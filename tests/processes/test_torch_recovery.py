"""A rank dies, raises or is replaced while torch's groups are in use: the others go on."""

import pytest

from jupyter_dist.errors import CellRefused
from tests.facts import assert_tells
from tests.matrix import only
from tests.reasons import WITHOUT_TORCH

from .conftest import SharedCluster
from .leftovers import kill_ranks
from .listener import Listener, begin
from .results import values
from .test_torch import CLEAN, keep_caches_in

INIT = "import torch, torch.distributed as dist\ndist.init_process_group()"
SUM = "import torch, torch.distributed as dist; x = torch.ones(2); dist.all_reduce(x); x.tolist()"
LOOP = """
import os, signal
for step in range(1_000_000):
    if rank in {victims} and step == 200:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1000))
"""
OURS = """
import gc, os
from jupyter_dist.frameworks.torch.framework import Torch
(ours,) = [each for each in gc.get_objects() if type(each) is Torch]
"""
KEPT = "group is dist.group.WORLD"
DEEP = "if rank == 1:\n    raise LookupError('deep')\n"


def prepare(cluster, folder):
    """Make a default group, and a tensor of each rank's own."""
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    values(cluster.run(keep_caches_in(folder)))
    values(cluster.run(CLEAN))
    values(cluster.run(f"{INIT}\ngroup = dist.group.WORLD\nkept = torch.arange(3) + rank"))


@pytest.fixture(scope="module")
def shared_three(tmp_path_factory):
    """The cluster of all tests that cost some of its ranks: torch's import takes seconds in a new one."""
    shared = SharedCluster(tmp_path_factory.mktemp("three"), "localhost:3", timeout_s=60.0)
    yield shared
    shared.close()


@pytest.fixture
def three(shared_three, tmp_path):
    """Three ranks with a default group, for tests that cost some of them."""
    cluster = shared_three.whole()
    prepare(cluster, tmp_path)
    return cluster


@pytest.fixture
def ranks(four, tmp_path):
    """Four ranks with a default group, for tests in which none is lost."""
    prepare(four, tmp_path)
    yield four
    four.run(CLEAN)


@pytest.mark.parametrize("victims", only([(0, 1)], [(0,), (2,), (0, 1)], at_night=[(2,)]))
def test_ranks_that_die_in_a_collective_are_replaced_and_sums_are_right(three, within, victims):
    with within(60):
        result = three.run(LOOP.format(victims=victims))
    for rank, outcome in enumerate(result):
        assert outcome.status == ("lost" if rank in victims else "peer_failed"), str(outcome.error)
    with within(120):
        healed = three.heal()
    assert_tells(str(healed), "torch's default group", "formed again")
    assert values(three.run(SUM)) == ["[3.0, 3.0]"] * 3
    survivors = [rank for rank in range(3) if rank not in victims]
    assert values(three.run("kept.tolist()", survivors)) == [
        str([rank, rank + 1, rank + 2]) for rank in survivors
    ]


def test_ranks_that_wait_for_one_that_raised_are_released(ranks, within):
    with within(50):
        result = ranks.run(f"{DEEP}dist.barrier()")
    assert [rank.status for rank in result] == ["peer_failed", "raised", *["peer_failed"] * 2]
    assert "rank 1 raised LookupError" in str(result[2].error)
    assert values(ranks.run(SUM)) == ["[4.0, 4.0]"] * 4


def test_a_failure_without_collectives_leaves_the_group_as_it_is(ranks):
    ranks.run("rank / 0")
    ranks.run("undefined_name")
    assert values(ranks.run(KEPT)) == ["True"] * 4
    assert values(ranks.run(SUM)) == ["[4.0, 4.0]"] * 4


def test_messages_between_two_ranks_are_no_reason_to_form_it_anew(ranks):
    code = """
x = torch.ones(1)
if rank == 0:
    dist.send(x, 1)
    dist.isend(x, dst=1).wait()
if rank == 1:
    dist.recv(x, 0)
    dist.recv(x)
dist.monitored_barrier()
"""
    values(ranks.run("dist.destroy_process_group()\ndist.init_process_group('gloo')"))
    values(ranks.run(f"group = dist.group.WORLD{code}"))
    ranks.run("undefined_name")
    assert values(ranks.run(KEPT)) == ["True"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    [
        "time.sleep(3)",
        "end_s = time.monotonic() + 3\nwhile time.monotonic() < end_s:\n    x = torch.ones(99, 99) @ x",
        "subprocess.run(['sleep', '3'])",
    ],
)
def test_work_of_its_own_is_no_wait_for_a_rank_that_raised(ranks, work):
    ranks.run(f"import subprocess, time\nx = torch.ones(99, 99)\n{DEEP}{work}")
    assert values(ranks.run(KEPT)) == ["True"] * 4


@pytest.mark.slow
def test_a_receive_that_nobody_answers_is_ended(ranks, within):
    with within(60):
        result = ranks.run(f"{DEEP}work = dist.irecv(torch.ones(1), src=1)\nwork.wait()")
    assert [rank.status for rank in result] == ["peer_failed", "raised", *["peer_failed"] * 2]
    assert values(ranks.run(SUM)) == ["[4.0, 4.0]"] * 4


@pytest.mark.slow
def test_a_backward_pass_of_ddp_is_ended_and_its_variables_are_named(ranks, within):
    code = (
        "from torch.nn.parallel import DistributedDataParallel\n"
        "model = DistributedDataParallel(torch.nn.Linear(4, 1))\nhalf = dist.new_group([0, 1])"
    )
    values(ranks.run(code))
    step = "model(torch.ones(2, 4)).sum().backward()"
    with within(50):
        result = ranks.run(f"{DEEP}{step}")
    assert [rank.status for rank in result] == ["peer_failed", "raised", *["peer_failed"] * 2]
    next_cell, one_later = Listener(), Listener()
    values(ranks.run("del half\nmodel = DistributedDataParallel(model.module)", watcher=next_cell))
    values(ranks.run(step, watcher=one_later))
    told = "\n".join(next_cell.notes)
    assert_tells(told, "torch's default group", "formed again")
    assert "model (DDP): model = DistributedDataParallel(model.module)" in told
    assert "half (group): half = dist.new_group(…) once more" in told
    assert not any("torch" in note for note in one_later.notes)
    grads = values(ranks.run("model.module.weight.grad.tolist()"))
    assert len(set(grads)) == 1


@pytest.mark.slow
def test_a_rank_that_cannot_form_it_anew_is_named_and_nobody_waits_for_it(ranks, within):
    broken = """
def break_once():
    del ours._c10d.drop_groups
    raise LookupError("stuck")
if rank == 1:
    ours._c10d.drop_groups = break_once
"""
    values(ranks.run(OURS + broken))
    ranks.run(f"{DEEP}dist.barrier()")
    listener = Listener()
    with within(25):
        values(ranks.run("del ours", watcher=listener))
    (told,) = (note for note in listener.notes if "torch" in note)
    assert_tells(told, "could not", "rank 1: LookupError: stuck")
    values(ranks.run(CLEAN))
    values(ranks.run(INIT))
    assert values(ranks.run(SUM)) == ["[4.0, 4.0]"] * 4


@pytest.mark.slow
def test_variables_of_the_old_group_are_named_with_what_to_do(three):
    code = (
        "from torch.nn.parallel import DistributedDataParallel\n"
        "model = DistributedDataParallel(torch.nn.Linear(4, 1))\nhalf = dist.new_group([0, 1])"
    )
    values(three.run(code))
    kill_ranks(three, 2)
    told = str(three.heal())
    assert "model (DDP): model = DistributedDataParallel(model.module)" in told
    assert "half (group): half = dist.new_group(…) once more" in told


def test_those_who_stay_form_a_smaller_group(three):
    kill_ranks(three, 0)
    three.shrink()
    assert values(three.run("(dist.get_rank(), dist.get_world_size())")) == ["(0, 2)", "(1, 2)"]
    assert values(three.run(SUM)) == ["[2.0, 2.0]"] * 2
    assert values(three.run("kept.tolist()")) == ["[1, 2, 3]", "[2, 3, 4]"]


@pytest.mark.slow
def test_the_arguments_of_the_first_call_are_kept(three):
    code = (
        "import datetime\ndist.destroy_process_group()\n"
        "dist.init_process_group('cpu:gloo', timeout=datetime.timedelta(seconds=77))"
    )
    values(three.run(code))
    kill_ranks(three, 1)
    three.heal()
    timeout = "dist.group.WORLD._get_backend(torch.device('cpu')).options._timeout.total_seconds()"
    found = values(three.run(f"import torch, torch.distributed as dist; {timeout}"))
    assert found == ["77.0"] * 3


@pytest.mark.slow
def test_a_group_of_the_user_and_comm_do_not_touch_each_other(start):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    cluster = start("localhost:2", timeout_s=60.0)
    values(cluster.run(INIT))
    cluster.run("if rank == 1:\n    raise LookupError('deep')\ncomm.all_reduce(1)")
    assert values(cluster.run(SUM)) == ["[2.0, 2.0]"] * 2
    code = f"""{OURS}
shut = ours._groups.shut_down()
(shut, int(comm.all_reduce(1)))
"""
    found = [eval(value) for value in values(cluster.run(code))]
    assert max(shut for shut, _ in found) == 1, "0 where the other end was faster"
    assert [total for _, total in found] == [2, 2], "comm has not noticed"
    result = cluster.run("dist.all_reduce(torch.ones(1))")
    assert all("rank" in str(rank.error) or "gloo" in str(rank.error) for rank in result)
    assert values(cluster.run(SUM)) == ["[2.0, 2.0]"] * 2


DIES = """
if rank == 2:
    ours._init = lambda **_arguments: os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_rank_that_dies_while_the_group_is_formed_holds_nobody_up(three, within):
    with within(60):
        result = three.run(f"{OURS}{DIES}dist.destroy_process_group()\ndist.init_process_group()")
    assert [rank.status for rank in result] == ["peer_failed", "peer_failed", "lost"]
    three.heal()
    values(three.run("import torch, torch.distributed as dist\ndist.init_process_group()"))
    assert values(three.run(SUM)) == ["[3.0, 3.0]"] * 3


@pytest.mark.slow
def test_a_rank_that_dies_while_the_group_is_formed_anew_is_replaced(three, within):
    values(three.run(OURS + DIES))
    three.run(f"{DEEP}dist.barrier()")
    with within(60), pytest.raises(CellRefused, match=r"rank 2 .*lost"):
        three.run("rank")  # before this cell it is formed again
    with within(120):
        three.heal()
    assert values(three.run(SUM)) == ["[3.0, 3.0]"] * 3
    assert values(three.run("kept.tolist()", [0, 1])) == ["[0, 1, 2]", "[1, 2, 3]"]


@pytest.mark.slow
def test_stopping_does_not_wait_for_groups(three, in_background, within):
    code = "print('here')\nif rank:\n    dist.barrier()\nimport time\ntime.sleep(60)"
    begin(in_background, three, code)
    with within(50):
        three.stop()
