"""What ranks find in their environment: the same order of sets, their share of cores, their time."""

import importlib.metadata
import os
from pathlib import Path

import pytest

from jupyter_dist.errors import UsageError
from tests.matrix import only
from tests.reasons import WITHOUT_TORCH

from .results import values

TWO_HOSTS = "localhost:2,127.0.0.1:1"
ORDER = "import os, sys\n(list({'alpha', 'beta', 'gamma', 'delta'}), sys.flags.hash_randomization)"


def variables(cluster, *names):
    """These variables of each rank."""
    return [
        eval(text)
        for text in values(cluster.run(f"import os\n[os.environ.get(name) for name in {names}]"))
    ]


# --- hashes ---


@pytest.mark.parametrize("start_method", only(["fork"], ["fork", "spawn"]))
def test_sets_have_one_order_on_all_hosts_and_in_programs_whatever_a_host_says(
    start, monkeypatch, start_method
):
    # Both agents inherit this, and with it each would have made hashes of its own.
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    cluster = start(TWO_HOSTS, one_machine=True, start_method=start_method, jax="never")
    (order,) = set(values(cluster.run(ORDER)))
    assert eval(order)[1] == 0
    assert variables(cluster, "PYTHONHASHSEED") == [["0"]] * 3
    program = "import subprocess, sys\nsubprocess.check_output([sys.executable, '-c', 'print(hash(\"a\"))'])"
    (of_program,) = {int(eval(text)) for text in values(cluster.run(program))}
    assert values(cluster.run("hash('a')")) == [str(of_program)] * 3


def test_a_seed_of_the_user_is_refused_before_anything_starts(home, start):
    with pytest.raises(UsageError, match="PYTHONHASHSEED = '7' "):
        start("localhost:1", env={"PYTHONHASHSEED": "7"})
    home.assert_nothing_left(within_s=1)


# --- cores ---


def test_libraries_have_the_share_of_cores_of_their_rank(start, monkeypatch):
    for name in ("OMP_NUM_THREADS", "NPROC"):
        monkeypatch.delenv(name, raising=False)
    cores = len(os.sched_getaffinity(0))
    cluster = start("localhost:2", jax="never")
    share = str(max(1, cores // 2))
    assert variables(cluster, "OMP_NUM_THREADS", "NPROC") == [[share, share]] * 2


def test_numbers_of_threads_that_somebody_has_chosen_stay(start, monkeypatch):
    monkeypatch.setenv("NPROC", "5")
    cluster = start("localhost:2", env={"OMP_NUM_THREADS": "6"}, jax="never")
    assert variables(cluster, "OMP_NUM_THREADS", "NPROC") == [["6", "5"]] * 2
    blas = variables(cluster, "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    assert blas == [["6", "6"]] * 2, "as they do on their own"


@pytest.mark.slow
def test_torch_goes_by_these_numbers(start):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    cluster = start("localhost:1", env={"OMP_NUM_THREADS": "1"}, jax="never")
    assert values(cluster.run("import torch\ntorch.get_num_threads()")) == ["1"]


@pytest.mark.slow
def test_xla_goes_by_these_numbers(start):
    cluster = start("localhost:1", env={"NPROC": "7"}, jax="never")
    threads = (
        "import os, jax\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "jax.local_devices()\n"
        "len(os.listdir('/proc/self/task')) - before"
    )
    (with_seven,) = values(cluster.run(threads))
    cluster = start("localhost:1", env={"NPROC": "1"}, jax="never")
    (with_one,) = values(cluster.run(threads))
    assert int(with_seven) - int(with_one) >= 6


# --- XLA ---


@pytest.mark.slow
def test_collectives_of_xla_have_the_time_of_the_cluster_and_its_flags_stay(start, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    jaxlib = tuple(int(part) for part in importlib.metadata.version("jaxlib").split(".")[:3])
    timeout = "--xla_cpu_collective_timeout_seconds=5400 " if jaxlib >= (0, 8, 2) else ""
    flags = f"{timeout}--xla_disable_hlo_passes=cpu-all-reduce-combiner"
    cluster = start("localhost:1", jax="never")
    assert variables(cluster, "XLA_FLAGS") == [[flags]]
    mine = "--xla_cpu_enable_fast_math=false"
    cluster = start("localhost:1", env={"XLA_FLAGS": mine}, jax="never")
    assert variables(cluster, "XLA_FLAGS") == [[f"{mine} {flags}"]]
    assert values(cluster.run("import jax\nfloat(jax.jit(lambda x: x + 1)(1))")) == ["2.0"]


@pytest.mark.slow
def test_jax_makes_as_many_devices_of_the_cores_as_were_asked_for(start):
    cluster = start("localhost:2", cpu_devices=3, jax="never")
    assert values(cluster.run("import jax\njax.local_device_count()")) == ["3", "3"]


# --- what libraries say of themselves ---

CONNECTED = (
    "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"
)
POLLED = (
    "E1121 20:33:34.612399   10060 coordination_service_agent.cc:289] Polled an error from "
    "coordination service (this can be an error from this or another task)."
)
TALK = f"""
import os
os.write(1, b"{CONNECTED}\\n")
os.write(2, b"{POLLED}\\n")
print("mine")
print("> {CONNECTED}");
"""


def test_chatter_of_libraries_is_in_the_log_of_the_rank_and_not_in_the_cell(start):
    cluster = start("localhost:1", jax="never")
    (said,) = cluster.run(TALK)
    assert (said.stdout, said.stderr) == (f"mine\n> {CONNECTED}\n", "")
    (path,) = values(cluster.run("os.readlink('/proc/self/fd/1')"))
    log = Path(eval(path))
    assert log.read_text().startswith(f"{CONNECTED}\nmine\n")
    assert log.with_suffix(".stderr").read_text() == f"{POLLED}\n"


# --- what programs look at ---

PROGRAM = """
import argparse, sys
given = argparse.ArgumentParser()
given.add_argument("--lr", type=float, default=0.1)
(given.parse_args().lr, sys.argv, hasattr(sys, "ps1"))
"""


@pytest.mark.parametrize("start_method", only(["fork"], ["fork", "spawn"]))
def test_programs_find_no_arguments_and_no_prompt_of_a_rank_and_leave_no_core_file(
    start, start_method
):
    cluster = start("localhost:1", start_method=start_method, jax="never")
    assert values(cluster.run(PROGRAM)) == ["(0.1, [''], False)"]
    limits = "import resource\nresource.getrlimit(resource.RLIMIT_CORE)"
    assert values(cluster.run(limits)) == ["(0, 0)"]
