import numpy as np
import pytest

from jupyter_dist.collective import arguments
from jupyter_dist.collective.arrays import NUMPY
from jupyter_dist.errors import UsageError
from jupyter_dist.model.addresses import split_address

FLOATS = np.dtype("f4")


@pytest.mark.parametrize("given", [3, 2.5, True, [1, 2], 1j, np.float16(1)])
def test_numbers_and_lists_become_arrays(given):
    assert arguments.numbers("all_reduce", given)[0].tolist() == np.asarray(given).tolist()


def test_a_scalar_stays_without_axes():
    assert arguments.numbers("all_reduce", 3)[0].shape == ()


def test_a_transposed_array_is_made_contiguous():
    assert arguments.numbers("all_reduce", np.ones((2, 3)).T)[0].flags.c_contiguous


@pytest.mark.parametrize("given", ["text", [None], {"a": 1}, np.array(["x"])])
def test_other_objects_are_refused_with_the_next_step(given):
    with pytest.raises(TypeError, match=r"Convert it with numpy\.asarray"):
        arguments.numbers("all_reduce", given)


@pytest.mark.parametrize("given", [1.0, np.ones((3, 2))])
def test_rows_must_be_one_for_each_rank(given):
    with pytest.raises(UsageError, match=r"shape \(4, …\)"):
        arguments.rows("all_to_all", given, 4)


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        (np.empty(3, "f4"), "shape"),
        (np.empty(4, "f8"), "dtype float64"),
        (np.empty(8, "f4")[::2], "not contiguous"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(out, problem):
    with pytest.raises(UsageError, match=problem):
        arguments.result_room("all_reduce", out, (4,), FLOATS, NUMPY)


def test_an_out_that_cannot_be_written_is_refused():
    out = np.empty(4, "f4")
    out.flags.writeable = False
    with pytest.raises(UsageError, match="not writable"):
        arguments.result_room("all_reduce", out, (4,), FLOATS, NUMPY)


def test_an_out_that_is_no_array_is_refused():
    with pytest.raises(TypeError, match="out=list"):
        arguments.result_room("all_reduce", [0.0] * 4, (4,), FLOATS, NUMPY)


def test_a_fitting_out_is_the_answer():
    out = np.empty(4, "f4")
    assert arguments.result_room("all_reduce", out, (4,), FLOATS, NUMPY).answer() is out


@pytest.mark.parametrize("out", [np.empty(6, "f4"), np.empty((2, 3), "f4", order="F")])
def test_an_out_may_be_flat_or_in_the_order_of_fortran(out):
    room = arguments.result_room("all_reduce", out, (2, 3), FLOATS, NUMPY)
    room.keep_safe()[...] = np.arange(6).reshape(2, 3)
    room.settle()
    assert room.answer() is out
    np.testing.assert_array_equal(out.reshape(2, 3), np.arange(6).reshape(2, 3))


def test_host_memory_has_no_streams():
    arguments.check_no_stream("all_reduce", None)
    with pytest.raises(UsageError, match="all_reduce got stream=7 for arrays in host memory"):
        arguments.check_no_stream("all_reduce", 7)


@pytest.mark.parametrize("given", [-1, 4])
def test_ranks_out_of_range_are_refused(given):
    with pytest.raises(UsageError, match=f"root={given}. Accepted: 0 to 3"):
        arguments.peer("broadcast", "root", given, 4)


@pytest.mark.parametrize("given", [1.0, "0", True, None])
def test_ranks_are_whole_numbers(given):
    with pytest.raises(TypeError, match="Accepted: a rank, 0 to 3"):
        arguments.peer("send", "dest", given, 4)


@pytest.mark.parametrize("given", ["mean", None, ["sum"]])
def test_unknown_reductions_are_refused(given):
    with pytest.raises(UsageError, match="Accepted: 'sum', 'prod', 'min', 'max', 'avg'"):
        arguments.check_reduction("all_reduce", given, FLOATS)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64"])
def test_an_average_of_integers_would_be_rounded(dtype):
    with pytest.raises(UsageError, match=r"Convert the array first \(x.astype\(float\)\)"):
        arguments.check_reduction("all_reduce", "avg", np.dtype(dtype))


@pytest.mark.parametrize(
    ("address", "parts"),
    [("10.0.0.1:80", ("10.0.0.1", 80)), ("[::1]:9", ("::1", 9)), ("nodeA:1", ("nodeA", 1))],
)
def test_addresses_are_split(address, parts):
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["nodeA", ":80", "::1:80", "nodeA:http"])
def test_other_texts_are_no_addresses(address):
    with pytest.raises(UsageError, match="host:port"):
        split_address(address)
