"""torch.distributed in cells: a bare init_process_group(), what it is good for, what is refused."""

import errno
import os
import socket
from pathlib import Path

import pytest

from tests.facts import assert_tells
from tests.reasons import WITHOUT_TORCH

from .listener import Listener
from .ports import free_port
from .results import statuses, values
from .test_interrupts import interrupted_run

DIGITS = Path(__file__).parents[2] / "notebooks" / "data" / "digits.npz"
CLEAN = """
import os, torch, torch.distributed as dist
if dist.is_initialized():
    dist.destroy_process_group()
for name in ("MASTER_ADDR", "MASTER_PORT"):
    os.environ.pop(name, None)
"""
INIT = "dist.init_process_group()"
SUM = "x = torch.ones(3); dist.all_reduce(x); x.tolist()"


def keep_caches_in(folder):
    """Give the code that has torch's compiler keep its files there, not in the home of a test."""
    return f"import os\nos.environ['TORCHINDUCTOR_CACHE_DIR'] = '{folder}/inductor'"


@pytest.fixture
def ranks(four, tmp_path):
    """Four ranks with torch, and without a group."""
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    values(four.run(keep_caches_in(tmp_path)))
    values(four.run(CLEAN))
    yield four
    four.run(CLEAN)


def errors(result):
    """Give what each rank raised; fails where one did not."""
    assert set(statuses(result)) == {"raised"}, statuses(result)
    return [str(rank.error) for rank in result]


def test_a_bare_init_forms_a_group_of_all_ranks(ranks):
    values(ranks.run(INIT))
    assert (
        values(ranks.run("(dist.get_rank() == rank, dist.get_world_size())")) == ["(True, 4)"] * 4
    )
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4


def test_objects_are_broadcast_and_barriers_held(ranks):
    values(ranks.run(INIT))
    code = (
        "told = [{'lr': 0.1, 'names': ['a']} if rank == 2 else None]\n"
        "dist.broadcast_object_list(told, src=2)\n"
        "dist.barrier()\ntold"
    )
    assert values(ranks.run(code)) == ["[{'lr': 0.1, 'names': ['a']}]"] * 4


def test_groups_of_some_ranks_work_beside_the_default_one(ranks):
    values(ranks.run(INIT))
    code = (
        "halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]\n"
        "x = torch.tensor(rank)\ndist.all_reduce(x, group=halves[rank // 2])\nx.item()"
    )
    assert values(ranks.run(code)) == ["1", "1", "5", "5"]
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4


@pytest.mark.parametrize(
    "arguments",
    [
        "'gloo'",
        "backend='cpu:gloo'",
        "'gloo', init_method='env://'",
        "world_size=world_size, rank=rank",
        "timeout=datetime.timedelta(seconds=60)",
        "device_id=None",
    ],
)
def test_arguments_that_agree_are_honoured(ranks, arguments):
    values(ranks.run(f"import datetime\ndist.init_process_group({arguments})"))
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4


def test_the_store_listens_on_the_data_path_only(ranks):
    values(ranks.run(INIT))
    (address,) = set(values(ranks.run("(os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])")))
    host, port = eval(address)
    assert host == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(port)), 5)


def test_a_store_or_a_file_of_the_users_own_is_passed_through(ranks, tmp_path):
    values(
        ranks.run(
            f"dist.init_process_group(init_method='file://{tmp_path}/meet', rank=rank, world_size=4)"
        )
    )
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4
    values(ranks.run(CLEAN))
    store = f"store = dist.FileStore('{tmp_path}/other', 4)"
    values(
        ranks.run(f"{store}\ndist.init_process_group('gloo', store=store, rank=rank, world_size=4)")
    )
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4


def test_a_port_that_the_user_has_chosen_is_taken(ranks):
    port = free_port()
    code = f"os.environ['MASTER_PORT'] = '{port}'\n{INIT}\nos.environ['MASTER_PORT']"
    assert values(ranks.run(code)) == [f"'{port}'"] * 4
    values(ranks.run(CLEAN))
    port = free_port()
    values(ranks.run(f"dist.init_process_group('gloo', init_method='tcp://127.0.0.1:{port}')"))
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4


