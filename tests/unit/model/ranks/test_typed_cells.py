"""The code that ranks get of a typed cell."""

import pytest

from jupyter_dist.model.ranks.typed_cells import code_of_typed, count_lines_as_typed


@pytest.mark.parametrize(
    ("cell", "sent"),
    [
        ("x\n", "#%%spmd --ranks 0\nx\n"),
        ("\n  x\n  y\n", "  #%%spmd --ranks 0\n\n  x\n  y\n"),
        ("%%time\nx\n", "%%time\nx\n"),
        ("\n%%time\nx\n", "\n%%time\nx\n"),
    ],
)
def test_lines_are_counted_as_the_person_sees_them(cell, sent):
    assert count_lines_as_typed("--ranks 0", cell) == sent


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("%%spmd\nx", "#%%spmd\nx\n"),
        ("%%spmd  --ranks 0 \nx\n", "#%%spmd  --ranks 0\nx\n"),
        ("%%spmd\n%%time\nx", "%%time\nx\n"),
        ("x = 1\nx", "x = 1\nx\n"),
        ("%%spmdx\nx", "%%spmdx\nx\n"),
        ("", "\n"),
    ],
)
def test_the_code_of_a_typed_cell_has_its_lines(typed, sent):
    assert code_of_typed(typed) == sent
