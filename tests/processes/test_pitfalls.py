"""What goes wrong in SPMD programs: each is a clear error, not a wrong number and not a hang."""

import pytest

from tests.facts import assert_tells

from .listener import Listener
from .results import values

DIFFERENT = {
    "shape": ("comm.all_reduce(np.ones(3 if rank == 1 else 2))", "float64[3]", "float64[2]"),
    "rows of the last batch": (
        "comm.all_gather(np.ones((3 if rank == 1 else 4, 2)))",
        "float64[3,2]",
        "float64[4,2]",
    ),
    "dtype": ("comm.all_reduce(np.ones(4, 'f4' if rank == 1 else 'i4'))", "float32", "int32"),
    "order of axes": (
        "comm.all_reduce(np.ones((2, 3)).T if rank == 1 else np.ones((2, 3)))",
        "float64[3,2]",
        "float64[2,3]",
    ),
    "reduction": ("comm.all_reduce(1.0, 'max' if rank == 1 else 'sum')", "max", "sum"),
    "root": ("comm.reduce(np.ones(2), root=int(rank == 1))", "root=1", "root=0"),
    "operation": (
        "comm.all_gather(1) if rank == 1 else comm.all_reduce(1)",
        "all_gather(",
        "all_reduce(",
    ),
    "order of different calls": (
        (
            "a, b = np.ones(1), np.ones(2)\n"
            "for x in ((b, a) if rank == 1 else (a, b)):\n    comm.all_reduce(x)"
        ),
        "float64[2]",
        "float64[1]",
    ),
    "one leaf more": (
        (
            "for leaf in range(3 if rank == 1 else 2):\n    comm.broadcast(np.ones(2))\n"
            "comm.all_reduce(1)"
        ),
        "broadcast(",
        "all_reduce(",
    ),
}
TWO_LINES = """\
import numpy as np
for step in range(3 if rank == 1 else 4):
    comm.all_reduce(np.float32(rank + 1))
metric = comm.all_reduce(np.float32(100 * (rank + 1)))
"""
SWAPPED = """\
first, second = np.ones(1), np.full(1, 1000.0)
if rank == 1:
    second = comm.all_reduce(second)
    first = comm.all_reduce(first)
else:
    first = comm.all_reduce(first)
    second = comm.all_reduce(second)
"""


@pytest.fixture(autouse=True)
def numpy_on_all(four):
    four.run("import numpy as np")


def assert_all_failed_with(result, *words):
    """Every rank has an error of ours; those that name both calls say these words."""
    assert all(rank.error is not None for rank in result), [rank.status for rank in result]
    mismatches = [rank.error for rank in result if rank.error.ename == "CollectiveMismatch"]
    assert mismatches, [str(rank.error) for rank in result]
    for word in words:
        assert any(word in error.evalue for error in mismatches), str(mismatches[0])


