"""Cells that run the programs of programs/ on ranks, which have to be on this machine."""

from pathlib import Path

FOLDER = str(Path(__file__).parent / "programs")
SETUP = "import cupy, os, time\nx = cupy.full(4, rank + 1.0, 'f4')\nfloat(comm.all_reduce(x)[0])"
SMALL = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Environment in which JAX leaves memory of a GPU to others."""
HAS_CUDA = """\
def has_cuda(library):
    try:
        if library == 'torch':
            import torch
            return torch.cuda.is_available()
        import jax
        return jax.default_backend() == 'gpu'
    except ImportError:
        return False
"""


def total(size):
    """Return what ranks give that add up their ranks, each and one."""
    return [str(size * (size + 1) / 2)] * size


def call(what, *arguments, arrays="cupy"):
    """Write the cell that calls a function of a program, as `gpu_outs.check`, with these arguments.

    Each argument is code. With `arrays="numpy"` it is a rehearsal, on any communicator.
    """
    module, _, function = what.partition(".")
    return (
        "import os, sys\n"
        f"os.environ['JUPYTER_DIST_TEST_ARRAYS'] = {arrays!r}\n"
        f"if {FOLDER!r} not in sys.path:\n    sys.path.insert(0, {FOLDER!r})\n"
        f"import {module}\n"
        f"{module}.{function}({', '.join(arguments)})"
    )


def check(what, *arguments, arrays="cupy"):
    """Write the cell that calls a check, which takes the communicator first."""
    return call(what, "comm", *arguments, arrays=arrays)
