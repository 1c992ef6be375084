"""A place to meet that a program chooses, as PyTorch's tutorials do: it serves any number of times."""

import os
import socket

import pytest

from tests.matrix import only
from tests.reasons import WITHOUT_TORCH

from .conftest import SharedCluster
from .leftovers import kill_ranks
from .listener import Listener
from .ports import free_port
from .results import values
from .test_torch import CLEAN, INIT, errors, keep_caches_in

SUM = "x = torch.ones(3); dist.all_reduce(x); x.tolist()"
TUTORIAL = """
import os
import tempfile
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim

from torch.nn.parallel import DistributedDataParallel as DDP

def setup(rank, world_size):
    os.environ['MASTER_ADDR'] = 'localhost'
    os.environ['MASTER_PORT'] = '{port}'

    # initialize the process group
    dist.init_process_group("gloo", rank=rank, world_size=world_size)

def cleanup():
    dist.destroy_process_group()

class ToyModel(nn.Module):
    def __init__(self):
        super(ToyModel, self).__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))

def demo_basic(rank, world_size):
    print(f"Running basic DDP example on rank {{rank}}.")
    setup(rank, world_size)

    # create model and move it to GPU with id rank
    model = ToyModel()
    ddp_model = DDP(model)

    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)

    optimizer.zero_grad()
    outputs = ddp_model(torch.randn(20, 10))
    labels = torch.randn(20, 5)
    loss_fn(outputs, labels).backward()
    optimizer.step()

    cleanup()
    print(f"Finished running basic DDP example on rank {{rank}}.")
    return ddp_model
"""
"""From `Getting Started with Distributed Data Parallel`, on CPUs as its text says."""

AT = "torch.distributed.distributed_c10d._get_default_store()._underlying_non_prefix_store.port"


@pytest.fixture(scope="module")
def shared_two(tmp_path_factory):
    shared = SharedCluster(tmp_path_factory.mktemp("two"), "localhost:2")
    yield shared
    shared.close()


@pytest.fixture
def port():
    """A port that is free."""
    return free_port()


@pytest.fixture
def two(shared_two, tmp_path, port):
    """Two ranks that have read the tutorial."""
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    cluster = shared_two.cluster
    values(cluster.run(keep_caches_in(tmp_path)))
    values(cluster.run(CLEAN + TUTORIAL.format(port=port)))
    yield cluster
    cluster.run(CLEAN)


@pytest.mark.slow
def test_the_tutorial_runs_any_number_of_times(two, port):
    listener = Listener()
    for _ in range(2):
        values(two.run("demo_basic(rank, world_size);", watcher=listener))
    for _ in range(2):  # an object of before holds the store of before
        values(two.run("kept = demo_basic(rank, world_size)", watcher=listener))
    assert values(two.run(f"setup(rank, world_size)\n{SUM}")) == ["[2.0, 2.0, 2.0]"] * 2
    assert values(two.run(AT)) == [str(port)] * 2
    assert not listener.notes
    assert "not meet" not in "".join(listener.text.values())


@pytest.mark.slow
def test_it_serves_again_after_errors_and_on_ranks_that_are_new(two, port):
    two.run("setup(rank, world_size)\nif rank == 1:\n    raise LookupError\ndist.barrier()")
    assert values(two.run(f"{SUM}")) == ["[2.0, 2.0, 2.0]"] * 2
    assert values(two.run(AT)) == [str(port)] * 2, "where it was"
    kill_ranks(two, 0)
    two.heal()
    found = f"import os, torch, torch.distributed as dist\n({AT}, os.environ['MASTER_PORT'])"
    assert values(two.run(found)) == [str((port, str(port)))] * 2
    values(two.run("dist.destroy_process_group()\ndist.init_process_group('gloo')"))
    assert values(two.run(AT)) == [str(port)] * 2


@pytest.mark.slow
def test_a_port_of_something_else_in_a_rank_is_left_to_it_and_said(two, port):
    values(two.run(f"own = dist.TCPStore('localhost', {port}, 2, rank == 0)"))
    listener = Listener()
    values(two.run("setup(rank, world_size)", watcher=listener))
    assert values(two.run(SUM)) == ["[2.0, 2.0, 2.0]"] * 2
    assert f"localhost:{port}" in listener.text[0]
    assert "MASTER_PORT" in listener.text[0]
    values(two.run("own.set('mine', '1') if rank else own.wait(['mine'])\ndel own"))


def test_a_port_of_a_stranger_is_an_error_that_names_who_and_the_variables(two, port):
    with socket.create_server(("127.0.0.1", port)):
        for error in errors(two.run("setup(rank, world_size)", label=7)):
            assert f"process {os.getpid()} (" in error
        for error in errors(two.run(INIT, label=8)):
            assert f"MASTER_PORT='{port}' (in os.environ since In[7])" in error
            assert "os.environ.pop" in error
    clear = "for name in ('MASTER_ADDR', 'MASTER_PORT'):\n    os.environ.pop(name)"
    values(two.run(f"{clear}\n{INIT}"))


def test_a_number_that_a_cell_has_set_is_told_with_the_cell(two):
    values(two.run("usual, os.environ['RANK'] = os.environ['RANK'], '7'", label=9))
    for error in errors(two.run(INIT)):
        assert "RANK='7' (in os.environ since In[9])" in error
    values(two.run(f"os.environ['RANK'] = usual\n{INIT}"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    only(["init_process_group()"], ["init_process_group()", "init_process_group('gloo')"]),
)
def test_a_monitored_barrier_is_held_and_names_who_is_missing(two, call):
    barrier = "dist.monitored_barrier(timeout=datetime.timedelta(seconds={}))"
    values(two.run(f"import datetime\ndist.{call}\n{barrier.format(30)}"))
    result = two.run(f"if rank == 0:\n    {barrier.format(0.5)}")
    assert "Rank 1 failed" in str(result[0].error)
    values(two.run(barrier.format(30)))


@pytest.mark.slow
def test_rpc_meets_at_the_store_of_the_group(two):
    code = """
import torch.distributed.rpc as rpc
setup(rank, world_size)
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
found = rpc.rpc_sync(f"worker{(rank + 1) % world_size}", torch.add, args=(torch.ones(2), rank))
rpc.shutdown()
found.tolist()
"""
    assert values(two.run(code, timeout_s=60)) == ["[1.0, 1.0]", "[2.0, 2.0]"]
    assert values(two.run(SUM)) == ["[2.0, 2.0, 2.0]"] * 2
