"""Modules of benchmarks/ for tests, imported as its programs do: by their bare names."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

GPU = Path(__file__).parents[1] / "benchmarks" / "gpu"


@pytest.fixture
def program(monkeypatch):
    """Import a module of a folder; none of that folder's stays among the imported ones."""

    def load(folder, name):
        path = (GPU / folder).resolve()
        names = [each.stem for each in path.glob("*.py")]
        monkeypatch.syspath_prepend(str(path))
        for each in names:
            monkeypatch.delitem(sys.modules, each, raising=False)
        module = import_module(name)
        for each in names:
            sys.modules.pop(each, None)
        return module

    return load


@pytest.fixture
def benchmark_module(program):
    """Import a module of `make bench`."""
    return lambda name: program("..", name)


@pytest.fixture
def first_contact(program):
    """Import a module of `make gpu`."""
    return lambda name: program("first_contact", name)
