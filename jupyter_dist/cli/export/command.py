"""`jupyter dist export`: the command."""

import argparse
import sys
from pathlib import Path

from jupyter_dist.cli.command import Command, write
from jupyter_dist.errors import UsageError
from jupyter_dist.options.command_options import OptionParser

_LAUNCHERS = ("torchrun", "srun", "mpirun", "script")
CANNOT = 1
"""Exit status where something of the notebook cannot be exported."""


def add_export_options(parser: OptionParser) -> None:
    """Add what is exported, for which launcher, and to where."""
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="a file .ipynb")
    parser.add_argument(
        "--to", required=True, choices=_LAUNCHERS, help="what will start it on the ranks"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write it (default: to stdout)"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def export_notebook(options: argparse.Namespace) -> int:
    """Make a program of a notebook that runs without jupyter-dist."""
    from jupyter_dist.cli.export.cells import read_cells
    from jupyter_dist.cli.export.program import export

    notebook, output = options.notebook, options.output
    if output is not None and output.exists() and not options.force:
        raise UsageError(f"{output} is there already. Name another file, or add --force.")
    file = output.name if output is not None else f"{notebook.stem}.py"
    exported = export(read_cells(notebook), options.to, notebook, file)
    if exported.obstacles:
        for obstacle in exported.obstacles:
            sys.stderr.write(f"{notebook.name}: {obstacle}\n")
        sys.stderr.write("Nothing was written: what is named has to be changed or left out.\n")
        return CANNOT
    if exported.left_out:
        sys.stderr.write(f"left out, as they run in the notebook: {', '.join(exported.left_out)}\n")
    if output is None:
        write(exported.program)
    else:
        output.write_text(exported.program, encoding="utf-8")
        sys.stderr.write(f"wrote {output}\n")
    return 0


COMMANDS: tuple[Command, ...] = (
    (export_notebook, "export train.ipynb --to torchrun --output train.py", add_export_options),
)
