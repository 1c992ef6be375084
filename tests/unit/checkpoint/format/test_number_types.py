import ml_dtypes
import numpy as np
import pytest

from jupyter_dist.checkpoint.format.number_types import (
    NAMES,
    item_bytes,
    safetensors_view,
)


@pytest.mark.parametrize("name", NAMES)
def test_a_number_has_the_size_that_its_library_says(name):
    known = np.dtype(getattr(ml_dtypes, name, name))
    assert (known.itemsize, known.name) == (item_bytes(name), name)


@pytest.mark.parametrize("name", ["object", "float", "<U5", "f4,f4", "longdouble", ""])
def test_a_type_that_checkpoints_do_not_know_is_refused_by_name(name):
    with pytest.raises(ValueError, match=r"is unknown\. Accepted: bool, int8"):
        item_bytes(name)


def test_numbers_that_safetensors_lacks_are_bytes_along_one_more_axis():
    assert safetensors_view("complex128", (3, 2)) == ("U8", (3, 2, 16))
    assert safetensors_view("bfloat16", (3, 2)) == ("BF16", (3, 2))