def test_a_port_in_use_is_an_error_on_all_ranks(ranks, within):
    with socket.create_server(("127.0.0.1", 0)) as taken, within(25):
        port = taken.getsockname()[1]
        result = ranks.run(f"os.environ['MASTER_PORT'] = '{port}'\n{INIT}")
    for error in errors(result):
        assert error.startswith("FrameworkError: ")
        assert_tells(error, "rank 0", f"127.0.0.1:{port}: {os.strerror(errno.EADDRINUSE)}")
    values(ranks.run(CLEAN))
    values(ranks.run(INIT))


def test_a_second_init_is_torchs_own_error(ranks):
    values(ranks.run(INIT))
    for error in errors(ranks.run(INIT)):
        assert error.startswith("ValueError: ")
        assert "twice" in error
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("init_process_group(rank=1, world_size=4)", "rank 0: rank=1 "),
        ("init_process_group(world_size=8)", "ranks 0-3: world_size=8 "),
        ("init_process_group('smoke')", "'smoke'. Accepted: gloo"),
        ("init_process_group('nccl')", "ranks 0-3: "),
        ("init_process_group('cpu:gloo,cuda')", "Invalid device:backend pairing"),
        ("init_process_group('gloo' if rank else 'cpu:gloo')", "ranks 1-3"),
        ("init_process_group(init_method='tcp://nowhere')", "Accepted: tcp://HOST:PORT"),
    ],
)
def test_a_call_that_cannot_work_is_an_error_on_all_ranks(ranks, within, call, said):
    with within(25):
        result = ranks.run(f"dist.{call}")
    for error in errors(result):
        assert error.startswith("UsageError: torch.distributed.init_process_group()")
        assert said in error
    values(ranks.run(INIT))


def test_a_call_on_some_ranks_is_refused_or_named(ranks, within):
    with within(50):
        result = ranks.run(INIT, [0, 1])
    assert all("needs all 4 ranks" in str(rank.error) for rank in result)
    with within(50):
        result = ranks.run(f"if rank == 0:\n    {INIT}")
    assert statuses(result)[1:] == ["ok"] * 3
    assert result[0].error.ename == "CollectiveMissed"
    assert "ranks 1-3" in str(result[0].error)


def test_ranks_with_different_versions_are_named(ranks):
    code = (
        "true = torch.__version__\nif rank == 2:\n    torch.__version__ = '1.0'\n"
        f"try:\n    {INIT}\nfinally:\n    torch.__version__ = true"
    )
    for error in errors(ranks.run(code)):
        assert error.startswith("FrameworkError: ")
        assert "1.0 on rank 2" in error


@pytest.mark.slow
def test_a_rank_without_torch_is_named(start, within):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    cluster = start("localhost:2")
    code = (
        "import sys\nif rank == 1:\n    sys.modules['torch'] = None\n"
        "import torch.distributed as dist\ndist.init_process_group()"
    )
    with within(100):
        result = cluster.run(code)
    assert [rank.status for rank in result] == ["peer_failed", "raised"]
    assert "rank 1 raised ModuleNotFoundError" in str(result[0].error)


def test_an_interrupt_ends_a_wait_within_seconds(ranks, in_background, within):
    values(ranks.run(f"{INIT}\nkept = torch.arange(3) + rank"))
    code = "import time\nif rank == 2:\n    time.sleep(60)\ndist.all_reduce(torch.ones(1))"
    _, running, _ = interrupted_run(ranks, in_background, code)
    with within(4):
        result = running.result(10)
    assert statuses(result) == ["interrupted"] * 4
    assert {rank.error.ename for rank in result} == {"KeyboardInterrupt"}
    assert values(ranks.run("kept.tolist()"))[3] == "[3, 4, 5]"
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4, "formed again on its own"


def test_the_group_that_was_formed_anew_is_what_a_repeated_init_gets(ranks):
    values(ranks.run(INIT))
    ranks.run("if rank == 1:\n    raise LookupError('deep')\ndist.barrier()")
    values(ranks.run(INIT))
    assert values(ranks.run(SUM)) == ["[4.0, 4.0, 4.0]"] * 4
    assert "twice" in errors(ranks.run(INIT))[0]


