"""Pack what `make gpu` needs on a machine with a GPU and without a network.

python benchmarks/gpu/kit [--into .gpu-kit] [--arch 90]

Wheels for CPython 3.12 on x86-64, in two folders: `site` with what JupyterDist needs beside torch,
JAX, CuPy, pytest and nvidia-ml-py, and `nccl` with an NCCL that lets ranks share a GPU, of which
only the code of one GPU architecture is left.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from fatbin import trim
from wheel import write_wheel

NCCL = "nvidia-nccl-cu13"
NCCL_VERSION = "2.32.3"
LIBRARY = "nvidia/nccl/lib/libnccl.so.2"
TAG = "py3-none-manylinux_2_27_x86_64"
LARGEST_BYTES = 50 * 10**6
PACKAGES = """
    anywidget asttokens cffi cloudpickle comm cryptography cuda-pathfinder decorator executing
    grpcio grpcio-health-checking ipykernel ipyparallel ipython ipython-pygments-lexers
    ipywidgets jedi jupyter-client jupyter-core matplotlib-inline msgspec nccl4py==0.6.0
    nest-asyncio2 parso pexpect platformdirs prompt-toolkit protobuf psygnal ptyprocess
    pure-eval pycparser python-dateutil pyzmq six stack-data threadpoolctl tomli-w tornado
    traitlets typing-extensions wcwidth xxhash
"""
"""With everything that is imported of what they need; not what only a browser would load."""
PLATFORMS = (
    "manylinux_2_28",
    "manylinux_2_27",
    "manylinux_2_24",
    "manylinux_2_17",
    "manylinux2014",
)


def download(folder: Path, *packages: str) -> None:
    """Load the wheels of these packages alone, without what they ask for."""
    where = [f"--platform={platform}_x86_64" for platform in (*PLATFORMS, "manylinux1")]
    python = ["--only-binary=:all:", "--python-version=3.12", "--implementation=cp", *where]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, *python, *packages], check=True, timeout=600)


def pack_nccl(folder: Path, arch: int, *, keep_relocatable: bool) -> Path:
    """Write a wheel of NCCL with the code of one architecture; it says so in its version."""
    with tempfile.TemporaryDirectory() as whole:
        download(Path(whole), f"{NCCL}=={NCCL_VERSION}")
        (wheel,) = Path(whole).iterdir()
        with zipfile.ZipFile(wheel) as archive:
            library = archive.read(LIBRARY)
    trimmed = trim(library, arch, keep_relocatable=keep_relocatable)
    return write_wheel(folder, NCCL, f"{NCCL_VERSION}+sm{arch}", TAG, {LIBRARY: trimmed})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=Path(".gpu-kit"))
    parser.add_argument("--arch", type=int, default=90, help="as 90 for sm_90 (Hopper)")
    parser.add_argument(
        "--keep-relocatable", action="store_true", help="keep what only a linker reads: 17 MB more"
    )
    options = parser.parse_args()
    shutil.rmtree(options.into, ignore_errors=True)
    for name in ("site", "nccl"):
        (options.into / name).mkdir(parents=True)
    download(options.into / "site", *PACKAGES.split())
    nccl = pack_nccl(options.into / "nccl", options.arch, keep_relocatable=options.keep_relocatable)
    size = sum(path.stat().st_size for path in options.into.rglob("*.whl"))
    print(f"{options.into}: {size / 1e6:.1f} MB, of it {nccl.stat().st_size / 1e6:.1f} MB of NCCL")
    if size > LARGEST_BYTES and not options.keep_relocatable:
        sys.exit(f"that is more than {LARGEST_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
