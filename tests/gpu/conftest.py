"""Clusters with GPUs; without one, every test here is skipped with the reason."""

import importlib.util
from pathlib import Path

import pytest

from jupyter_dist.coordinator.agents.communicator_choice import HostDevices, too_old_to_share
from jupyter_dist.probe.gpus import count_gpus
from jupyter_dist.probe.software import list_versions
from tests.ranks import Ranks

from ..processes.conftest import home, in_background, start, sweep  # noqa: F401, TID252  (fixtures)
from .ranks_programs import HAS_CUDA, SETUP, SMALL, total

CELL_S = 90.0
"""The longest that a cell may take."""

ONE_GPU = {
    # Kernels of ranks that share a GPU take turns; few blocks of each leave room for the others.
    "NCCL_MAX_CTAS": "2",
    "NCCL_NET_GDR_LEVEL": "LOC",
    "NCCL_NVLS_ENABLE": "0",
}
AS_HOSTS = {
    # Every rank says it is a host of its own: then NCCL goes over sockets, as between hosts.
    **ONE_GPU,
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    "NCCL_MNNVL_ENABLE": "0",
}


def why_not():
    """Say why nothing can run on a GPU here; empty when it can."""
    if not count_gpus():
        return "there is no NVIDIA GPU, or no NVML (pip install nvidia-ml-py)"
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed (pip install 'jupyter-dist[cuda12]', or cuda13)"
    return ""


def pytest_collection_modifyitems(items):
    """Skip all of this folder where there is no GPU."""
    if reason := why_not():
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def ranks(start):  # noqa: F811  (the fixture above)
    """Start so many ranks on the GPUs of this machine, sharing them if need be."""

    def make(count, as_hosts=False, **env):
        shares = count > count_gpus()
        if shares and not as_hosts:
            skip_unless_shareable(count)
        usual = AS_HOSTS if as_hosts else ONE_GPU if shares else {}
        cluster = start(
            f"localhost:{count}", comm="nccl", oversubscribe=shares, env={**usual, **env}
        )
        made = Ranks(cluster, CELL_S)
        if as_hosts:
            made.values("import os\nos.environ['NCCL_HOSTID'] = f'rank-{rank}'")
        return made

    return make


@pytest.fixture
def two(ranks):
    """Start two ranks whose NCCL is formed."""
    made = ranks(2)
    assert made.values(SETUP) == total(2)
    return made


@pytest.fixture
def with_library(ranks):
    """Start two ranks that have torch or JAX with CUDA."""

    def make(library):
        two = ranks(2, **SMALL)
        if "False" in two.values(f"{HAS_CUDA}has_cuda({library!r})"):
            pytest.skip(f"{library} is not installed with CUDA")
        return two

    return make


def skip_unless_shareable(count):
    """Skip, before anything is started, where the installed NCCL is too old to share a GPU."""
    host = HostDevices(count, tuple(map(str, range(count_gpus()))), list_versions())
    if reason := too_old_to_share({"localhost": host}).get("localhost"):
        pytest.skip(reason)
