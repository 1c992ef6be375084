"""How the stand-in is made of its sources."""

import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
PLUGIN = FOLDER / "plugin"
"""What processes need first on their PYTHONPATH."""
COMPILER = shutil.which("cc")
FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-fPIC", "-shared")


def compile_library(folder):
    """Make libnccl.so.2, and a libcuda.so.1 that has the same names."""
    nccl, cuda = folder / "libnccl.so.2", folder / "libcuda.so.1"
    sources = sorted(map(str, (FOLDER / "library").glob("*.c")))
    subprocess.run(
        [COMPILER, *FLAGS, f"-Wl,-soname,{nccl.name}", "-o", nccl, *sources, "-lpthread", "-lm"],
        check=True,
    )
    subprocess.run(
        [COMPILER, "-shared", f"-Wl,-soname,{cuda.name}", "-Wl,--no-as-needed", "-o", cuda, nccl],
        check=True,
    )
