import numpy as np
import pytest
from fakes.tilings import SHAPES, tilings
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.checkpoint.format.manifest import Piece
from jupyter_dist.checkpoint.format.sharding import (
    box_shape,
    even_split,
    find_mistile,
    pieces_for,
    slices,
)


def piece_of(box):
    return Piece(file="f", offset=0, nbytes=0, digest="", rank=0, box=box)


@st.composite
def recuts(draw):
    shape = draw(SHAPES)
    return shape, draw(tilings(shape)), draw(tilings(shape))


@given(recuts())
def test_boxes_that_tile_a_shape_are_cut_anew_bit_for_bit(recut):
    shape, saved, wanted = recut
    whole = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    pieces = {piece_of(box): whole[slices(box)] for box in saved}
    for box in wanted:
        made = np.full(box_shape(box), -1)
        for part in pieces_for(box, list(pieces)):
            assert (made[slices(part.target)] == -1).all(), "nothing is written twice"
            made[slices(part.target)] = pieces[part.piece][slices(part.source)]
        np.testing.assert_array_equal(made, whole[slices(box)])


@given(recuts())
def test_boxes_that_tile_a_shape_are_accepted(recut):
    shape, saved, _ = recut
    assert find_mistile(shape, saved) == ""


@given(recuts(), st.data())
def test_a_box_too_many_or_too_few_is_found(recut, data):
    shape, saved, _ = recut
    filled = [box for box in saved if 0 not in box_shape(box)]
    if not filled:
        return
    chosen = data.draw(st.sampled_from(filled))
    assert find_mistile(shape, [*saved, chosen]) == "pieces overlap"
    rest = list(saved)
    rest.remove(chosen)
    assert "elements" in find_mistile(shape, rest)


@pytest.mark.parametrize(
    ("boxes", "words"),
    [
        ([((0, 2),)], "1 axes, the array 2"),
        ([((0, 2), (0, 4))], "0:4 on an axis of length 3"),
        ([((-1, 2), (0, 3))], "-1:2 on an axis of length 2"),
        ([((2, 0), (0, 3))], "2:0 on an axis of length 2"),
        ([((0, 2), (0, 2)), ((0, 2), (1, 3))], "overlap"),
        ([((0, 2), (0, 2)), ((1, 2), (0, 2))], "overlap"),
        ([((0, 2), (0, 2))], "4 of 6 elements"),
        ([], "0 of 6 elements"),
    ],
)
def test_boxes_that_do_not_tile_say_why(boxes, words):
    assert words in find_mistile((2, 3), boxes)


def test_a_scalar_has_one_piece():
    assert find_mistile((), [()]) == ""
    assert find_mistile((), [(), ()]) == "pieces overlap"
    assert find_mistile((), []) == "pieces have 0 of 1 elements"


def test_many_blocks_are_looked_at_quickly_enough():
    grid = [((row, row + 1), (column, column + 1)) for row in range(64) for column in range(64)]
    assert find_mistile((64, 64), grid) == ""


@given(st.integers(0, 40), st.integers(1, 12))
def test_a_length_is_split_as_numpy_splits_it(length, parts):
    expected = [block.tolist() for block in np.array_split(np.arange(length), parts)]
    assert [list(range(*block)) for block in even_split(length, parts)] == expected
