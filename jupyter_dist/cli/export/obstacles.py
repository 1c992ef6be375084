"""What of a notebook cannot become a program that runs without this package. Pure."""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jupyter_dist.cli.export.cells import Cell

PROVIDED = ("rank", "world_size", "local_rank", "local_world_size")
"""Names of ranks that a launcher knows as well, so a program can have them."""
_OURS = {
    "comm": "comm is of jupyter-dist: use torch.distributed, JAX or mpi4py",
    "checkpoint": "checkpoint is of jupyter-dist: save by the framework's own functions",
    "get_ipython": "get_ipython() needs IPython",
    "display": "display() needs IPython: print, or save to a file",
}
_PACKAGES = {
    "jupyter_dist": "jupyter_dist would be needed where the program runs",
    "__future__": "it would not stand first in the program",
    "ipyparallel": "ipyparallel needs its own engines",
    "cupyx.distributed": "only torch.distributed, jax.distributed and mpi4py are set up by export",
}
_IPYTHON = re.compile(r"\s*(?:[\w.,\s]+=\s*)?(%{1,2}\w+|!|\?{1,2}\w)|^\s*[\w.]+\?{1,2}\s*$")
_SENDS = re.compile(r"\s*%dist_(push|restore)\b|[^#]*\bcluster\.(push|restore)\(")
_SAFE = {
    "-o": 1,
    "--check": 0,
    "--setup": 0,
    "--quiet": 0,
    "--on-error": 1,
    "--timeout": 1,
    "--show": 1,
    "--figures": 1,
    "--group-outputs": 1,
    "--times": 0,
    "--no-times": 0,
}
"""Options of `%%spmd` that change nothing of what a program computes, and how many words follow."""
_NAMES = {*dir(builtins), "__name__", "__file__", "__doc__", "__builtins__"}


class Obstacle(NamedTuple):
    """One thing that cannot be exported."""

    cell: str
    line: int
    """Of the cell, from 1."""
    reason: str

    def __str__(self) -> str:
        return f"{self.cell}, line {self.line}: {self.reason}"


def find_obstacles(cells: Sequence[Cell], launcher: str) -> list[Obstacle]:
    """Return all of them, in the order of the notebook."""
    trees = {cell.name: _parse(cell.source) for cell in cells if cell.where == "ranks"}
    in_notebook = {
        name: cell.name
        for cell in cells
        if cell.where == "notebook" and (tree := _parse(cell.source)) is not None
        for name in _bound(tree)
    }
    known = {name for tree in trees.values() if tree is not None for name in _bound(tree)}
    found: list[Obstacle] = []
    for cell in cells:
        if cell.where == "notebook":
            found += _in_notebook_cell(cell)
            continue
        found += _of_options(cell)
        tree = trees[cell.name]
        if tree is None:
            found += _of_syntax(cell)
            continue
        imports, names = (
            _of_imports(cell, tree, launcher),
            _of_names(cell, tree, known, in_notebook),
        )
        found += sorted([*imports, *names], key=lambda obstacle: obstacle.line)
    return found


def _parse(source: str) -> ast.Module | None:
    try:
        compile(source, "cell", "exec", dont_inherit=True)  # it refuses an await that stands alone
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _in_notebook_cell(cell: Cell) -> Iterator[Obstacle]:
    """Yield what a cell that is left out does to ranks."""
    for number, line in enumerate(cell.source.splitlines(), 1):
        if sent := _SENDS.match(line):
            verb = sent[1] or sent[2]
            yield Obstacle(cell.name, number, f"{verb} gives ranks what a program would not have")


def _of_options(cell: Cell) -> Iterator[Obstacle]:
    words = list(cell.options)
    while words:
        flag, has_value, _value = words.pop(0).partition("=")
        if flag not in _SAFE:
            reason = f"%%spmd {flag} has no equal in a program that all ranks run"
            yield Obstacle(cell.name, 1, reason)
            return
        if not has_value:
            del words[: _SAFE[flag]]


def _of_syntax(cell: Cell) -> list[Obstacle]:
    """Return the lines that only IPython understands, or what Python says of the first one."""
    lines = enumerate(cell.source.splitlines(), 1)
    magics = [
        Obstacle(cell.name, number, f"`{line.strip()}` is a command of IPython")
        for number, line in lines
        if _IPYTHON.match(line)
    ]
    if magics:
        return magics
    try:
        compile(cell.source, cell.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        number = getattr(error, "lineno", None) or 1
        return [Obstacle(cell.name, number, f"is no Python: {getattr(error, 'msg', error)}")]
    return []


def _of_imports(cell: Cell, tree: ast.Module, launcher: str) -> Iterator[Obstacle]:
    for node, module in imports_of(tree):
        for package, reason in _PACKAGES.items():
            if f"{module}.".startswith(f"{package}."):
                yield Obstacle(cell.name, node.lineno, reason)
        if module.partition(".")[0] == "mpi4py" and launcher in ("torchrun", "script"):
            reason = f"--to {launcher} starts no ranks of MPI: take mpirun or srun"
            yield Obstacle(cell.name, node.lineno, reason)


def imports_of(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each import with the module that is imported, and what is taken of it as one, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def _of_names(
    cell: Cell, tree: ast.Module, known: set[str], in_notebook: dict[str, str]
) -> Iterator[Obstacle]:
    """Yield names that only jupyter-dist, or another cell, would give a meaning."""
    told = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        name = node.id
        if name in told or name in known or name in PROVIDED:
            continue
        if name in _OURS:
            reason = _OURS[name]
        elif name in _NAMES or "*" in known:
            continue
        elif name in in_notebook:
            reason = f"`{name}` is made in {in_notebook[name]}, which runs in the notebook"
        else:
            reason = f"`{name}` is made in no cell that runs on ranks"
        told.add(name)
        yield Obstacle(cell.name, node.lineno, reason)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yield every name that code binds anywhere; `*` for an import of all names."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.MatchAs(name=str(name)) | ast.arg(arg=name):
                yield name
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
