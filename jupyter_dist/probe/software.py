"""Versions of what matters when hosts work together."""

import contextlib
import importlib.metadata
import platform
from pathlib import Path

from jupyter_dist.version import __version__

_DISTRIBUTIONS = {
    "numpy": ("numpy",),
    "jax": ("jax",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "torch": ("torch",),
    "nccl": ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
}
_DRIVER = Path("/sys/module/nvidia/version")


def list_versions() -> dict[str, str]:
    """Give package -> version of what is installed here; what is missing is left out.

    Nothing is imported: asking torch for its version would take seconds.
    """
    versions = {"python": platform.python_version(), "jupyter-dist": __version__}
    for package, names in _DISTRIBUTIONS.items():
        for name in names:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                versions[package] = importlib.metadata.version(name)
                break
    with contextlib.suppress(OSError):
        versions["driver"] = _DRIVER.read_text(encoding="ascii").strip()
    return versions
