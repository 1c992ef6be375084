"""What cupyx.distributed offers, one test for each row of docs/reference/collectives.md."""

import pytest

from .results import outcome


@pytest.fixture(autouse=True)
def numpy_on_all(four):
    four.run("import numpy as np")


def test_a_cell_has_its_communicator_without_rank_host_or_port(four):
    assert outcome(four, "comm.rank, comm.size, comm.kind") == [
        f"({r}, 4, 'ring')" for r in range(4)
    ]


def test_all_reduce_knows_sum_prod_min_max_and_avg(four):
    code = "[float(comm.all_reduce(rank + 1.0, op)) for op in ('sum', 'prod', 'min', 'max', 'avg')]"
    assert outcome(four, code) == ["[10.0, 24.0, 1.0, 4.0, 2.5]"] * 4


def test_an_out_of_another_size_or_type_is_refused(four):
    result = four.run("comm.all_reduce(np.ones(4), out=np.ones(2))")
    assert {rank.error.ename for rank in result} <= {"UsageError", "PeerFailed"}
    assert any("Accepted: shape (4,)" in rank.error.evalue for rank in result)


def test_reduce_needs_an_out_on_the_root_only(four):
    code = "out = np.empty(2) if rank == 1 else None\ncomm.reduce(np.full(2, rank), 1, out=None if out is None else out.astype(int))"
    assert outcome(four, code) == [None, "array([6, 6])", None, None]


def test_broadcast_gives_the_roots_array(four):
    assert outcome(four, "comm.broadcast(np.full(2, rank), root=3).tolist()") == ["[3, 3]"] * 4


def test_reduce_scatter_takes_its_count_from_the_array(four):
    code = "comm.reduce_scatter(np.arange(8).reshape(4, 2)).tolist()"
    assert outcome(four, code) == [str([8 * r, 8 * r + 4]) for r in range(4)]


def test_all_gather_takes_its_count_from_the_array(four):
    code = "comm.all_gather(np.array([rank, -rank])).tolist()"
    assert outcome(four, code) == [str([[r, -r] for r in range(4)])] * 4


def test_a_count_takes_so_many_elements_of_flat_buffers(four):
    code = (
        "room, row = np.full(9, -1), np.full(3, -1)\n"
        "comm.all_gather(np.array([rank, -rank, 7]), room, count=2)\n"
        "comm.reduce_scatter(np.arange(10), out=row, count=2)\n"
        "room.tolist(), row.tolist()"
    )
    gathered = [number for r in range(4) for number in (r, -r)]
    assert outcome(four, code) == [str(([*gathered, -1], [8 * r, 8 * r + 4, -1])) for r in range(4)]


def test_an_out_may_be_flat_or_in_the_order_of_fortran(four):
    code = (
        "x = np.asfortranarray(np.arange(6).reshape(2, 3))\n"
        "flat, turned = np.empty(24, int), np.empty((2, 3), int, order='F')\n"
        "comm.all_gather(x, out=flat)\ncomm.all_reduce(x, out=turned)\n"
        "bool((flat.reshape(4, 2, 3) == x).all()), bool((turned == 4 * x).all())"
    )
    assert outcome(four, code) == ["(True, True)"] * 4


def test_a_stream_is_for_devices_only(four):
    code = "comm.all_reduce(1, stream=None)\ncomm.all_reduce(1, stream=1)"
    assert {rank.error.ename for rank in four.run(code)} <= {"UsageError", "PeerFailed"}
    code = "comm.stream = None\ncomm.stream = 1"
    assert {rank.error.ename for rank in four.run(code)} <= {"UsageError", "PeerFailed"}


def test_gather_needs_room_on_the_root_only(four):
    code = "got = comm.gather(np.array([rank]), root=2)\nNone if got is None else got.tolist()"
    assert outcome(four, code) == [None, None, "[[0], [1], [2], [3]]", None]


def test_scatter_needs_the_rows_on_the_root_only(four):
    code = (
        "rows = np.arange(8.0).reshape(4, 2) if rank == 0 else None\n"
        "comm.scatter(rows, out=np.empty(2)).tolist()"
    )
    assert outcome(four, code) == [str([2.0 * r, 2.0 * r + 1]) for r in range(4)]


def test_all_to_all_transposes_ranks_and_rows(four):
    code = "comm.all_to_all(10 * rank + np.arange(4)).tolist()"
    assert outcome(four, code) == [str([10 * s + r for s in range(4)]) for r in range(4)]


def test_send_and_recv_pass_an_array_on(four):
    code = (
        "if rank == 0:\n    comm.send(np.arange(3), dest=2)\n"
        "comm.recv(np.empty(3, int), source=0).tolist() if rank == 2 else None"
    )
    assert outcome(four, code)[2] == "[0, 1, 2]"


def test_send_recv_may_have_two_peers(four):
    code = "int(comm.send_recv(np.array(rank), (rank + 1) % 4, np.array(0), (rank - 1) % 4))"
    assert outcome(four, code) == [str((r - 1) % 4) for r in range(4)]


