import numpy as np
import pytest

from jupyter_dist.collective.calls import arguments
from jupyter_dist.collective.calls.arrays import NUMPY
from jupyter_dist.errors import UsageError

FLOATS = np.dtype("f4")


@pytest.mark.parametrize("given", [3, 2.5, True, [1, 2], 1j, np.float16(1)])
def test_numbers_and_lists_become_arrays(given):
    array, _library = arguments.numbers("all_reduce", given)
    assert (array.shape, array.tolist()) == (np.shape(given), np.asarray(given).tolist())


def test_a_transposed_array_is_made_contiguous():
    assert arguments.numbers("all_reduce", np.ones((2, 3)).T)[0].flags.c_contiguous


@pytest.mark.parametrize("given", ["text", [None], {"a": 1}, np.array(["x"])])
def test_other_objects_are_refused_with_the_next_step(given):
    with pytest.raises(TypeError, match=r"numpy\.asarray"):
        arguments.numbers("all_reduce", given)


@pytest.mark.parametrize(
    ("operation", "accepted"),
    [
        ("broadcast", r"numpy\.empty\(shape, dtype\).*broadcast_object"),
        ("scatter", r"numpy\.empty\(shape, dtype\).*out=.*scatter_object"),
        ("all_reduce", "Accepted: an array"),
    ],
)
def test_none_is_answered_with_what_to_give(operation, accepted):
    with pytest.raises(TypeError, match=f"{operation} got None.*{accepted}"):
        arguments.numbers(operation, None)


@pytest.mark.parametrize("given", [1.0, np.ones((3, 2))])
def test_rows_must_be_one_for_each_rank(given):
    with pytest.raises(UsageError, match=r"shape \(4, …\)"):
        arguments.rows("all_to_all", given, 4)


LOCKED = np.empty(4, "f4")
LOCKED.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "error", "problem"),
    [
        (np.empty(3, "f4"), UsageError, "shape"),
        (np.empty(4, "f8"), UsageError, "dtype float64"),
        (np.empty(8, "f4")[::2], UsageError, "not contiguous"),
        (LOCKED, UsageError, "not writable"),
        ([0.0] * 4, TypeError, "out=list"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(out, error, problem):
    with pytest.raises(error, match=problem):
        arguments.result_room("all_reduce", out, (4,), FLOATS, NUMPY)


def test_a_fitting_out_is_the_answer():
    out = np.empty(4, "f4")
    assert arguments.result_room("all_reduce", out, (4,), FLOATS, NUMPY).answer() is out


@pytest.mark.parametrize("out", [np.empty(6, "f4"), np.empty((2, 3), "f4", order="F")])
def test_an_out_may_be_flat_or_in_the_order_of_fortran(out):
    output = arguments.result_room("all_reduce", out, (2, 3), FLOATS, NUMPY)
    output.keep_safe()[...] = np.arange(6).reshape(2, 3)
    output.settle()
    assert output.answer() is out
    np.testing.assert_array_equal(out.reshape(2, 3), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("given", [-1, 4])
def test_ranks_out_of_range_are_refused(given):
    with pytest.raises(UsageError, match=f"root={given}.* 0 to 3"):
        arguments.peer("broadcast", "root", given, 4)


@pytest.mark.parametrize("given", [1.0, "0", True, None])
def test_ranks_are_whole_numbers(given):
    with pytest.raises(TypeError, match=r"dest=.* 0 to 3"):
        arguments.peer("send", "dest", given, 4)


@pytest.mark.parametrize("given", ["mean", None, ["sum"]])
def test_unknown_reductions_are_refused(given):
    with pytest.raises(UsageError, match="'sum', 'prod', 'min', 'max', 'avg'"):
        arguments.check_reduction("all_reduce", given, FLOATS)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64"])
def test_an_average_of_integers_would_be_rounded(dtype):
    with pytest.raises(UsageError, match=rf"op='avg' for {dtype}.*x\.astype\(float\)"):
        arguments.check_reduction("all_reduce", "avg", np.dtype(dtype))
