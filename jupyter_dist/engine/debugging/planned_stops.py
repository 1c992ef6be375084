"""Stops that were asked for with a cell: before a line, where a condition holds, at an error."""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.errors import CollectiveMismatch, PeerFailed
from jupyter_dist.model.ranks.user_errors import name_error
from jupyter_dist.protocol.messages import Stops

_BLOCKS = ("body", "orelse", "finalbody")
_STOP = '__import__("sys").breakpointhook()'
_STOP_IF = "try:\n    {stop} if ({condition}) else None\nexcept NameError:\n    pass"
"""Where a name is not there yet, the condition does not hold."""


@contextmanager
def planned(
    stops: Stops, shell: RankShell, look_at: Callable[[BaseException], None]
) -> Iterator[None]:
    """Have the cell that runs in this context stop where it was asked to.

    `look_at` is called with an error before the cell ends with it.
    """
    transformer = _Inserting(stops)
    is_inserting = bool(stops.line or stops.condition)
    before = shell.custom_exceptions, shell.CustomTB

    def on_error(_shell: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> None:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        is_wanted = stops.on_error or isinstance(error, CollectiveMismatch)
        if is_wanted and not isinstance(error, PeerFailed):
            print(f"*** {name_error(error)}")  # noqa: T201  (above the prompt, as pdb's own words)
            look_at(error)

    if is_inserting:
        shell.ast_transformers.append(transformer)
    if stops.on_error or stops.on_mismatch:
        shell.set_custom_exc((Exception,), on_error)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if is_inserting and transformer in shell.ast_transformers:
            shell.ast_transformers.remove(transformer)
        shell.custom_exceptions, shell.CustomTB = before


class _Inserting(ast.NodeTransformer):
    """Puts a stop before one statement of a cell, or before each."""

    def __init__(self, stops: Stops) -> None:
        condition = stops.condition
        source = _STOP_IF.format(stop=_STOP, condition=condition) if condition else _STOP
        self._source, self._wanted_line = source, stops.line

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the cell with the stops in it."""
        line = find_line(node, self._wanted_line) if self._wanted_line else None
        self._insert(node, line)
        return node

    def _insert(self, node: ast.AST, line: int | None) -> None:
        for child in ast.walk(node):
            for name in _BLOCKS:
                block = getattr(child, name, None)
                if isinstance(block, list) and block:
                    setattr(child, name, self._with_stops(block, line))

    def _with_stops(self, block: Sequence[ast.stmt], line: int | None) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in block:
            if (line is None or statement.lineno == line) and not _must_be_first(statement):
                found += [_at(statement, stop) for stop in ast.parse(self._source).body]
            found.append(statement)
        return found


def find_line(node: ast.AST, wanted: int) -> int:
    """Return the line of the statement that is on this line, or that comes next; 0: none does."""
    lines = [each.lineno for each in ast.walk(node) if isinstance(each, ast.stmt)]
    around = [
        each.lineno
        for each in ast.walk(node)
        if isinstance(each, ast.stmt)
        and not hasattr(each, "body")
        and each.lineno <= wanted <= (each.end_lineno or each.lineno)
    ]
    return max(around, default=min((line for line in lines if line >= wanted), default=0))


def _must_be_first(statement: ast.stmt) -> bool:
    """Return whether nothing may stand before a statement: docstrings, imports of the future."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _at(statement: ast.stmt, stop: ast.stmt) -> ast.stmt:
    """Put all of a stop on the line of a statement."""
    for each in ast.walk(stop):
        if hasattr(each, "lineno"):
            ast.copy_location(each, statement)
            # A call over several lines would be on the last of them.
            vars(each).update(end_lineno=statement.lineno, end_col_offset=statement.col_offset)
    return stop
