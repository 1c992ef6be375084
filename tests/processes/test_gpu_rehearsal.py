"""The way to NCCL up to the first call that wants a driver, where there is no GPU.

NVML is pretended; CuPy, nccl4py and NCCL are the real ones, in the directory that
JUPYTER_DIST_CUDA13 names:

    pip install --no-deps --target .venv/cuda13 cupy-cuda13x nccl4py nvidia-nccl-cu13 cuda-pathfinder
    JUPYTER_DIST_CUDA13=.venv/cuda13 pytest tests/processes/test_gpu_rehearsal.py
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dist.errors import StartFailed

from .conftest import SharedCluster
from .results import values

CUDA13 = os.environ.get("JUPYTER_DIST_CUDA13", "")
TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not CUDA13,
    reason="JUPYTER_DIST_CUDA13 is not set: pip install --no-deps --target DIR cupy-cuda13x "
    "nccl4py nvidia-nccl-cu13 cuda-pathfinder",
)
NO_DRIVER = "cudaErrorInsufficientDriver"


@pytest.fixture(scope="module")
def with_packages():
    """Processes that start from now on have the packages and the pretended NVML."""
    site = Path(CUDA13).resolve()
    with pytest.MonkeyPatch.context() as monkeypatch:
        paths = (TESTS / "pretended", site)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
        # As nccl4py and CuPy look for it: not in directories of PYTHONPATH.
        monkeypatch.setenv("LD_LIBRARY_PATH", str(site / "nvidia/nccl/lib"))
        yield


@pytest.fixture(scope="module")
def one(with_packages, tmp_path_factory):
    """One rank, on the GPU that is not there."""
    shared = SharedCluster(tmp_path_factory.mktemp("one"), "localhost:1")
    yield shared.cluster
    shared.close()


def value(cluster, code):
    return ast.literal_eval(values(cluster.run(code))[0])


def test_auto_takes_nccl_and_the_rank_gets_the_gpu(one):
    assert value(one, "type(comm._communicator).__name__") == "NcclCommunicator"
    assert one.notes == ()
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    assert value(one, f"import os\n[os.environ.get(n) for n in {names}]") == ["0", "PCI_BUS_ID"]
    assert value(one, "os.environ['NCCL_RAS_ADDR']").startswith("localhost:")
    assert value(one, "import sys\n'cupy' in sys.modules") is False


def test_what_is_installed_is_what_is_loaded(one):
    code = (
        "from jupyter_dist.probe.software import list_versions\n"
        "from nccl.bindings import nccl\nimport cupy\nfound = list_versions()\n"
        "found['nccl'], nccl.get_version(), found['cupy'], cupy.__version__, 'nccl4py' in found"
    )
    package, loaded, cupy_package, cupy_loaded, has_binding = value(one, code)
    major, minor, patch = map(int, package.partition("+")[0].split("."))
    assert loaded == major * 10_000 + minor * 100 + patch
    assert (cupy_package, has_binding) == (cupy_loaded, True)


@pytest.mark.parametrize(
    ("way", "module"), [("Nccl4py", "nccl.bindings.nccl"), ("CuPyNccl", "cupy.cuda.nccl")]
)
def test_both_bindings_go_as_far_as_the_driver(one, way, module):
    code = (
        f"import {module} as binding\nfrom jupyter_dist.collective.nccl.api import {way}\n"
        f"api = {way}(binding)\nmade = api.new_id()\n"
        "try:\n    api.init(1, made, 0, 'rehearsal')\n"
        "except api.failure as error:\n    status = error.status\n"
        "len(made), status, api.explain(None, status)"
    )
    size, status, meaning = value(one, code)
    assert (size, status) == (128, 1)
    assert "cuda error" in meaning


def test_device_calls_fail_with_the_drivers_words_and_cost_nothing_else(one):
    result = one.run("import cupy\ncomm.all_reduce(cupy.ones(3))")
    assert NO_DRIVER in str(result[0].error)
    on_host = (
        "import numpy as np\nfrom cupy.cuda import MemoryPointer, UnownedMemory\n"
        "mine = np.ones(4, 'f4')\n"
        "memory = UnownedMemory(mine.ctypes.data, mine.nbytes, mine, 0)\n"
        "comm.all_reduce(cupy.ndarray(4, 'f4', MemoryPointer(memory, 0)))"
    )
    error = one.run(on_host)[0].error
    assert (error.ename, NO_DRIVER in error.evalue) == ("CommunicatorError", True)
    assert value(one, "comm.all_reduce(np.ones(3)).tolist()") == [1.0] * 3


def test_ranks_share_the_gpu_only_when_that_is_asked_for(with_packages, start):
    with pytest.raises(StartFailed, match="--oversubscribe"):
        start("localhost:2", comm="nccl")
    two = start("localhost:2", comm="nccl", oversubscribe=True)
    assert two.notes == ()
    assert values(two.run("import os\nos.environ['CUDA_VISIBLE_DEVICES']")) == ["'0'"] * 2


@pytest.mark.slow
def test_the_tests_of_gpus_fail_for_want_of_the_driver_alone(with_packages):
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=line"]
    run = subprocess.run(
        [*pytest, str(TESTS / "gpu" / "test_nccl.py"), "-k", "one_rank"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert f"rank 0: CUDARuntimeError: {NO_DRIVER}" in run.stdout, run.stdout
    assert "1 failed, " in run.stdout, run.stdout
    assert " error" not in run.stdout.splitlines()[-1], run.stdout
