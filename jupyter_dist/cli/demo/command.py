"""`jupyter dist demo`: the command."""

import argparse
import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from jupyter_dist.cli.command import Command, write, write_problem
from jupyter_dist.errors import UsageError
from jupyter_dist.options.command_options import OptionParser

_FOLDER = "jupyter-dist-demo"
_FAILED = 1


def add_demo_options(parser: OptionParser) -> None:
    """Add where the notebooks go, and whether they are opened."""
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path(_FOLDER), metavar="DIR",
        help=f"where the notebooks go (default: {_FOLDER}); files that are there are kept",
    )  # fmt: skip
    parser.add_argument("--no-open", action="store_true", help="copy them, and open nothing")


def demo(options: argparse.Namespace) -> int:
    """Copy notebooks to learn from into a folder, and open them in JupyterLab."""
    from jupyter_dist.cli.demo.notebooks import copy_notebooks

    try:
        copied = list(copy_notebooks(options.folder))
    except OSError as error:
        raise UsageError(
            f"the notebooks cannot be copied to {options.folder}: {error.strerror or error}. "
            "Name a folder that you may write to: jupyter dist demo DIR"
        ) from error
    write(f"{len(copied)} notebooks are in {options.folder}; each starts 4 ranks here\n")
    for path, is_kept in copied:
        write(f"  {path.name}{'  (kept: it is not as it was shipped)' if is_kept else ''}\n")
    return _open(copied[0].path, is_wanted=not options.no_open)


def _open(first: Path, *, is_wanted: bool) -> int:
    """Become JupyterLab; return the exit status where that is not wanted, or not possible."""
    opening = f"jupyter lab {shlex.quote(str(first))}"
    if not is_wanted:
        write(f"To open them: {opening}\n")
        return 0
    if find_spec("jupyterlab") is None:
        problem = (
            f"JupyterLab is not installed in {sys.prefix}, so they are not opened. Install it "
            f'with `{sys.executable} -m pip install "jupyter-dist[lab]"`, then: {opening}'
        )
        return write_problem(problem, _FAILED)
    write(f"{opening}\n")
    # In place of this process, so that Ctrl-C reaches it as if it had been typed.
    return os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyterlab", str(first)])


COMMANDS: tuple[Command, ...] = ((demo, "demo", add_demo_options),)
