"""On which stream sparse matrices are taken apart, sent and put together."""

import time

import numpy as np
import pytest
import scipy.sparse
from fakes.gpus import alone

from jupyter_dist.collective.sparse.calls import WAYS
from jupyter_dist.errors import UsageError

MATRIX = scipy.sparse.csr_array(np.eye(3))


@pytest.mark.parametrize("has_stream", [True, False])
def test_all_work_on_a_sparse_matrix_is_on_the_stream_of_the_call(has_stream, monkeypatch):
    with alone() as (comm, machine):
        cupy = machine.cupy
        x = cupy.asarray(np.zeros(4))
        usual = cupy.stream
        stream = cupy.cuda.Stream()
        used = []

        def reduce(_comm, _matrix, *_):
            used.append(cupy.stream)
            cupy.stream.put(lambda: time.sleep(0.05))
            return comm.all_reduce(cupy.ascontiguousarray(x))  # as what packs the matrix

        monkeypatch.setitem(WAYS, "all_reduce", ("array", reduce))
        if has_stream:
            comm.stream = stream
        usual.put(lambda: time.sleep(0.05))
        usual.put(lambda: x.host.fill(3))  # late, before the call
        found = comm.all_reduce(MATRIX)
        assert used == [stream if has_stream else usual]
        assert cupy.stream is usual
        np.testing.assert_array_equal(found.get(), np.full(4, 3.0))  # read on the usual stream


@pytest.mark.parametrize("captured", ["current", "user's"])
def test_no_stream_is_made_to_wait_while_it_is_captured(captured):
    with alone() as (comm, machine):
        comm.stream = stream = machine.cupy.cuda.Stream()
        current = machine.cupy.cuda.Stream()
        (current if captured == "current" else stream).is_capturing = True
        with current, pytest.raises(UsageError, match="captured"):
            comm.all_reduce(MATRIX)
        assert not machine.cupy.cuda.runtime._recorded
