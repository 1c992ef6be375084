"""The package's source files, each read and parsed once for all rules."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_dist"
SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path):
    """Return all nodes of a file's syntax tree, the outermost first."""
    return tuple(ast.walk(parsed(path)))


def name_of(path):
    return str(path.relative_to(PACKAGE))
