import numpy as np
import pytest

from jupyter_dist.collective.calls import counted
from jupyter_dist.errors import UsageError


class Alone:
    """A communicator of one rank, as far as calls with a count use it."""

    size = 1

    def all_gather(self, array, out=None, *, tiled, stream):
        assert tiled
        return self.give(array, out)

    def reduce_scatter(self, array, op="sum", out=None, *, stream):
        return self.give(array[0], out)

    def give(self, array, out):
        if out is None:
            return array.copy()
        np.copyto(out, array)
        return out


def test_the_first_elements_go_and_the_rest_of_out_stays():
    out = np.full((2, 3), -1)
    assert counted.all_gather(Alone(), [7, 8, 9], out, 2) is out
    assert out.tolist() == [[7, 8, -1], [-1, -1, -1]]
    assert counted.reduce_scatter(Alone(), np.arange(6).reshape(2, 3), "sum", None, 4).tolist() == [
        0,
        1,
        2,
        3,
    ]


def test_a_count_of_none_moves_nothing():
    assert counted.all_gather(Alone(), np.ones(3), None, 0).shape == (0,)


@pytest.mark.parametrize("count", [True, 2.0, "2", [2]])
def test_a_count_is_a_whole_number(count):
    with pytest.raises(TypeError, match="count="):
        counted.all_gather(Alone(), np.ones(3), None, count)


@pytest.mark.parametrize(
    ("array", "out", "count", "text"),
    [
        (np.ones(3), None, -1, r"count=-1\b"),
        (np.ones(3), None, 4, r"\b4 .* array of shape \(3,\)"),
        (np.ones(3), np.ones(2), 3, r"\b3 .* out of shape \(2,\)"),
        (np.ones((2, 3)).T, None, 2, r"array of shape \(3, 2\).* C-contiguous"),
        (np.ones(3), np.ones((2, 3)).T, 2, r"out of shape \(3, 2\).* C-contiguous"),
    ],
)
def test_buffers_that_are_too_short_or_turned_are_refused(array, out, count, text):
    with pytest.raises(UsageError, match=text):
        counted.all_gather(Alone(), array, out, count)


def test_tensors_of_torch_are_asked_in_their_way():
    torch = pytest.importorskip("torch")
    turned = torch.ones(2, 3).T
    with pytest.raises(UsageError, match="C-contiguous"):
        counted.all_gather(Alone(), torch.ones(3), turned, 2)
