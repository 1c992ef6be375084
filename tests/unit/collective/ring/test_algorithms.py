from itertools import pairwise

import numpy as np
import pytest

from jupyter_dist.collective.ring import algorithms
from jupyter_dist.collective.ring.flow import as_bytes


@pytest.mark.parametrize("count", [0, 1, 3, 4, 10, 1001])
@pytest.mark.parametrize("parts", [1, 2, 4, 7])
def test_chunks_cover_everything_once_and_nearly_evenly(count, parts):
    bounds = algorithms.chunk_bounds(count, parts)
    assert [index for low, high in bounds for index in range(low, high)] == list(range(count))
    sizes = [high - low for low, high in bounds]
    assert len(sizes) == parts
    assert max(sizes) - min(sizes) <= 1


def test_pieces_cover_a_chunk_and_are_small():
    pieces = list(algorithms.piece_bounds(7, 1_000_000, 8))
    assert pieces[0][0] == 7
    assert pieces[-1][1] == 1_000_000
    assert all(first[1] == second[0] for first, second in pairwise(pieces))
    assert max(high - low for low, high in pieces) * 8 <= algorithms.PIECE_BYTES


def test_an_element_larger_than_a_piece_still_goes():
    assert list(algorithms.piece_bounds(0, 2, 1 << 30)) == [(0, 1), (1, 2)]


def test_only_small_arrays_of_few_ranks_go_directly():
    assert algorithms.is_direct(8192, 16)
    assert not algorithms.is_direct(8193, 16)
    assert not algorithms.is_direct(8, 17)


@pytest.mark.parametrize("dtype", ["bool", "float16", "complex128", "longdouble", ">i4"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_any_contiguous_array_can_be_viewed_as_bytes(dtype, shape):
    array = np.ones(shape, dtype)
    view = as_bytes(array)
    assert view.nbytes == array.nbytes
    assert bytes(view) == array.tobytes()
