"""The versions of ipykernel that the tests run in, where they are installed."""

import os
from pathlib import Path

import pytest

VERSIONS = ("6.31.0", "7.3.0", "7.4.0")
"""The last of the series without subshells, and two that hand clicks to other threads."""
_VARIABLE = "JUPYTER_DIST_KERNELS"


def packages_of(version: str) -> Path:
    """Give the folder with this version; skips the test where there is none."""
    named = os.environ.get(_VARIABLE)
    if not named:
        pytest.skip(
            f"{_VARIABLE} names no folder; make one with `pip install --no-deps --target "
            f"FOLDER/{version} ipykernel=={version}` for each version"
        )
    folder = Path(named) / version
    if not (folder / "ipykernel").is_dir():
        pytest.skip(f"there is no ipykernel {version} in {named}")
    return folder
