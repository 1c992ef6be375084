"""Sizes and plurals are written in one place: `jupyter_dist.text`."""

import ast
import re

import pytest

from .sources import SOURCES, name_of, nodes_of

FILES = [path for path in SOURCES if path.parent.name != "text"]
UNIT = re.compile(r"^ ?(?:[KMGT]i?B|kB)\b(?!/s)")


def is_unit_after_a_number(joined):
    """Return whether a text as f"{size / 2**20:.0f} MiB" has a number that it scales itself."""
    pairs = zip(joined.values, joined.values[1:], strict=False)
    return any(
        isinstance(value, ast.FormattedValue)
        and isinstance(text, ast.Constant)
        and UNIT.match(str(text.value))
        for value, text in pairs
    )


def is_repeated(product):
    """Return whether it is as `"s" * (count > 1)`."""
    return isinstance(product.left, ast.Constant) and isinstance(product.right, ast.Compare)


def is_plural(choice):
    """Return whether it is as `"" if count == 1 else "s"`, or "rank" and "ranks"."""
    words = [part.value for part in (choice.body, choice.orelse) if isinstance(part, ast.Constant)]
    test = choice.test
    is_one = isinstance(test, ast.Compare) and getattr(test.comparators[0], "value", None) == 1
    is_number = is_one and (isinstance(test.ops[0], ast.Eq) or isinstance(test.left, ast.Call))
    return is_number and len(words) == 2 and all(isinstance(word, str) for word in words)


def places(is_bad, kind):
    return [
        f"{name_of(path)}:{node.lineno}"
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, kind) and is_bad(node)
    ]


@pytest.mark.parametrize(
    ("is_bad", "kind", "text"),
    [
        (is_unit_after_a_number, ast.JoinedStr, 'f"{size / 2**20:.0f} MiB"'),
        (is_plural, ast.IfExp, '"has" if len(ranks) == 1 else "have"'),
        (is_repeated, ast.BinOp, '"s" * (len(ranks) > 1)'),
    ],
)
def test_no_text_is_made_by_hand(is_bad, kind, text):
    assert is_bad(ast.parse(text, mode="eval").body)
    assert isinstance(ast.parse(text, mode="eval").body, kind)
    assert places(is_bad, kind) == []
