"""Device memory between ranks, on real GPUs."""

import os
import re
import signal
import time

import pytest

from jupyter_dist.probe.gpus import count_gpus

from ..processes.leftovers import wait_until  # noqa: TID252  (as the conftest beside)
from .ranks_programs import SETUP, check, total

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

EVERYTHING = check("gpu_everything.check")


def test_one_rank_does_everything(ranks):
    assert int(ranks(1).values(EVERYTHING)[0]) > 500


# More than a thousand collectives, each of which ranks that share a GPU take turns for: up to 0.1 s.
@pytest.mark.timeout(300)
def test_two_ranks_that_share_a_gpu_do_everything(ranks):
    assert len(set(ranks(2).values(EVERYTHING, timeout_s=170))) == 1


@pytest.mark.timeout(300)
def test_four_ranks_over_sockets_do_everything(ranks):
    assert len(set(ranks(4, as_hosts=True).values(EVERYTHING, timeout_s=170))) == 1


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_nccl_may_block(ranks, blocking):
    assert ranks(2, NCCL_COMM_BLOCKING=blocking).values(SETUP) == total(2)


def test_cupys_binding_does_where_nccl4py_is_missing(ranks):
    two = ranks(2)
    two.values("import sys\nsys.modules['nccl'] = None")
    assert two.values(SETUP) == total(2)
    assert two.values("comm._device.clique.api.name") == ["'cupy'"] * 2


def test_groups_and_splits(two):
    code = (
        "other = 1 - rank\nroom = cupy.empty(4, 'f4')\n"
        "with comm.group():\n    comm.send(x, other)\n    comm.recv(room, other)\n"
        "    s = comm.all_reduce(x)\n"
        "child = comm.split(0, -rank)\n"
        "float(room[0]), float(s[0]), child.rank, float(child.all_reduce(x)[0])"
    )
    assert two.values(code) == ["(2.0, 3.0, 1, 3.0)", "(1.0, 3.0, 0, 3.0)"]


def test_results_are_ordered_by_the_stream(two):
    code = (
        "a = cupy.random.random((2000, 2000), dtype='f4')\n"
        "out = cupy.zeros(1 << 20, 'f4')\n"
        "for _ in range(20):\n    a = a @ a / 1000\n    out[...] = rank + 1\n"
        "    comm.all_reduce(out, out=out)\n    out -= 3\n"
        "float(cupy.abs(out).max())"
    )
    assert two.values(code) == ["0.0"] * 2
    code = (
        "stream = cupy.cuda.Stream(non_blocking=True)\ncomm.stream = stream\n"
        "with stream:\n    y = comm.all_reduce(cupy.full(1 << 20, 2.0))\n"
        "    found = float(y.sum())\ncomm.stream = None\nfound / (1 << 20)"
    )
    assert two.values(code) == ["4.0"] * 2


@pytest.mark.parametrize(
    ("module", "make", "read"),
    [
        ("torch", "torch.full((4,), rank + 1.0, device='cuda')", "type(y).__name__, float(y[0])"),
        (
            "torch",
            "torch.full((4,), rank + 1.0, device='cuda', dtype=torch.bfloat16)",
            "str(y.dtype), float(y[0])",
        ),
        ("jax", "jax.numpy.full(4, rank + 1.0)", "type(y).__module__[:3], float(y[0])"),
        (
            "jax",
            "jax.numpy.full(4, rank + 1.0, jax.numpy.bfloat16)",
            "str(y.dtype), float(y[0])",
        ),
    ],
)
def test_arrays_of_other_libraries_come_back_as_theirs(with_library, module, make, read):
    found = with_library(module).values(f"import {module}\ny = comm.all_reduce({make})\n{read}")
    assert found[0] == found[1]
    assert found[0].endswith(", 3.0)")


