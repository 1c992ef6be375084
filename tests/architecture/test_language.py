"""Pages are written in plain English: some words of an older dialect may not come back."""

import re

import pytest

from .sources import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
AVOIDED = re.compile(r"\b(anew|nobody|somebody|whoever|by itself|by themselves)\b")
QUOTED = re.compile(r"^```.*?^```|^    .*?$|`[^`]*`", re.DOTALL | re.MULTILINE)
"""Code, and what programs print."""
MOST_TERMS = 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_avoid_the_old_dialect(page):
    found = AVOIDED.findall(QUOTED.sub("", page.read_text()))
    assert found == []


def test_the_glossary_is_short_and_in_order():
    rows = re.findall(
        r"^\| (?!word|--)([^|]+) \| ([^|]+) \|$",
        (PAGES[0].parent / "docs/glossary.md").read_text(),
        re.MULTILINE,
    )
    terms = [term for term, _ in rows]
    assert terms == sorted(terms)
    assert 20 < len(terms) <= MOST_TERMS
