"""The import contracts of pyproject.toml hold."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .sources import PACKAGE, ROOT


@pytest.fixture(scope="module")
def contracts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_every_contract_is_kept():
    program = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


def test_every_package_stands_in_a_layer(contracts):
    (layers,) = (found for found in contracts if found["id"] == "layers")
    placed = {name.strip() for layer in layers["layers"] for name in layer.split("|")}
    planned = {name for name in placed if name.startswith("(")}
    there = {
        path.stem
        for path in PACKAGE.iterdir()
        if (path / "__init__.py").exists() or (path.suffix == ".py" and path.stem != "__init__")
    }
    assert placed - planned == there - {name.strip("()") for name in planned}


@pytest.mark.parametrize("library", ["zmq", "grpc"])
def test_a_contract_about_a_library_leaves_no_package_out(contracts, library):
    """A package that is added later must be told about, or allowed, on purpose."""
    (contract,) = (found for found in contracts if found["id"] == library)
    allowed = {"zmq": {"control"}, "grpc": {"agent"}}[library]
    covered = {name.removeprefix("jupyter_dist.") for name in contract["source_modules"]}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages - covered == allowed
