"""JAX's own multi-process tests on a cluster of ours: `tests/multiprocess` of its repository.

No package of JAX has that folder; only its harness is installed. JUPYTER_DIST_JAX_TESTS names the
folder of a checkout of the same version, and then each of its modules is one test here:

    git clone --depth 1 -b jax-v0.10.2 https://github.com/jax-ml/jax
    JUPYTER_DIST_JAX_TESTS=jax/tests/multiprocess pytest -rA tests/processes/test_jax_own_tests.py
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from .listener import Listener

pytest.importorskip("jax")
pytest.importorskip("absl", reason="JAX's harness needs it: pip install absl-py")
pytestmark = pytest.mark.timeout(900)

FOLDER = os.environ.get("JUPYTER_DIST_JAX_TESTS", "")
MODULES = sorted(Path(FOLDER).glob("*_test.py")) if FOLDER else []
NOT_HERE = {
    "multi_worker_hang_test": "it lets a process hang, and expects JAX to end the others",
    "multi_worker_poll_for_error_test": "it ends a process, and expects JAX to end the others",
    "multiprocess_test": "it ends all processes, and expects a failure of the harness",
    "pgle_test": "it is about profiles of GPUs",
    "tpu_device_test": "it is about TPUs",
}
"""Modules that cannot pass on ranks which outlive each other, or not without other devices."""

NEEDS = {"array_serialization_test": ("etils.epath", "flatbuffers", "tensorstore")}
"""What modules import besides JAX."""

TRANSFERS = """\
with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
jax.config.update("jax_cross_host_transfer_socket_address", f"127.0.0.1:{port}")
"""
SETTINGS = {
    "socket_transfer_test": f'{TRANSFERS}jax.config.update("jax_force_dcn_cross_host_transfers", True)',
}
"""What modules do where they are run as a program, before JAX looks for devices."""

KNOWN = {
    "multihost_utils_test.MultiHostUtilsTest.test_process_allgather_cache_hit": (
        "ours: C++ does not launch programs that span processes on its own, so that each is seen"
    ),
    "pjit_test.ArrayPjitMultiHost.test_no_python_shard_arg_fallback": (
        "ours: C++ does not launch programs that span processes on its own, so that each is seen"
    ),
    "wait_barrier_test.WaitBarrierTest.test_non_participant_calls_fails": (
        "JAX alone, if its service is recoverable as ours is: a failed barrier begins again"
    ),
}
"""Test cases that fail, and why: with JAX 0.10.2 alone as well, or because of what we do."""

RUN_MODULE = """\
import importlib.util, io, json, socket, sys, unittest
import jax
from absl import flags
from jax._src import test_multiprocess, test_util

jax.config.config_with_absl()
{settings}
options = {{"num_processes": world_size, "multiprocess_test_worker_id": rank, "barrier_timeout": 20}}
flags.FLAGS(["test", *(f"--{{k}}={{v}}" for k, v in options.items() if k in flags.FLAGS)])

spec = importlib.util.spec_from_file_location({name!r}, {path!r})
module = sys.modules[{name!r}] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
suite = test_util.JaxTestLoader().loadTestsFromModule(module)


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.found = {{}}

    def note(self, test, outcome, why=""):
        name = test.id() if outcome != "subtest" else test.test_case.id()
        if self.found.get(name, ["passed"])[0] == "passed":
            self.found[name] = [outcome, why]

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addFailure(self, test, error):
        self.note(test, "failed", self._exc_info_to_string(error, test)[-2000:])

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)


outcomes = Outcomes()
suite.run(outcomes)
print("OUTCOMES", json.dumps(outcomes.found))
"""

OWN_MODULE = """\
import jax
import jax.numpy as jnp
from jax._src import test_multiprocess
from jax.sharding import NamedSharding, PartitionSpec as P


def total(number):
    mesh = jax.make_mesh((jax.device_count(),), ("ranks",))
    split = NamedSharding(mesh, P("ranks"))
    parts = jax.make_array_from_process_local_data(split, jnp.full((1,), float(number)))
    return float(jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(parts))


