"""Clusters whose NCCL is the stand-in: real processes, nccl4py and CuPy, and no GPU.

pip install --no-deps --target DIR cupy-cuda13x==14.2.0 nccl4py==0.6.0 cuda-pathfinder==1.9.0
JUPYTER_DIST_CUDA13=DIR pytest tests/nccl_stand_in
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dist.model.spec.cluster_spec import HostSpec
from tests.nccl_stand_in.building import COMPILER, PLUGIN, compile_library
from tests.ranks import Ranks

from ..processes.conftest import home, in_background, start, sweep, within  # noqa: F401, TID252  (fixtures)

PACKAGES = os.environ.get("JUPYTER_DIST_CUDA13", "")
CELL_S = 30.0
"""The longest that a cell may take."""


@pytest.fixture(scope="session")
def surroundings(tmp_path_factory):
    """Environment of processes that have the stand-in; skips where it cannot be."""
    if not PACKAGES:
        pytest.skip(f"JUPYTER_DIST_CUDA13 is not set: {__doc__.splitlines()[2].strip()}")
    if COMPILER is None:
        pytest.skip("there is no C compiler (cc)")
    folder = tmp_path_factory.mktemp("library")
    compile_library(folder)
    paths = (PLUGIN, Path(PACKAGES).resolve())
    environment = {
        "NCCL_STAND_IN": str(folder),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    tried = subprocess.run(
        [sys.executable, "-c", "import cupy; from nccl.bindings import nccl; nccl.get_version()"],
        env={**os.environ, **environment},
        check=False,
        capture_output=True,
        text=True,
    )
    if tried.returncode:
        pytest.skip(f"CuPy or nccl4py does not load: {tried.stderr.strip().splitlines()[-1]}")
    return environment


class Misuse:
    """What callers did that NCCL or CUDA leave undefined."""

    def __init__(self, path):
        self._path = path

    def read(self):
        """List it."""
        return self._path.read_text().splitlines() if self._path.exists() else []


@pytest.fixture
def misuse(tmp_path):
    """Fail in the end if the stand-in was misused."""
    found = Misuse(tmp_path / "misuse")
    yield found
    assert found.read() == []


@pytest.fixture
def stand_in(surroundings, misuse, tmp_path, monkeypatch):
    """Return processes that start from now on the stand-in."""
    for name, value in {**surroundings, "NCCL_STAND_IN_LOG": str(tmp_path / "misuse")}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def ranks(stand_in, start):  # noqa: F811  (the fixture above)
    """Start so many ranks with a device each."""

    def make(count, **env):
        host = HostSpec("localhost", count, devices=tuple(range(count)))
        return Ranks(start((host,), comm="nccl", env=env), CELL_S)

    return make
