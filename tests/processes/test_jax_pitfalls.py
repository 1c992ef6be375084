"""What JAX's guide warns of: under --check an error that names ranks and line, never a number.

Without a check the collectives of CPUs mix up what they get, or end the process; what hangs is
named, and one interrupt ends it.
"""

import pytest

from jupyter_dist.views.outputs.ansi import strip_ansi
from tests.matrix import only

from .jax_cells import AFRESH, DEFINE, WARM
from .listener import Listener
from .results import values

pytest.importorskip("jax", reason="JAX is not installed")
MORE = """
from jax.experimental import multihost_utils
mesh = Mesh(np.array(jax.devices()), ('i',))
spread, same = NamedSharding(mesh, P('i')), NamedSharding(mesh, P())

def over_all(call):
    return jax.jit(jax.shard_map(call, mesh=mesh, in_specs=P('i'), out_specs=P()))
"""
ROWS = """\
rows = np.ones((3 if rank == 1 else 4, 2), np.float32)
whole = jax.make_array_from_process_local_data(spread, rows)
read(jax.jit(lambda x: x.sum(0), out_shardings=same)(whole))
"""
SWAPPED = """\
first, second = give(1), give(1000, columns={columns})
if rank == 1:
    second = read(psum(second))
    first = read(psum(first))
else:
    first = read(psum(first))
    second = read(psum(second))
"""
A_STEP_LESS = """\
for step in range(3 if rank == 1 else 4):
    read(psum(give(rank + 1)))
"""
DIFFERENT = {
    "shape": ("read(psum(give(1, columns=3 if rank == 1 else 2)))", "float32[4,3]", "float32[4,2]"),
    "rows of the last batch": (ROWS, "float32[", "In[5]:3"),
    "shape in process_allgather": (
        "multihost_utils.process_allgather(np.ones(5 if rank == 1 else 3))",
        "float32[4,5]",
        "float32[4,3]",
    ),
    "shape in broadcast_one_to_all": (
        "multihost_utils.broadcast_one_to_all(np.ones(5 if rank == 1 else 3))",
        "float32[4,5]",
        "float32[4,3]",
    ),
    "tree in broadcast_one_to_all": (
        "multihost_utils.broadcast_one_to_all([np.ones(3)] * (2 if rank == 1 else 1))",
        "float32[4,3], float32[4,3]",
        "In[5]:1",
    ),
    "type": (
        "multihost_utils.process_allgather(np.ones(4, 'f4' if rank == 1 else 'i4'))",
        "float32[4,4]",
        "int32[4,4]",
    ),
    "reduction": (
        (
            "reduce = jax.lax.pmax if rank == 1 else jax.lax.psum\n"
            "read(over_all(lambda x: reduce(x, 'i'))(give(rank)))"
        ),
        "another program",
        "In[5]:2",
    ),
    "constant of a rank": (
        "read(over_all(lambda x: jax.lax.psum(x * (0.5 + rank // 3), 'i'))(give(1)))",
        "another program",
        "In[5]:1",
    ),
    "large constant of a rank": (
        (
            "table = np.full((64, 2), 1.0 + rank // 3, np.float32)\n"
            "read(over_all(lambda x: jax.lax.psum(x + table.sum(0), 'i'))(give(1)))"
        ),
        "another program",
        "In[5]:2",
    ),
    "order": (SWAPPED.format(columns=2), "In[5]:3", "In[5]:6"),
    "order of different shapes": (SWAPPED.format(columns=200_000), "float32[4,200000]", "In[5]:"),
    "a step less, then an evaluation": (
        A_STEP_LESS + "read(psum(give(100 * (rank + 1))))",
        "In[5]:2",
        "In[5]:3",
    ),
}
ALONE = {
    "a step less": (A_STEP_LESS, (0, 2, 3), "rank 1"),
    "under if rank 0": (
        "if jax.process_index() == 0:\n    print(read(psum(give(1))))",
        (0,),
        "ranks 1-3",
    ),
    "hidden in device_put": (
        (
            "whole = give(1)\n"
            "if jax.process_index() == 0:\n    print(read(jax.device_put(whole, same)))"
        ),
        (0,),
        "ranks 1-3",
    ),
}


@pytest.fixture
def four_with_jax(four):
    """Four ranks that have formed JAX, whatever a test before has done to it."""
    assert values(four.run(DEFINE + MORE + WARM)) == ["10.0"] * 4
    return four


@pytest.mark.parametrize("case", only(["shape"], DIFFERENT))
def test_programs_that_differ_are_an_error_on_all_ranks_when_checked(four_with_jax, within, case):
    code, *words = DIFFERENT[case]
    with within(10):
        result = four_with_jax.run(code, label=5, check=True)
    assert {rank.status for rank in result} <= {"raised", "peer_failed"}
    # One that comes late may find that the others have failed already.
    heard = [rank for rank in result if rank.status == "raised"]
    assert heard
    for rank in heard:
        assert rank.error.ename == "CollectiveMismatch", str(rank.error)
        for word in words:
            assert word in rank.error.evalue, rank.error.evalue
    # Nothing was launched that differed, so the mesh of before is still good.
    assert values(four_with_jax.run(WARM)) == ["10.0"] * 4