@pytest.mark.parametrize("as_hosts", [False, True])
def test_when_a_rank_dies_the_others_raise_soon(
    ranks, in_background, tmp_path, as_hosts, record_property
):
    three = ranks(3, as_hosts=as_hosts)
    three.values(SETUP)
    pids = {engine.rank: engine.pid for engine in three.cluster.topology().engines}
    code = (
        f"import pathlib\npathlib.Path('{tmp_path}', str(rank)).touch()\n"
        "if rank == 2:\n    time.sleep(60)\n"
        "y = comm.all_reduce(x)\ny.get()\n'went on'"
    )
    running = in_background(three.run, code)
    for rank in range(3):
        wait_until((tmp_path / str(rank)).exists, 60, f"rank {rank} comes to its call")
    time.sleep(1.0)
    start_s = time.monotonic()
    os.kill(pids[2], signal.SIGKILL)
    result = running.result(60)
    took_s = time.monotonic() - start_s
    assert [rank.status for rank in result] == ["peer_failed", "peer_failed", "lost"]
    assert "rank 2 is lost" in str(result[0].error)
    assert "has no result" in str(result[0].error)
    record_property("abort_s after a kill", f"{took_s:.2f}")
    limit_s = 1.0 if count_gpus() >= 3 else 5.0  # kernels that share a GPU take turns to end
    assert took_s < limit_s, f"took {took_s:.2f} s"


def test_when_a_rank_raises_the_others_do_and_the_next_cell_works(two):
    for _ in range(3):
        code = "if rank:\n    time.sleep(0.5)\n    1 / 0\ny = comm.all_reduce(x)\ny.get()"
        result = two.run(code)
        assert [rank.status for rank in result] == ["peer_failed", "raised"]
        assert "rank 1 raised ZeroDivisionError" in str(result[0].error)
        assert two.values(SETUP) == total(2)


def test_a_call_that_nobody_joins_ends_at_its_deadline(two):
    code = "comm.timeout_s = 2\nif rank == 0:\n    y = comm.all_reduce(x)\ntime.sleep(5 * rank)"
    result = two.run(code)
    assert result[0].error.ename == "CollectiveTimeout"
    assert re.match(
        r"rank 0 waited 2 s for its peers in all_reduce\(float32\[4\], sum\)",
        result[0].error.evalue,
    )
    assert two.values("comm.timeout_s = 60\n" + SETUP) == total(2)


def test_the_cell_ends_when_its_device_does(two):
    result = two.run("if rank:\n    time.sleep(1)\ny = comm.all_reduce(x)\nNone")
    assert result.ok
    assert result[0].duration_s > 0.9


def test_an_interrupt_reaches_a_rank_that_waits_in_the_driver(two, in_background):
    code = "if rank == 0:\n    comm.all_reduce(x).get()\nelse:\n    time.sleep(60)"
    running = in_background(two.run, code)
    time.sleep(3)
    two.cluster.interrupt()
    result = running.result(30)
    assert {rank.status for rank in result} == {"interrupted"}
    assert two.values(SETUP) == total(2)


def test_a_rank_that_never_comes_is_named(ranks):
    two = ranks(2)
    code = "import cupy, time\ncomm.timeout_s = 3\nif rank == 0:\n    comm.all_reduce(cupy.ones(1))"
    result = two.run(code)
    assert result[0].error.ename == "CollectiveMissed"
    assert "rank 1" in result[0].error.evalue


def test_calls_are_compared_before_they_are_queued(two):
    result = two.run("comm.check = True\ncomm.all_reduce(x if rank else x.astype('f8'))")
    assert {rank.error.ename for rank in result} == {"CollectiveMismatch"}


def test_ends_are_recorded_by_the_clock_of_the_device(two):
    two.values("for _ in range(10):\n    comm.all_reduce(x, out=x)\ntime.sleep(0.5)")
    log = two.cluster.collectives(last=5)
    for host in log.hosts:
        for records in host.ranks:
            for call in records.calls[-5:]:
                assert 0 < call.end_ns - call.start_ns < 400_000_000, call


def test_a_user_of_the_ring_alone_loads_no_cupy(ranks):
    one = ranks(1)
    assert one.values("import sys\ncomm.all_reduce(1)\n'cupy' in sys.modules") == ["False"]
