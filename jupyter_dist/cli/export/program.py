"""The program that a notebook becomes. Pure."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jupyter_dist.cli.export.cells import Cell
from jupyter_dist.cli.export.launchers import TORCH_ENDING, write_beginning
from jupyter_dist.cli.export.obstacles import Obstacle, find_obstacles, imports_of


class Exported(NamedTuple):
    """What came of a notebook."""

    program: str
    """Empty where something cannot be exported."""
    obstacles: tuple[Obstacle, ...]
    left_out: tuple[str, ...]
    """Cells that run in the notebook."""


def export(cells: Sequence[Cell], launcher: str, notebook: Path, file: str) -> Exported:
    """Return the program for a launcher, or why there is none; `file` is what it will be called."""
    ours = [cell for cell in cells if cell.where == "ranks"]
    left_out = tuple(cell.name for cell in cells if cell.where == "notebook" and not cell.is_empty)
    obstacles = find_obstacles(cells, launcher)
    if not ours:
        obstacles.append(Obstacle("the notebook", 1, "no cell runs on ranks (%%spmd, %dist_auto)"))
    if obstacles:
        return Exported("", tuple(obstacles), left_out)
    trees = [ast.parse(cell.source) for cell in ours]
    modules = {module for tree in trees for _, module in imports_of(tree)}
    uses_jax = any(module.partition(".")[0] == "jax" for module in modules)
    forms_jax = uses_jax and not any(map(_initializes_with_arguments, trees))
    title = f"Exported from {notebook.name} by `jupyter dist export --to {launcher}`."
    parts = [write_beginning(launcher, title, file, forms_jax=forms_jax)]
    for cell, tree in zip(ours, trees, strict=True):
        code = _without_initialize(cell.source, tree) if forms_jax else cell.source
        if code.strip():
            parts.append(f"\n# --- {cell.name}\n{code.strip(chr(10))}\n")
    if any(module.partition(".")[0] == "torch" for module in modules):
        parts.append(f"\n# --- the end\n{TORCH_ENDING}")
    return Exported("".join(parts), (), left_out)


def _is_initialize(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("distributed.initialize")


def _initializes_with_arguments(tree: ast.Module) -> bool:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_initialize(node)]
    return any(call.args or call.keywords for call in calls)


def _without_initialize(source: str, tree: ast.Module) -> str:
    """Return code in which a bare call of JAX's initialize, made above, does nothing."""
    lines = source.encode().splitlines()
    for node in ast.walk(tree):
        is_one_line = isinstance(node, ast.Expr) and node.lineno == node.end_lineno
        if isinstance(node, ast.Expr) and is_one_line and _is_initialize(node.value):
            line = lines[node.lineno - 1]
            before, after = line[: node.col_offset], line[node.end_col_offset :]
            comment = b"" if after.strip() else b"  # initialize() was called above"
            lines[node.lineno - 1] = before + b"pass" + comment + after
    return b"\n".join(lines).decode()
