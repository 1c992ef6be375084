import inspect
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse

from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.sparse.calls import WAYS, takes_sparse
from jupyter_dist.errors import UsageError

MATRIX = scipy.sparse.csr_array(np.eye(3))
ROOM = scipy.sparse.csr_array((1, 1))
"""Becomes what is received."""
CALLS = {
    "all_reduce": (MATRIX,),
    "broadcast": (MATRIX,),
    "reduce": (MATRIX,),
    "all_gather": (MATRIX,),
    "reduce_scatter": ([MATRIX],),
    "all_to_all": ([MATRIX],),
    "gather": (MATRIX,),
    "scatter": ([MATRIX],),
    "send": (MATRIX, 0),
    "recv": (ROOM, 0),
    "send_recv": (MATRIX, 0, ROOM, 0),
}


class Alone:
    """What sparse calls need of a communicator, of one rank."""

    rank, size = 0, 1

    def __init__(self):
        self.sent = []
        self.is_grouped = False

    @contextmanager
    def group(self):
        if self.is_grouped:
            raise UsageError("comm.group() is open already")
        self.is_grouped = True
        yield
        self.is_grouped = False

    def all_reduce(self, array, op="sum", out=None):
        return "dense"

    reduce = reduce_scatter = gather = scatter = all_to_all = all_reduce

    def all_gather(self, array, out=None):
        return array[None]

    def broadcast(self, array, root=0, out=None):
        return array

    def send(self, array, dest):
        self.sent.append(array)

    def recv(self, array_or_template, source):
        return self.sent.pop(0)

    def send_recv(self, send_array, dest, recv_array, source):
        return send_array


@takes_sparse
class Choosing(Alone):
    """The same, with sparse calls."""


def as_one(found):
    return found[0] if isinstance(found, list) else found


@pytest.mark.parametrize("name", CALLS)
def test_every_call_takes_sparse_matrices(name):
    comm = Choosing()
    if name == "recv":
        comm.send(MATRIX, 0)
    found = as_one(getattr(comm, name)(*CALLS[name]))
    if name == "send":
        found = comm.recv(ROOM, 0)
    assert type(found) is type(MATRIX)
    assert found is not MATRIX
    np.testing.assert_array_equal(found.toarray(), MATRIX.toarray())


@pytest.mark.parametrize("given", [np.ones(3), 3, [1, 2], None])
def test_all_else_goes_the_way_of_arrays(given):
    assert Choosing().all_reduce(given) == "dense"
    assert Choosing().all_reduce(array=given, op="max") == "dense"


def test_a_matrix_may_be_given_by_name():
    assert Choosing().all_reduce(op="sum", array=MATRIX).nnz == 3
    assert Choosing().reduce(root=0, array=MATRIX).nnz == 3


@pytest.mark.parametrize("name", WAYS)
def test_names_of_arguments_are_those_of_the_communicator(name):
    _self, *names = inspect.signature(getattr(HostCommunicator, name)).parameters
    first, way = WAYS[name]
    assert names[0] == first
    own = [name for name in names if name != "count"]
    assert list(inspect.signature(way).parameters)[1:] == own


@pytest.mark.parametrize("op", ["min", "max", "avg", "mean"])
def test_other_reductions_are_refused(op):
    with pytest.raises(UsageError, match="'sum', 'prod';"):
        Choosing().all_reduce(MATRIX, op)


@pytest.mark.parametrize("name", ["all_reduce", "broadcast", "reduce"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_an_out_becomes_the_result(name, form):
    out = scipy.sparse.random_array((5, 2), format=form)
    found = getattr(Choosing(), name)(MATRIX, out=out)
    assert found is out
    assert out.format == form
    np.testing.assert_array_equal(out.toarray(), np.eye(3))
    np.testing.assert_array_equal((out @ MATRIX).toarray(), np.eye(3))


@pytest.mark.parametrize("name", ["all_gather", "gather"])
def test_a_list_gets_the_results_or_its_matrices_become_them(name):
    empty, full = [], [scipy.sparse.coo_array((9, 9))]
    kept = full[0]
    for out in (empty, full):
        assert getattr(Choosing(), name)(MATRIX, out=out) is out
        np.testing.assert_array_equal(out[0].toarray(), np.eye(3))
    assert full[0] is kept


@pytest.mark.parametrize("out", [np.zeros((3, 3)), scipy.sparse.dok_array((3, 3)), [MATRIX]])
def test_an_out_that_cannot_become_the_result_is_refused(out):
    with pytest.raises(UsageError, match=r"^all_reduce .* out of"):
        Choosing().all_reduce(MATRIX, out=out)


@pytest.mark.parametrize("out", [(), [MATRIX, MATRIX], MATRIX, [np.zeros((3, 3))]])
def test_a_list_that_cannot_get_the_results_is_refused(out):
    with pytest.raises(UsageError, match=r"^all_gather .* out of"):
        Choosing().all_gather(MATRIX, out=out)


def test_a_product_of_matrices_takes_square_ones():
    wide = scipy.sparse.csr_matrix(np.ones((2, 3)))
    with pytest.raises(UsageError, match="csr_matrix"):
        Choosing().all_reduce(wide, "prod")
    assert Choosing().all_reduce(scipy.sparse.csr_array(wide), "prod").nnz == 6


def test_sparse_matrices_are_not_tiled():
    with pytest.raises(UsageError, match="vstack"):
        Choosing().all_gather(MATRIX, tiled=True)


@pytest.mark.parametrize("given", [MATRIX, np.ones(3)])
@pytest.mark.parametrize("name", CALLS)
def test_no_call_on_host_memory_takes_a_stream(name, given):
    with pytest.raises(UsageError, match=f"^{name} .*stream=3"):
        getattr(Choosing(), name)(given, stream=3)
    assert Choosing().all_reduce(np.ones(3), stream=None) == "dense"


@pytest.mark.parametrize("name", ["reduce_scatter", "all_to_all", "scatter"])
def test_there_must_be_one_matrix_for_each_rank(name):
    with pytest.raises(UsageError, match=rf"^{name} .* got 2\b"):
        getattr(Choosing(), name)([MATRIX, MATRIX])


@pytest.mark.parametrize("name", CALLS)
def test_inside_a_group_nothing_is_sent(name):
    comm = Choosing()
    with comm.group(), pytest.raises(UsageError, match=r"comm\.group\(\)"):
        getattr(comm, name)(*CALLS[name])
    assert not comm.sent
