import sys
from pathlib import Path

import pytest

GPU = Path(__file__).parents[3] / "benchmarks" / "gpu"


@pytest.fixture
def program(monkeypatch):
    """Import a module of benchmarks/gpu as its programs do, for one test."""

    def load(folder, name):
        monkeypatch.syspath_prepend(str(GPU / folder))
        monkeypatch.delitem(sys.modules, name, raising=False)
        module = __import__(name)
        monkeypatch.delitem(sys.modules, name)
        return module

    return load