@pytest.mark.parametrize("case", ALONE)
def test_ranks_that_never_come_are_named_when_checked(four_with_jax, within, case):
    code, waiting, absent = ALONE[case]
    with within(10):
        result = four_with_jax.run(code, label=5, check=True)
    for rank in result:
        if rank.rank in waiting:
            assert rank.error.ename == "CollectiveMissed", str(rank.error)
            assert absent in rank.error.evalue
        else:
            assert rank.status == "ok"
    assert values(four_with_jax.run(WARM)) == ["10.0"] * 4


@pytest.mark.slow
@pytest.mark.parametrize("case", only(list(ALONE)[:1], ALONE, at_night=ALONE))
def test_ranks_that_never_come_are_named_without_a_check_and_an_interrupt_ends_it(
    four_with_jax, in_background, case
):
    code, waiting, absent = ALONE[case]
    listener = Listener()
    running = in_background(four_with_jax.run, code, label=5, watcher=listener)
    listener.wait_for_note("In[5]:", within_s=10)
    note = next(note for note in listener.notes if "In[5]:" in note)
    assert "of JAX" in note
    assert f"{absent} finished" in note
    four_with_jax.interrupt()
    result = running.result(15)
    assert {result[rank].status for rank in waiting} == {"interrupted"}
    assert values(four_with_jax.run(AFRESH)) == ["10.0"] * 4


def test_equal_programs_pass_the_check_with_right_numbers(four_with_jax):
    code = (
        "total = [read(psum(give(rank + step))) for step in range(3)]\n"
        "gathered = multihost_utils.process_allgather(np.float32(rank)).tolist()\n"
        "put = read(jax.device_put(np.ones((4, 2), np.float32), same))\n"
        "total, gathered, put"
    )
    for check in (False, True):
        result = four_with_jax.run(code, check=check)
        assert values(result) == ["([6.0, 10.0, 14.0], [0.0, 1.0, 2.0, 3.0], 1.0)"] * 4


def test_the_source_of_a_broadcast_may_stand_on_a_line_of_its_own(four_with_jax):
    code = (
        "if rank == 0:\n    got = multihost_utils.broadcast_one_to_all(np.arange(3.0))\n"
        "else:\n    got = multihost_utils.broadcast_one_to_all(np.zeros(3))\ngot.tolist()"
    )
    assert values(four_with_jax.run(code, check=True)) == ["[0.0, 1.0, 2.0]"] * 4


def test_what_was_compiled_before_the_check_is_compared_too(four_with_jax):
    four_with_jax.run("for _ in range(3):\n    psum(give(1))")
    result = four_with_jax.run("if rank != 1:\n    psum(give(1))", check=True)
    assert result[1].status == "ok"
    # One that comes late may find that the others have failed already.
    assert {result[rank].status for rank in (0, 2, 3)} <= {"raised", "peer_failed"}
    assert "rank 1 finished" in " ".join(str(rank.error) for rank in result)


def test_the_psum_of_a_failed_cell_never_meets_that_of_the_next_one(four_with_jax):
    """In plain JAX both print 51, a number that neither cell has asked for."""
    first = four_with_jax.run("if rank == 1:\n    raise ValueError('bug')\nread(psum(give(1)))")
    assert [rank.status for rank in first] == ["peer_failed", "raised"] + ["peer_failed"] * 2
    assert values(four_with_jax.run(AFRESH.replace("rank + 1", "50"))) == ["200.0"] * 4


def test_different_values_in_device_put_are_an_error_of_jax_itself(four_with_jax):
    result = four_with_jax.run("jax.device_put(np.full(3, rank, np.float32), same)")
    # Before JAX 0.8 rank 0, whose value the others compare with theirs, found nothing amiss.
    assert [result[rank].error.ename for rank in (1, 2, 3)] == ["AssertionError"] * 3
    assert values(four_with_jax.run(WARM)) == ["10.0"] * 4


NAMES_OF_CELLS = {
    "an error in a callback": (
        (
            "def work(x):\n    1/0\n"
            "jax.jit(lambda x: jax.pure_callback(work, x, x))(1.0).block_until_ready()"
        ),
        ("In[{n}]:2, in work", "In[{n}]:3, in <module>"),
    ),
    "a rule of a derivative": (
        (
            "@jax.custom_vjp\ndef f(x):\n    return x\n"
            "f.defvjp(lambda x: (x, None), lambda _, g: (g, g))\njax.grad(f)(1.0)"
        ),
        ("Cell In[{n}], line 5",) * 2,
    ),
    "a value that has left its program": (
        "kept = []\njax.jit(lambda x: kept.append(x * 2))(1.0)\nkept[0] + 1",
        ("In[{n}]:2", "Cell In[{n}], line 3"),
    ),
    "a program that is printed": (
        "print(jax.make_jaxpr(lambda x: x + 1)(1.0).pretty_print(source_info=True))",
        ("In[{n}]:1",),
    ),
}


@pytest.mark.parametrize("case", only(list(NAMES_OF_CELLS)[:2], NAMES_OF_CELLS))
def test_what_jax_says_of_cells_begins_with_their_lines(four_with_jax, case):
    code, expected = NAMES_OF_CELLS[case]
    number = 60 + list(NAMES_OF_CELLS).index(case)
    (result,) = four_with_jax.run(code, ranks=0, label=number)
    error = result.error
    trace = strip_ansi("\n".join((error.evalue, *error.traceback))) if error else ""
    said = result.stdout + trace
    found = [said.count(word.format(n=number)) for word in expected]
    assert all(count >= expected.count(word) for word, count in zip(expected, found, strict=True))
    assert f"In_{number}_" not in said + result.stderr
    assert "/engine/" not in said + result.stderr, said
