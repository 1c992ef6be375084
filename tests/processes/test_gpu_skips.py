"""The tests of GPUs on a machine whose NVML is pretended, and whose packages are only names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
def test_an_nccl_too_old_to_share_a_gpu_is_a_skip_with_the_reason(tmp_path):
    for name, version in (("cupy-cuda13x", "14.2.0"), ("nvidia-nccl-cu13", "2.28.9")):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    (tmp_path / "cupy.py").touch()
    paths = (tmp_path, TESTS / "pretended")
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    run = subprocess.run(
        [*pytest, str(TESTS / "gpu" / "test_nccl.py"), "-k", "two_ranks_that_share"],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout
    (skip,) = [line for line in run.stdout.splitlines() if line.startswith("SKIPPED")]
    assert "NCCL 2.28.9 " in skip
