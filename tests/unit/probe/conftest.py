import sys

import pytest
from fakes.recorded_nvml import RecordedNvml, read_record

from jupyter_dist.probe import gpus, nvml


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with these GPUs; `driver` says whether its devices can be used."""

    def make(module, *, driver=True):
        monkeypatch.setitem(sys.modules, "pynvml", module)
        control = tmp_path / "nvidiactl"
        if driver:
            control.touch()
        monkeypatch.setattr(gpus, "_CONTROL", control)
        nvml.load.cache_clear()
        return module

    yield make
    nvml.load.cache_clear()


@pytest.fixture
def recorded(machine):
    """A machine of tests/data; `change` takes its record before anything is asked."""

    def make(name, change=lambda _: None):
        record = read_record(name)
        change(record)
        return machine(RecordedNvml(record))

    return make
