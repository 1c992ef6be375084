"""Cells that run the programs of programs/ on ranks, which have to be on this machine."""

from pathlib import Path

FOLDER = str(Path(__file__).parent / "programs")


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
