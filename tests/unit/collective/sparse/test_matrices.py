import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dist.collective.sparse import matrices
from jupyter_dist.errors import UsageError

DTYPES = ("bool", "int8", "uint64", "float32", "float64", "longdouble", "complex128")


def build(form="csr", style="array", dtype="float64", shape=(4, 3), places=((0, 2, 2), (1, 0, 0))):
    kind = getattr(scipy.sparse, f"coo_{style}")
    data = np.arange(1, len(places[0]) + 1).astype(dtype)
    return kind((data, places), shape=shape).asformat(form)


def travel(matrix, like=None):
    header = matrices.describe("send", matrix)
    words = np.array(header.words(), np.int64).tolist()
    packed = matrices.pack(matrix, header)
    assert packed.nbytes == header.nbytes
    return matrices.unpack(packed, matrices.header_of(words), matrix if like is None else like)


def assert_same(found, expected):
    assert type(found) is type(expected)
    assert (found.dtype, found.shape, found.nnz) == (expected.dtype, expected.shape, expected.nnz)
    for name in (
        ("data", "row", "col") if expected.format == "coo" else ("data", "indices", "indptr")
    ):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("form", matrices.FORMATS)
@pytest.mark.parametrize("style", ["array", "matrix"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_matrix_arrives_as_it_was(form, style, dtype):
    matrix = build(form, style, dtype)
    assert_same(travel(matrix), matrix)


@settings(derandomize=True)
@given(
    st.sampled_from(matrices.FORMATS),
    st.sampled_from(DTYPES),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.integers(0, 20),
    st.integers(0, 2**32 - 1),
)
def test_any_shape_and_number_of_nonzeros_arrives(form, dtype, shape, count, seed):
    rng = np.random.default_rng(seed)
    count = count if min(shape) else 0
    places = tuple(rng.integers(0, max(1, side), count) for side in shape)
    matrix = build(form, dtype=dtype, shape=shape, places=places)
    assert_same(travel(matrix), matrix)


def test_places_that_are_given_twice_stay_two():
    matrix = build("coo")
    assert travel(matrix).nnz == 3
    assert travel(matrix).toarray().tolist() == matrix.toarray().tolist()


def test_room_beyond_the_nonzeros_does_not_travel():
    matrix = build("csr")
    matrix.data = np.append(matrix.data, [9.0, 9.0])
    matrix.indices = np.append(matrix.indices, [0, 0])
    assert travel(matrix).data.tolist() == matrix.data[: matrix.nnz].tolist()


def test_long_indices_travel_as_they_are():
    matrix = build("coo", shape=(2**40, 2**33), places=((2**40 - 1, 1), (2**33 - 1, 0)))
    found = travel(matrix)
    assert found.row.tolist() == [2**40 - 1, 1]
    assert found.col.tolist() == [2**33 - 1, 0]


@pytest.mark.parametrize("form", matrices.FORMATS)
def test_a_matrix_comes_in_the_format_that_the_receiver_has(form):
    matrix = build("csr", "matrix")
    like = build(form, "array", "int8", (1, 1), ((), ()))
    found = travel(matrix, like)
    assert type(found) is type(like)
    assert found.dtype == "float64"
    np.testing.assert_array_equal(found.toarray(), matrix.toarray())


@pytest.mark.parametrize("form", matrices.FORMATS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_are_reduced_as_scipy_does(form, dtype):
    three = [build(form, dtype=dtype, places=((0, i, i), (1, 2, 2))) for i in range(3)]
    before = [each.copy() for each in three]
    total = matrices.combine(three, "sum")
    np.testing.assert_array_equal(total.toarray(), (three[0] + three[1] + three[2]).toarray())
    product = matrices.combine(three, "prod")
    expected = three[0].tocsr().multiply(three[1]).multiply(three[2])
    np.testing.assert_array_equal(product.toarray(), expected.toarray())
    for found in (total, product):
        assert (type(found), found.dtype) == (type(three[0]), dtype)
    for each, old in zip(three, before, strict=True):
        assert_same(each, old)


def test_the_sum_of_one_matrix_is_a_copy():
    matrix = build("csr")
    total = matrices.combine([matrix], "sum")
    total.data[:] = 0
    assert matrix.data.all()


@pytest.mark.parametrize("form", ["dia", "bsr", "lil", "dok"])
def test_other_formats_are_refused_with_the_next_step(form):
    with pytest.raises(UsageError, match=rf"format {form}.*x\.tocsr\(\)"):
        matrices.describe("send", build().asformat(form))


def test_what_is_no_matrix_is_refused_among_matrices():
    with pytest.raises(TypeError, match="ndarray"):
        matrices.describe("all_to_all", np.ones(3))


@pytest.mark.parametrize(
    ("given", "is_sparse"),
    [
        (build("csr"), True),
        (build("coo", "matrix"), True),
        ([build("csc"), build("csr")], True),
        ((build("csc"),), True),
        (build().todok(), True),
        (np.ones(3), False),
        ([np.ones(3)], False),
        ([], False),
        (3, False),
        (None, False),
        ("text", False),
    ],
)
def test_sparse_matrices_are_told_from_all_else(given, is_sparse):
    assert matrices.is_sparse(given) is is_sparse


def test_matrices_of_cupy_are_made_of_cupys_classes(monkeypatch):
    class csr_matrix:  # noqa: N801  (as CuPy calls it)
        __module__ = "cupyx.scipy.sparse._csr"

    module = type(sys)("cupyx.scipy.sparse")
    module.coo_matrix = object()
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", module)
    assert matrices.class_of(csr_matrix(), "coo") is module.coo_matrix
