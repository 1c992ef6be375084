"""Pages of docs/reference that follow from the code are as the code is."""

import importlib.util
import re

import pytest

import jupyter_dist

from .sources import ROOT

PROGRAM = ROOT / "docs" / "site" / "write_reference.py"
SPEC = importlib.util.spec_from_file_location("write_reference", PROGRAM)
written = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(written)


@pytest.mark.parametrize("page", written.PAGES)
def test_a_page_is_what_the_code_says(page):
    """Write it again with `python docs/site/write_reference.py`."""
    assert (written.FOLDER / page).read_text(encoding="utf-8") == written.PAGES[page]()


def test_every_public_name_is_on_the_page_about_python():
    page = (written.FOLDER / "python.md").read_text(encoding="utf-8")
    assert set(re.findall(r"autoclass:: (\w+)", page)) == set(jupyter_dist._PUBLIC)


def test_every_magic_says_what_it_does():
    assert [each.prog for each in written.PARSERS if not written._doc_of(each.prog)] == []


def test_what_is_filled_into_a_sentence_is_left_out():
    sentences = [each for said in written._sentences().values() for each in said]
    assert len(sentences) > 400
    assert [each for each in sentences if re.search(r"\{\w|\bself\.", each)] == []
