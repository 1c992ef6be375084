import importlib.metadata

import pytest

from jupyter_dist.probe import software
from jupyter_dist.probe.software import SYSTEM


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """The distributions of this machine; its loader knows no library and has no other folders."""
    versions = {}

    def version(name):
        try:
            return versions[name]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(name) from None

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(software.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(software.ctypes.util, "find_library", lambda _: None)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return versions


@pytest.mark.parametrize(
    ("distribution", "package"),
    [
        ("cupy-cuda12x", "cupy"),
        ("cupy-cuda13x", "cupy"),
        ("cupy", "cupy"),
        ("nvidia-nccl-cu12", "nccl"),
        ("nvidia-nccl-cu13", "nccl"),
        ("nccl4py", "nccl4py"),
        ("torch", "torch"),
    ],
)
def test_a_package_is_known_by_any_of_its_distributions(installed, distribution, package):
    installed[distribution] = "1.2.3"
    assert software.list_versions()[package] == "1.2.3"


def test_what_is_missing_is_left_out(installed):
    assert {"cupy", "nccl", "nccl4py"}.isdisjoint(software.list_versions(of_system=True))


def test_nccl_that_the_loader_finds_counts_where_it_is_asked_for(installed, monkeypatch):
    monkeypatch.setattr(software.ctypes.util, "find_library", lambda name: f"lib{name}.so.2")
    assert "nccl" not in software.list_versions()
    assert software.list_versions(of_system=True)["nccl"] == SYSTEM
    installed["nvidia-nccl-cu12"] = "2.30.7"
    assert software.list_versions(of_system=True)["nccl"] == "2.30.7"


def test_nccl_of_another_major_version_does_not_count(installed, monkeypatch):
    monkeypatch.setattr(software.ctypes.util, "find_library", lambda _: "libnccl.so.1")
    assert "nccl" not in software.list_versions(of_system=True)


def test_nccl_of_a_loaded_module_or_of_this_environment_counts(installed, monkeypatch, tmp_path):
    module = tmp_path / "module"
    module.mkdir()
    (module / "libnccl.so.2").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f":/no/such/folder:{module}")
    assert software.list_versions(of_system=True)["nccl"] == SYSTEM
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert "nccl" not in software.list_versions(of_system=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnccl.so.2").touch()
    assert software.list_versions(of_system=True)["nccl"] == SYSTEM
