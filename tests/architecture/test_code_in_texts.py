"""Programs that stand in texts, here and on pages, import what there is: no tool looks into them."""

import ast
import importlib.util
import re

import pytest

from .sources import ROOT, SOURCES, name_of, nodes_of

FILES = [
    path
    for pattern in ("tests/**/*.py", "benchmarks/**/*.py", "docs/**/*.md", "notebooks/*.ipynb")
    for path in ROOT.glob(pattern)
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)  # built by benchmarks
]
IMPORTS = re.compile(r"from (jupyter_dist(?:\.\w+)*) import (\w+(?:, *\w+)*)")


def is_there(module, name):
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        # A library that is not installed here says nothing about our module.
        return not str(missing.name).startswith("jupyter_dist")
    if hasattr(found, name):
        return True
    return hasattr(found, "__path__") and importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.filterwarnings("ignore")
def test_what_a_text_imports_is_there():
    wanted = {
        (module, name.strip(), str(path.relative_to(ROOT)))
        for path in FILES
        for module, names in IMPORTS.findall(path.read_text())
        for name in names.split(",")
    }
    assert len(wanted) > 1000
    assert sorted(each for each in wanted if not is_there(*each[:2])) == []


def test_no_process_asks_another_one_in_source_text():
    found = [
        name_of(path)
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(
            r"__import__\(.jupyter_dist|\bimport jupyter_dist|from jupyter_dist|get_ipython\(\)\.",
            node.value,
        )
    ]
    assert found == []
