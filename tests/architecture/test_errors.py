"""Errors are data: each has a code, and no code reads what our own sentences say."""

import ast

from jupyter_dist import errors
from jupyter_dist.errors import DistError, ErrorCode

from .sources import SOURCES, name_of, nodes_of

READERS = {"partition", "rpartition", "split", "removeprefix", "removesuffix", "startswith"}


def kinds_below(kind):
    for each in kind.__subclasses__():
        if each.__module__.startswith("jupyter_dist"):
            yield each
            yield from kinds_below(each)


def test_every_kind_of_error_has_a_code_of_its_own():
    kinds = {kind for kind in kinds_below(DistError) if kind.__module__ == errors.__name__}
    codes = [kind.code for kind in {DistError, *kinds}]
    assert sorted(codes) == sorted(ErrorCode)


def takes_text_apart(handler):
    """Whether a handler of our own errors calls something like str(error).partition()."""
    kinds = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    if handler.name is None or not all(hasattr(errors, kind) for kind in kinds):
        return False
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in READERS
        and ast.unparse(node.value) == f"str({handler.name})"
        for node in ast.walk(handler)
    )


def test_no_code_takes_the_text_of_our_errors_apart():
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.ExceptHandler) and node.type is not None and takes_text_apart(node)
    ]
    assert found == []
