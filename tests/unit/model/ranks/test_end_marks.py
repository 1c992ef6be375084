import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.model.ranks.end_marks import (
    EndCause,
    EndMark,
    read_end_mark,
    without_end_marks,
    write_end_mark,
)


@given(st.text(), st.sampled_from(EndCause), st.text(max_size=99))
def test_a_mark_is_found_and_left_out_whatever_was_said_before(said, cause, detail):
    before = "".join(line for line in said.splitlines(keepends=True) if "jupyter-dist" not in line)
    text = before + write_end_mark(EndMark(cause, detail))
    assert read_end_mark(text) == EndMark(cause, " ".join(detail.split()))
    left = "".join(without_end_marks(text.splitlines(keepends=True)))
    assert left.strip() == "".join(before.splitlines(keepends=True)).strip()


@pytest.mark.parametrize(
    "text",
    ["", "boom", "jupyter-dist: this process ends: ", "jupyter-dist: this process ends: so: x"],
)
def test_other_text_has_no_mark(text):
    assert read_end_mark(text) is None