@pytest.mark.parametrize("check", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("case", DIFFERENT)
def test_calls_that_differ_are_an_error_that_shows_both(four, within, case, check):
    code, *words = DIFFERENT[case]
    with within(8):
        result = four.run(code, label=5, check=check)
    assert_all_failed_with(result, *words, "In[5]:")
    assert values(four.run("int(comm.all_reduce(1))")) == ["4"] * 4


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_checked_mismatch_is_raised_on_all_ranks_and_names_the_odd_one(four, case):
    result = four.run(DIFFERENT[case][0], check=True)
    for rank in result:
        assert rank.error.ename == "CollectiveMismatch", str(rank.error)
        assert rank.error.evalue.startswith("rank 1 called "), rank.error.evalue
        assert "but ranks 0,2-3 called " in rank.error.evalue


def test_a_step_less_on_one_rank_is_named_at_once_when_checked(four, within):
    code = "for step in range(3 if rank == 1 else 4):\n    comm.all_reduce(np.ones(2))"
    with within(3):
        result = four.run(code, label=6, check=True)
    assert result[1].status == "ok"
    for rank in (0, 2, 3):
        assert result[rank].error.ename == "CollectiveMissed"
        assert_tells(result[rank].error.evalue, "rank 1 ", "all_reduce(float64[2], sum) #4")


@pytest.mark.slow
def test_a_step_less_on_one_rank_is_named_while_the_others_wait(four):
    code = "for step in range(3 if rank == 1 else 4):\n    comm.all_reduce(np.ones(2))"
    listener = Listener()
    result = four.run(code, timeout_s=12, label=6, watcher=listener)
    assert any("rank 1 finished" in note for note in listener.notes)
    assert [rank.status for rank in result] == ["timed_out", "ok", "timed_out", "timed_out"]


def test_an_evaluation_after_a_missing_step_is_an_error_when_checked(four):
    result = four.run(TWO_LINES, label=7, check=True)
    for rank in result:
        assert rank.error.ename == "CollectiveMismatch", str(rank.error)
        assert "In[7]:4" in rank.error.evalue
        assert "In[7]:3" in rank.error.evalue


@pytest.mark.slow
def test_an_evaluation_after_a_missing_step_warns_of_mixed_lines_without_a_check(four):
    result = four.run(TWO_LINES, label=7, timeout_s=8)
    said = "".join(rank.stderr for rank in result)
    assert_tells(said, "mixed up", "%%spmd --check")
    assert "In[7]:3" in said
    assert "In[7]:4" in said


def test_swapped_calls_of_one_shape_are_an_error_when_checked(four):
    result = four.run(SWAPPED, label=8, check=True)
    assert_all_failed_with(result, "In[8]:3", "In[8]:6")


def test_swapped_calls_of_one_shape_warn_without_a_check(four):
    result = four.run(SWAPPED, label=8)
    assert "mixed up" in "".join(rank.stderr for rank in result)


BRANCHES = """\
def meet():
    {call}
for step in range(9):
    if rank % 2:
        {call}
    else:
        meet()
"""


@pytest.mark.parametrize("call", ["comm.barrier()", "comm.all_reduce(np.ones(1))"])
def test_a_call_in_two_branches_warns_once_in_the_cell_at_the_line_that_made_it(four, call):
    result = four.run(BRANCHES.format(call=call), label=31)
    assert [rank.status for rank in result] == ["ok"] * 4
    told = {rank.stderr for rank in result} - {""}
    assert len(told) == 1, told
    (said,) = told
    assert said.count("RuntimeWarning") == 1
    assert said.splitlines()[1].strip() == call
    assert "In[31]:2" in said
    assert "In[31]:5" in said
    assert "transport.py" not in said
    assert ("results" in said) == ("all_reduce" in call)


def test_a_root_on_a_line_of_its_own_is_no_mistake(four):
    code = (
        "import numpy as np\nif rank == 0:\n    x = comm.broadcast(np.arange(3))\n"
        "else:\n    x = comm.broadcast(np.empty(3, int))\nx.tolist()"
    )
    for check in (False, True):
        result = four.run(code, check=check)
        assert values(result) == ["[0, 1, 2]"] * 4
        assert not any(rank.stderr for rank in result)


def test_a_call_under_if_rank_0_names_those_that_never_came(four, within):
    code = "if rank == 0:\n    print(comm.all_reduce(np.ones(2)))"
    with within(3):
        result = four.run(code, check=True)
    assert result[0].error.ename == "CollectiveMissed"
    assert "ranks 1-3" in result[0].error.evalue


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("comm.broadcast(np.ones(2), root=4 if rank == 1 else 0)", "root=4. Accepted: 0 to 3"),
        ("comm.all_reduce(np.ones(2), 'mean' if rank == 1 else 'sum')", "op='mean'. Accepted"),
        ("comm.all_reduce(np.ones(2), out=np.ones(3 if rank == 1 else 2))", "out of shape (3,)"),
        ("comm.all_reduce(np.ones(2), out=np.ones(2, 'f4' if rank == 1 else 'f8'))", "float32"),
        ("comm.all_reduce(np.ones(2), out=np.ones(4)[::2 if rank == 1 else 1][:2])", "contig"),
        ("comm.reduce_scatter(np.ones(3 if rank == 1 else 4))", "shape (4, …)"),
        ("comm.all_reduce(['a'] if rank == 1 else [1.0])", "Accepted: bool, integers"),
    ],
)
def test_an_argument_that_cannot_work_is_refused_on_that_rank_alone(four, code, problem):
    result = four.run(code)
    assert result[1].status == "raised"
    assert result[1].error.ename in {"UsageError", "TypeError"}
    assert problem in result[1].error.evalue
    # A root may be through before anybody looked at what it has sent.
    for rank in (2, 3) if "broadcast" in code else (0, 2, 3):
        assert result[rank].status == "peer_failed"
        assert "rank 1 raised" in result[rank].error.evalue


def test_numbers_arrive_exactly(four):
    code = (
        "big = np.int64(2**40) + rank\nfine = np.float64(1) / 3 + rank\n"
        "assert comm.all_gather(big).tolist() == [2**40 + r for r in range(4)]\n"
        "assert comm.all_gather(fine).tolist() == [1 / 3 + r for r in range(4)]\n"
        "assert comm.broadcast(big).dtype == 'i8'\n"
        "int(comm.all_reduce(np.int64(2**40)))"
    )
    assert values(four.run(code)) == [str(2**42)] * 4


def test_rows_in_fortran_order_are_rows(four):
    code = (
        "a = np.arange(6.0).reshape(2, 3)\n"
        "comm.all_reduce(np.asfortranarray(a) if rank == 1 else a).tolist()"
    )
    assert values(four.run(code)) == ["[[0.0, 4.0, 8.0], [12.0, 16.0, 20.0]]"] * 4
