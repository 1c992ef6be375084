import numpy as np
import pytest

from jupyter_dist.collective.calls.arrays import NUMPY, SCALARS
from jupyter_dist.collective.calls.dtypes import find_dtype
from jupyter_dist.collective.calls.output_buffer import OutputBuffer


def test_a_new_array_is_worked_in_directly():
    output = OutputBuffer(np.zeros(4), None, NUMPY)
    assert output.keep_safe(np.ones(4)) is output.view


def test_an_out_is_left_alone_until_the_operation_has_succeeded():
    out = np.zeros(4)
    output = OutputBuffer(out, out, NUMPY)
    output.keep_safe(np.ones(4))[:] = 7
    assert out.tolist() == [0, 0, 0, 0]
    output.settle()
    assert output.answer() is out
    assert out.tolist() == [7, 7, 7, 7]


def test_the_input_as_out_is_worked_in_directly():
    array = np.ones(4)
    output = OutputBuffer(array, array, NUMPY)
    assert output.keep_safe(array[:]) is array


def test_an_average_is_divided_in_the_end():
    output = OutputBuffer(np.full(2, 6, "f4"), None, NUMPY)
    output.keep_safe()
    output.settle(divisor=4)
    assert output.answer().tolist() == [1.5, 1.5]
    assert output.answer().dtype == "f4"


def test_a_number_is_answered_with_a_number():
    output = OutputBuffer(np.array(6), None, SCALARS)
    assert np.ndim(output.answer()) == 0
    assert not isinstance(output.answer(), np.ndarray)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
@pytest.mark.parametrize("size", [3, 17, 300])
def test_an_average_of_small_floats_divides_by_the_true_number_of_ranks(name, size):
    array = np.array([1.0, 300.0, -7.5]).astype(find_dtype(name))
    output = OutputBuffer(array.copy(), None, NUMPY)
    output.settle(divisor=size)
    expected = (array.astype("f4") / np.float32(size)).astype(array.dtype)
    assert output.answer().tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["complex64", ">c16"])
def test_an_average_of_complex_numbers_is_rounded_once(dtype):
    array = np.array([2 + 1j, 5 - 4j], dtype)
    output = OutputBuffer(array.copy(), None, NUMPY)
    output.settle(divisor=3)
    answer = output.answer()
    assert answer.dtype == dtype
    assert answer.real.tolist() == (array.real / np.asarray(3, array.real.dtype)).tolist()
    assert answer.imag.tolist() == (array.imag / np.asarray(3, array.imag.dtype)).tolist()


def test_an_average_of_one_complex_number_is_divided_too():
    output = OutputBuffer(np.array(3 + 6j), None, SCALARS)
    output.settle(divisor=3)
    assert output.answer() == 1 + 2j
