"""File systems of a test's own, so small that a test can fill them."""

import contextlib
import os
import subprocess

import pytest


@contextlib.contextmanager
def mounted_disk(folder, size):
    """Mount a file system of this size (as tmpfs takes it) at a new folder; skips if it may not."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root and CAP_SYS_ADMIN")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
