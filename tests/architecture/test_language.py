"""Pages are written in plain English: some words of an older dialect may not come back."""

import re

import pytest

from .sources import ROOT

DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "decisions"),
]
AVOIDED = re.compile(r"\b(anew|nobody|somebody|whoever|by itself|by themselves)\b")
QUOTED = re.compile(r"^```.*?^```|^    .*?$|`[^`]*`", re.DOTALL | re.MULTILINE)
"""Code, and what programs print."""
MOST_TERMS = 48


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_avoid_the_old_dialect(page):
    found = AVOIDED.findall(QUOTED.sub("", page.read_text()))
    assert found == []


def test_the_glossary_is_short_and_in_order():
    page = (DOCS / "reference" / "glossary.md").read_text()
    terms = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert terms == sorted(terms)
    assert 20 < len(terms) <= MOST_TERMS