class SumTest(test_multiprocess.MultiProcessTest):
    def test_sum(self):
        self.assertEqual(total(jax.process_index() + 1), 10.0)

    def test_that_is_skipped(self):
        self.skipTest("for a reason")

    def test_that_fails_on_one(self):
        self.assertNotEqual(jax.process_index(), 2)

    def test_with_parts(self):
        for number in range(2):
            with self.subTest(number):
                self.assertEqual(total(number), 4.0 * number)
"""


def run_module(cluster, path):
    """Run all test cases of a module on all ranks; gives {name: [outcome, why]} by rank."""
    settings = SETTINGS.get(path.stem, "")
    code = RUN_MODULE.format(name=path.stem, path=str(path), settings=settings)
    listener = Listener()
    result = cluster.run(code, watcher=listener, timeout_s=600)
    assert result.ok, (result, [str(rank.error) for rank in result], listener.notes)
    lines = [rank.stdout.splitlines()[-1] for rank in result]
    return [json.loads(line.removeprefix("OUTCOMES ")) for line in lines]


def merge(found):
    """Give what became of each test case: the worst of all ranks, with its reason."""
    names = sorted({name for outcomes in found for name in outcomes})
    merged = {}
    for name in names:
        each = {rank: outcomes.get(name) for rank, outcomes in enumerate(found)}
        assert None not in each.values(), f"not all ranks have run {name}"
        failed = {rank: why for rank, (outcome, why) in each.items() if outcome == "failed"}
        if failed:
            merged[name] = ("failed", f"on ranks {list(failed)}: {next(iter(failed.values()))}")
        else:
            merged[name] = tuple(max(each.values()))  # skipped comes after passed
    return merged


def say(merged, title):
    """Write how many test cases passed, failed and were skipped, and why."""
    counts = Counter(outcome for outcome, _why in merged.values())
    lines = [f"{title}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))]
    reasons = Counter(why for outcome, why in merged.values() if outcome == "skipped")
    lines += [f"  skipped {count}: {why}" for why, count in reasons.items()]
    lines += [f"  {name}: {why}" for name, (outcome, why) in merged.items() if outcome == "failed"]
    return "\n".join(lines)


@pytest.mark.slow
def test_test_cases_run_on_all_ranks_and_tell_what_became_of_them(start, tmp_path):
    path = tmp_path / "own_test.py"
    path.write_text(OWN_MODULE)
    merged = merge(run_module(start("localhost:4"), path))
    outcomes = {name.split(".")[-1]: outcome for name, outcome in merged.items()}
    assert outcomes["test_sum"] == outcomes["test_with_parts"] == ("passed", "")
    assert outcomes["test_that_is_skipped"] == ("skipped", "for a reason")
    what, why = outcomes["test_that_fails_on_one"]
    assert what == "failed"
    assert why.startswith("on ranks [2]: Traceback")
    assert say(merged, "own").startswith("own: 1 failed, 2 passed, 1 skipped\n")


@pytest.mark.skipif(not MODULES, reason="JUPYTER_DIST_JAX_TESTS names no tests/multiprocess of JAX")
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_jaxs_own_test_cases_pass(start, tmp_path, path, devices):
    if path.stem in NOT_HERE:
        pytest.skip(NOT_HERE[path.stem])
    for name in NEEDS.get(path.stem, ()):
        pytest.importorskip(name, reason=f"{path.stem} needs {name}")
    cluster = start("localhost:4", cpu_devices=devices, env={"TEST_TMPDIR": str(tmp_path)})
    merged = merge(run_module(cluster, path))
    said = say(merged, f"{path.stem}, {devices} devices a rank")
    failed = {name for name, (outcome, _why) in merged.items() if outcome == "failed"}
    known = [f"  known: {name}: {KNOWN[name]}" for name in sorted(failed & KNOWN.keys())]
    passed = {name for name, (outcome, _why) in merged.items() if outcome == "passed"}
    known += [f"  passes, and is in KNOWN: {name}" for name in sorted(passed & KNOWN.keys())]
    print("\n".join([said, *known]))
    assert merged
    assert failed <= KNOWN.keys(), said
