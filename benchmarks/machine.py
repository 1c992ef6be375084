"""Where it is measured: the machine as it is now, and the environment of the rivals."""

import os
import platform
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

VENV = Path(__file__).parent / ".venv-peers"
REQUIREMENTS = (
    "ipyparallel==9.2.*",
    "jupyter-distributed==0.1.1",
    "ipykernel",
    "ipython",
    "numpy",
    "psutil",
    "pyzmq",
    "cloudpickle",
)


def make_peers_venv() -> Path:
    """Give the rivals' Python; install them if that has not been done."""
    return make_venv(VENV, REQUIREMENTS)


def make_venv(folder: Path, requirements: Sequence[str], constraints: Sequence[str] = ()) -> Path:
    """Return the Python of an environment with these packages; make it unless it is there."""
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    wanted = "\n".join([*requirements, *constraints])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    venv.create(folder, with_pip=True, clear=True)
    bounds = folder / "constraints.txt"
    bounds.write_text("\n".join(constraints))
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--constraint", bounds, *requirements],
        check=True,
        timeout=600,
        stdout=sys.stderr,
        env={**os.environ, "JUPYTER_DIST_LABEXTENSION": "skip"},
    )
    stamp.write_text(wanted)
    return python


def describe_machine() -> dict[str, Any]:
    """Say on what the figures were taken."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "command": " ".join(["python", *sys.argv]),
        "load before": os.getloadavg()[0],
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
