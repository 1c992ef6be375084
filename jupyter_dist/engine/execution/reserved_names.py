"""`rank`, `comm` and their like after a cell that has bound them: put back, and told once."""

import ast
import re
import warnings
from collections.abc import Mapping
from operator import is_not
from typing import Any

from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.model.hosts.rank import NAMES_OF_RANKS

_MISSING = object()
_any, _map = any, map
"""As they were: a cell may have put others in their places."""
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def restore_names(shell: RankShell) -> tuple[str, ...]:
    """Put back what ranks have from the cluster; return the names that were something else."""
    found, own = shell.user_ns, shell.own_names
    # In C, for each cell asks twice.
    if not _any(_map(is_not, _map(found.get, NAMES_OF_RANKS), _map(own.get, NAMES_OF_RANKS))):
        return ()
    changed = [
        name
        for name in NAMES_OF_RANKS
        if name in own and found.get(name, _MISSING) is not own[name]
    ]
    different = tuple(name for name in changed if not _is_same(found, own, name))
    found.update({name: own[name] for name in changed})
    return different


def _is_same(found: Mapping[str, Any], own: Mapping[str, Any], name: str) -> bool:
    """Return whether a cell has bound a name to what it is anyway, as `rank = comm.rank` does."""
    value = found.get(name, _MISSING)
    return type(value) is int and value == own[name]


def warn_of_bindings(shell: RankShell, code: str, names: tuple[str, ...]) -> None:
    """Raise a UserWarning at the line of the cell that has bound each of these names."""
    python = shell.transform_cell(code)
    path = shell.compile.last_path
    for name in names:
        line = find_binding(python, name) or _find_mention(code, name)
        text = (
            f"{name} is given to each rank by the cluster: what this line makes of it holds in "
            "this cell only. Use another name for a value of your own."
        )
        warnings.warn_explicit(text, UserWarning, path, line)


def find_binding(python: str, name: str) -> int:
    """Return the first line that binds or deletes a global name; 0 where none does."""
    try:
        finder = _Finder(name)
        finder.visit(ast.parse(python))
    except (SyntaxError, ValueError, RecursionError):
        return 0
    return min(finder.lines, default=0)


def _find_mention(code: str, name: str) -> int:
    """Return the first line that has the word: a magic or `exec` may have bound it there."""
    word = re.compile(rf"\b{name}\b")
    lines = enumerate(code.splitlines(), start=1)
    return next((number for number, line in lines if word.search(line)), 1)


class _Finder(ast.NodeVisitor):
    """Collects the lines where a cell binds one name in its own scope."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.lines: list[int] = []

    def _take(self, name: str | None, line: int) -> None:
        if name == self._name:
            self.lines.append(line)

    def visit(self, node: ast.AST) -> None:
        """Take in a statement or an expression; scopes of their own only where they reach out."""
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                self._take(name, node.lineno)
            case ast.alias():
                self._take(node.asname or node.name.partition(".")[0], node.lineno)
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                self._take(node.name, node.lineno)
            case ast.MatchMapping():
                self._take(node.rest, node.lineno)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._take(node.name, node.lineno)
                self._visit_scope(node)
                return
            case ast.Lambda():
                return
            case _ if isinstance(node, _Comprehension):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.NamedExpr):
                        self._take(inner.target.id, inner.lineno)
                return
            case _:
                pass
        self.generic_visit(node)

    def _visit_scope(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Global) and self._name in inner.names:
                self.lines.append(inner.lineno)
