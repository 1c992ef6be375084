"""What our errors say stands in sentences.txt, for people to read and judge in one place.

To write that file again after a change: REWRITE_GOLDEN=1 python -m pytest tests/architecture/test_sentences.py
"""

import ast
import os
import re
from pathlib import Path

import pytest

from jupyter_dist import errors
from jupyter_dist.errors import DistError

from .sources import SOURCES, name_of, nodes_of

GOLDEN = Path(__file__).parent / "sentences.txt"
KINDS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, DistError)
}
OLD_DIALECT = re.compile(
    r"\b(anew|nobody|somebody|whoever|by itself|by themselves|of ours|leads nowhere|taken back)\b"
)


def sentence_of(node):
    """Return what an expression says, with the source of what it fills in; empty: not a text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = sentence_of(node.left), sentence_of(node.right)
        return f"{left}{right}" if left and right else ""
    return ""


def is_sentence(text):
    return " " in text.strip()


def sentences_of(path):
    """Yield the kind of each error that a module makes, and what it says."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls = [(node.func.id, node)]
        elif isinstance(node, ast.ClassDef):  # what the class itself hands to Exception
            calls = [
                (node.name, call)
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__"
            ]
        else:
            continue
        for kind, call in calls:
            if kind in KINDS:
                for value in (*call.args, *(keyword.value for keyword in call.keywords)):
                    if is_sentence(text := sentence_of(value)):
                        yield kind, text


def catalogue():
    lines = [
        "What errors say, by module and kind; {…} is filled in. Written by test_sentences.py.",
        "",
    ]
    for path in SOURCES:
        if found := sorted(set(sentences_of(path))):
            lines += [f"## {name_of(path)}", *(f"{kind}: {text}" for kind, text in found), ""]
    return "\n".join(lines)


def test_what_errors_say_stands_in_one_place():
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(catalogue(), encoding="utf-8")
    told = catalogue()
    assert told == GOLDEN.read_text(encoding="utf-8")
    assert told.count("\nUsageError: ") > 200


def texts_of(path):
    """Return the texts of a module that are no docstrings: what a person may come to read."""
    nodes = nodes_of(path)
    comments = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in comments
    ]


@pytest.mark.parametrize("word", ["anew", "nobody could tell", "is taken back"])
def test_the_old_dialect_is_known(word):
    assert OLD_DIALECT.search(f"it {word}")


def test_no_text_is_in_the_old_dialect():
    found = [
        f"{name_of(path)}:{node.lineno}: {node.value}"
        for path in SOURCES
        for node in texts_of(path)
        if OLD_DIALECT.search(node.value)
    ]
    assert found == []