def test_hundreds_of_barriers_follow_each_other(four):
    code = (
        "for turn in range(300):\n    comm.barrier()\nfor turn in range(50):\n    comm.barrier('b')"
    )
    assert four.run(code, timeout_s=90).ok


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint16", "uint32", "float16", "complex64"])
def test_types_that_cupyx_lacks_are_reduced(four, dtype):
    code = f"x = comm.all_reduce(np.ones(3, {dtype!r}))\nstr(x.dtype), int(x[0].real)"
    assert outcome(four, code) == [str((dtype, 1 if dtype == "bool" else 4))] * 4


def test_sparse_matrices_are_summed(four):
    pytest.importorskip("scipy")
    code = (
        "import scipy.sparse as sp\n"
        "m = sp.csr_matrix(([1.0 + rank], ([0], [rank])), shape=(2, 4))\n"
        "s = comm.all_reduce(m)\ns.format, s.toarray().tolist()"
    )
    assert outcome(four, code) == ["('csr', [[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]])"] * 4


def test_sparse_results_go_into_matrices_and_lists(four):
    pytest.importorskip("scipy")
    code = (
        "import scipy.sparse as sp\n"
        "m, out, outs = sp.csr_matrix(np.diag([1.0 + rank, 2.0])), sp.coo_matrix((1, 1)), []\n"
        "comm.all_reduce(m, out=out)\ncomm.all_gather(m, out=outs)\n"
        "out.format, out.toarray().tolist(), [float(one[0, 0]) for one in outs]"
    )
    expected = "('coo', [[10.0, 0.0], [0.0, 8.0]], [1.0, 2.0, 3.0, 4.0])"
    assert outcome(four, code) == [expected] * 4


def test_products_of_sparse_matrices_are_what_their_class_multiplies(four):
    pytest.importorskip("scipy")
    code = (
        "import scipy.sparse as sp\n"
        "x = np.array([[1.0, rank], [0, 1]])\n"
        "[comm.all_reduce(kind(x), 'prod').toarray().tolist()"
        " for kind in (sp.csr_matrix, sp.csr_array)]"
    )
    expected = [[[1.0, 6.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    assert outcome(four, code) == [str(expected)] * 4


def test_calls_in_a_group_begin_together(four):
    code = (
        "mine, theirs = np.array([rank]), np.zeros((4, 1), int)\n"
        "with comm.group():\n"
        "    for peer in range(4):\n"
        "        if peer != rank:\n"
        "            comm.recv(theirs[peer], peer)\n"
        "            comm.send(mine, peer)\n"
        "theirs.ravel().tolist()"
    )
    assert outcome(four, code) == [str([0 if r == p else p for p in range(4)]) for r in range(4)]


def test_a_split_makes_communicators_of_fewer_ranks(four):
    code = (
        "half = comm.split(rank % 2, key=-rank)\n"
        "half.rank, half.size, int(half.all_reduce(rank)), half.all_gather_object(rank)"
    )
    assert outcome(four, code) == [
        "(1, 2, 2, [2, 0])",
        "(1, 2, 4, [3, 1])",
        "(0, 2, 2, [2, 0])",
        "(0, 2, 4, [3, 1])",
    ]


def test_what_was_split_off_and_dropped_leaves_no_thread_and_no_socket(four):
    code = (
        "import os, threading\n"
        "def split_and_drop(times):\n"
        "    for turn in range(times):\n"
        "        half = comm.split(rank % 2)\n"
        "        quarter = half.split(0)\n"
        "        del half\n"
        "        assert int(quarter.all_reduce(1)) == 2\n"
        "    comm.barrier()\n"
        "    return threading.active_count(), len(os.listdir('/proc/self/fd'))\n"
        "before = split_and_drop(2)\n"
        "after = split_and_drop(10)\n"
        "after == before or (before, after)"
    )
    assert outcome(four, code) == ["True"] * 4


def test_a_call_on_what_another_rank_has_dropped_says_so(four):
    code = (
        "child = comm.split(0)\nchild.barrier()\n"
        "if rank == 2:\n    del child\n"
        "comm.split(None)\n"  # all members meet, and let go of what they have dropped
        "if rank != 2:\n    child.all_reduce(np.ones(3))\n"
        "comm.barrier('end')"
    )
    result = four.run(code)
    assert {rank.error.ename for rank in result} == {"PeerFailed"}
    told = [rank.error.evalue for rank in result if rank.rank != 2]
    assert any("rank 2" in text and "dropped" in text for text in told), told


def test_an_abort_reaches_what_was_split_off_of_what_was_dropped(four, within):
    code = (
        "half = comm.split(0)\nquarter = half.split(0)\ndel half\n"
        "if rank == 3:\n    1 / 0\n"
        "quarter.barrier()"
    )
    with within(10):
        result = four.run(code)
    assert [rank.status for rank in result] == ["peer_failed"] * 3 + ["raised"]


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named_after_the_deadline(four, within):
    code = (
        "import time\ncomm.timeout_s = 3\ncomm.barrier(timeout_s=60)\n"
        "if rank != 2:\n    comm.barrier(timeout_s=3)\ntime.sleep(6)"
    )
    try:
        with within(10):
            result = four.run(code)
    finally:
        four.run("comm.timeout_s = 1800.0")
    assert "rank 2" in result[0].error.evalue
