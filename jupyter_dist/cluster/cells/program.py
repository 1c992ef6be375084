"""Programs: a file or a module that every rank runs as Python would run it."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.spec.checks import Ranks
from jupyter_dist.cluster.spmd import CellWatcher
from jupyter_dist.errors import UsageError
from jupyter_dist.protocol.commands import PROGRAM, ProgramRequest
from jupyter_dist.protocol.messages import Command

if TYPE_CHECKING:
    from jupyter_dist.cluster.session import Session


def run_program(  # noqa: PLR0913  (each says another thing of a program)
    cluster: "Session",
    path: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    ranks: Ranks = None,
    timeout_s: float | None = None,
    is_module: bool = False,
    watcher: CellWatcher | None = None,
) -> SpmdResult:
    """Run a file with its arguments on the ranks (None: all), as `python PATH ARGUMENTS` would.

    The file is read here and sent; what it imports has to be on the hosts. With `is_module` the
    path is the name of a module there, as after `python -m`. The program finds `comm` and `rank`
    as cells do, and what it has defined is among the names of the ranks afterwards.
    Return what happened, as `run` does: a program that ends with a status other than 0 has raised
    SystemExit. Raise UsageError or SyntaxError for a file that cannot be run (no rank has begun).
    """
    command = program_command(read_program(path, arguments, is_module=is_module))
    return cluster.run_command(command, ranks, timeout_s=timeout_s, watcher=watcher)


def program_command(program: ProgramRequest) -> Command:
    """Return the command that runs it; people see the line that would start it."""
    flag = ("-m",) if program.is_module else ()
    return PROGRAM.order(program, shlex.join(("python", *flag, program.path, *program.arguments)))


def read_program(
    path: str | os.PathLike[str], arguments: Sequence[str], *, is_module: bool
) -> ProgramRequest:
    """Return what ranks are sent. Raise UsageError or SyntaxError for what cannot be run."""
    if is_module:
        return ProgramRequest(os.fspath(path), tuple(arguments), is_module=True)
    file = Path(path)
    if file.suffix == ".ipynb":
        raise UsageError(
            f"{file} is a notebook, and ranks run Python files: `jupyter dist run {file}` runs it."
        )
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(f"{file} cannot be read: {reason}.") from None
    return program_of(source, str(file.absolute()), arguments)


def program_of(source: str, path: str, arguments: Sequence[str]) -> ProgramRequest:
    """Return a program by its source. Raise UsageError or SyntaxError for what is no Python."""
    try:
        compile(source, path, "exec", dont_inherit=True)
    except (ValueError, RecursionError) as problem:  # NUL, too many levels
        raise UsageError(f"{path} cannot be compiled: {problem}.") from None
    return ProgramRequest(path, tuple(arguments), source)