@pytest.mark.slow
def test_ddp_trains_the_digits_to_the_same_loss_on_all_ranks(ranks):
    values(ranks.run(INIT))
    code = f"""
import numpy as np
from torch.nn.parallel import DistributedDataParallel as DDP
digits = np.load({str(DIGITS)!r})
images = torch.tensor(digits["images"].reshape(-1, 64) / 16, dtype=torch.float32)
labels = torch.tensor(digits["labels"], dtype=torch.int64)
mine = slice(rank, None, world_size)
torch.manual_seed(rank)
model = DDP(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
    optimizer.step()
with torch.no_grad():
    loss = torch.nn.functional.cross_entropy(model.module(images), labels).item()
    hits = (model.module(images).argmax(1) == labels).float().mean().item()
(loss, hits > 0.95)
"""
    found = values(ranks.run(code))
    assert len(set(found)) == 1, found
    assert eval(found[0])[1]


@pytest.mark.slow
def test_fsdp_shards_a_model_over_all_ranks(ranks):
    code = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cpu", (world_size,))
torch.manual_seed(0)
whole = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
sharded = fully_shard(whole, mesh=mesh)
optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
losses = []
for step in range(3):
    optimizer.zero_grad()
    loss = (sharded(torch.ones(2, 8)) ** 2).sum()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
(losses[-1] < losses[0], next(sharded.parameters()).to_local().shape[0])
"""
    assert values(ranks.run(code)) == ["(True, 4)"] * 4, "init_device_mesh forms the group, too"


def test_the_flight_recorder_of_torch_is_on(ranks):
    values(ranks.run(f"{INIT}\ndist.all_reduce(torch.ones(2))"))
    code = (
        "from torch._C._distributed_c10d import _dump_fr_trace_json as dump\n"
        "import json\n[each['profiling_name'] for each in json.loads(dump())['entries']][-1]"
    )
    if (
        values(ranks.run("tuple(map(int, torch.__version__.split('.')[:2])) >= (2, 9)"))[0]
        == "True"
    ):
        assert values(ranks.run(code)) == ["'gloo:all_reduce'"] * 4


@pytest.mark.slow
def test_torch_and_jax_and_comm_live_in_one_session(start):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    pytest.importorskip("jax")
    cluster = start("localhost:2", timeout_s=60.0)
    code = """
import os, jax, numpy as np, torch, torch.distributed as dist
jax.distributed.initialize()
dist.init_process_group()
x = torch.ones(1)
dist.all_reduce(x)
from jax.experimental import multihost_utils
found = multihost_utils.process_allgather(np.array([rank]))
(x.item(), found.tolist(), float(comm.all_reduce(1.0)))
"""
    assert values(cluster.run(code)) == ["(2.0, [[0], [1]], 2.0)"] * 2


OWN_PORTS = """
import socket
with socket.create_server(("127.0.0.1", 0)) as found:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(found.getsockname()[1]))
"""
"""As Lightning does on each rank."""


def test_ranks_that_each_found_a_port_meet_at_that_of_rank_0(ranks):
    values(ranks.run(OWN_PORTS))
    wanted = values(ranks.run("os.environ['MASTER_PORT']"))
    assert len(set(wanted)) == 4
    listener = Listener()
    assert values(ranks.run(f"{INIT}\n{SUM}", watcher=listener)) == ["[4.0, 4.0, 4.0]"] * 4
    assert [wanted[0].strip("'") in listener.text.get(rank, "") for rank in range(4)] == [
        True,
        *[False] * 3,
    ]
    assert values(ranks.run("os.environ['MASTER_PORT']")) == [wanted[0]] * 4
    values(ranks.run("dist.destroy_process_group()"))
    assert values(ranks.run(f"{INIT}\n{SUM}")) == ["[4.0, 4.0, 4.0]"] * 4


RPC = """
import torch.distributed.rpc as rpc
rpc.init_rpc(f"w{{rank}}"{more})
found = rpc.rpc_sync(f"w{{(rank + 1) % 4}}", torch.add, args=(torch.ones(2), rank))
rpc.shutdown()
found.tolist()
"""


@pytest.mark.slow
def test_rpc_needs_no_place_to_meet_and_goes_on_beside_a_group(ranks):
    added = [f"[{rank + 1.0}, {rank + 1.0}]" for rank in range(4)]
    for more in ("", ", rank=rank, world_size=4"):
        assert values(ranks.run(RPC.format(more=more), timeout_s=60)) == added
    assert values(ranks.run(f"{INIT}\n{SUM}")) == ["[4.0, 4.0, 4.0]"] * 4
    assert values(ranks.run(RPC.format(more=""), timeout_s=60)) == added
    values(ranks.run("dist.destroy_process_group()"))
    assert values(ranks.run(RPC.format(more=""), timeout_s=60)) == added
