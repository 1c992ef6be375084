"""Versions of what matters when hosts work together."""

import contextlib
import ctypes.util
import os
import platform
import sys
from pathlib import Path

from jupyter_dist.version import __version__

SYSTEM = "of the system"
"""In place of a version: a library that is there outside of Python's packages."""
_DISTRIBUTIONS = {
    "numpy": ("numpy",),
    "jax": ("jax",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "torch": ("torch",),
    "nccl": ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
    "nccl4py": ("nccl4py",),
}
_NCCL = "libnccl.so.2"
_DRIVER = Path("/sys/module/nvidia/version")


def list_versions(*, of_system: bool = False) -> dict[str, str]:
    """Return package -> version of what is installed here; what is missing is left out.

    Nothing is imported: asking torch for its version would take seconds. `of_system` looks for
    libraries outside of Python's packages as well, which starts other programs.
    """
    versions = {"python": platform.python_version(), "jupyter-dist": __version__}
    for package, names in _DISTRIBUTIONS.items():
        found = next(filter(None, map(version_of, names)), "")
        if found:
            versions[package] = found
    if of_system and "nccl" not in versions and _has_system_nccl():
        versions["nccl"] = SYSTEM
    with contextlib.suppress(OSError):
        versions["driver"] = _DRIVER.read_text(encoding="ascii").strip()
    return versions


def version_of(distribution: str) -> str:
    """Return the version of what is installed by this name; empty: it is not."""
    import importlib.metadata

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return ""


def _has_system_nccl() -> bool:
    """Return whether the loader would find NCCL; it is not loaded."""
    folders = [f"{sys.prefix}/lib", *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    if any(folder and Path(folder, _NCCL).exists() for folder in folders):
        return True
    return ctypes.util.find_library("nccl") == _NCCL
