"""The modules of the views, as one text and each on its own."""

import re
from collections import Counter

import pytest

from jupyter_dist.views.topology.script_modules import (
    STATIC,
    joined_modules,
    joined_styles,
    module_order,
)

ALL = sorted(path.name for path in STATIC.glob("*.js"))
NAME = re.compile(r"^(?:export )?(?:async )?(?:function\*?|const|let|class) ([\w$]+)", re.MULTILINE)
SCRIPT_LIMIT_BYTES = 112_000


def source(name):
    return (STATIC / name).read_text(encoding="utf-8")


def test_each_top_level_name_stands_for_one_thing_in_all_modules():
    counts = Counter(name for module in ALL for name in NAME.findall(source(module)))
    assert counts["createView"] == 1
    assert [name for name, count in counts.items() if count > 1] == []


def test_the_joined_text_imports_nothing_and_exports_only_its_door():
    text = joined_modules()
    assert re.findall(r"^\s*import\b.*", text, re.MULTILINE) == []
    assert re.findall(r"^export \w+", text, re.MULTILINE) == ["export default"]


def test_a_module_stands_after_those_it_imports():
    order = module_order("widget.js")
    assert order[-1] == "widget.js"
    assert len(set(order)) == len(order)
    assert order.index("words.js") < order.index("plan.js") < order.index("drawing.js")


def test_no_module_is_left_out():
    assert {*module_order("widget.js"), *module_order("door.js")} == set(ALL)


@pytest.mark.parametrize("module", ALL)
def test_a_module_names_only_what_its_neighbour_exports(module):
    imports = re.findall(r'^import \{([^}]*)\} from "\./([\w.]+)";$', source(module), re.MULTILINE)
    for names, neighbour in imports:
        exported = set(
            re.findall(r"^export (?:function|const) ([\w$]+)", source(neighbour), re.MULTILINE)
        )
        assert {name.strip() for name in names.split(",") if name.strip()} <= exported


def test_joining_keeps_the_statements_and_nothing_else(tmp_path):
    door = '/** A. */\nimport { b } from "./b.js";\n\n// More.\nexport default b;\n'
    (tmp_path / "a.js").write_text(door)
    (tmp_path / "b.js").write_text('export const b = [\n  /** @type {string} */ ("//x"),\n];\n')
    assert joined_modules("a.js", tmp_path) == 'const b = [\n("//x"),\n];export default b;'


def test_a_page_loads_at_most_112_kb_for_the_view():
    assert len(f"{joined_modules()}{joined_styles()}".encode()) <= SCRIPT_LIMIT_BYTES
