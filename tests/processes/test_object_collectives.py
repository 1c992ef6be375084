"""Ranks of real clusters exchange objects over the control channel, or are told why not."""

import ast
import signal

import pytest

from tests.facts import assert_tells
from tests.matrix import only
from tests.patience import let_pass

from .conftest import SharedCluster, unharmed
from .leftovers import engines_of, wait_until
from .listener import begin
from .results import errors, statuses, values


def assert_meets(cluster, ranks=None):
    """The next cell meets, on all or on some ranks."""
    chosen = range(cluster.world_size) if ranks is None else ranks
    result = cluster.run("comm.all_gather_object(rank)", ranks=ranks)
    assert values(result) == [str(list(chosen))] * len(chosen)


def run_until_here(cluster, in_background, code):
    """Run a cell that says `here` first, and wait until all have said it."""
    whole = f"import os, signal, time\nprint('here')\n{code}"
    return begin(in_background, cluster, whole)


@pytest.fixture(scope="module")
def shared_without(tmp_path_factory):
    """The cluster of this module that has no communicator."""
    shared = SharedCluster(tmp_path_factory.mktemp("without"), comm="none")
    yield shared
    shared.close()


@pytest.fixture(params=only(["shared"], ["shared", "shared_without"]), ids=["auto", "none"])
def cluster(request):
    """Four ranks with a communicator, and four without."""
    yield from unharmed(request.getfixturevalue(request.param))


# --- what works ------------------------------------------------------------------------------


def test_objects_are_exchanged_in_every_way(cluster):
    code = (
        "found = [\n"
        "    comm.broadcast_object({'from': rank}, root=2),\n"
        "    comm.all_gather_object('x' * rank),\n"
        "    comm.gather_object((rank, None), root=1),\n"
        "    comm.scatter_object([10, 11, 12, 13] if rank == 3 else None, root=3),\n"
        "    comm.barrier('epoch 1'),\n"
        "    comm.assert_equal({'w': [1, 2.5, 'a']}, 'settings'),\n"
        "]\n"
        "str(found)"
    )
    pairs = [(rank, None) for rank in range(4)]
    assert [ast.literal_eval(ast.literal_eval(value)) for value in values(cluster.run(code))] == [
        [{"from": 2}, ["", "x", "xx", "xxx"], pairs if k == 1 else None, 10 + k, None, None]
        for k in range(4)
    ]


def test_some_ranks_of_a_cell_do_without_the_others(cluster):
    code = (
        "if rank in (0, 3):\n"
        "    both = comm.all_gather_object(rank, ranks=[0, 3])\n"
        "    comm.barrier(ranks=[0, 3])\n"
        "else:\n"
        "    both = comm.broadcast_object(rank, root=2, ranks=(1, 2))\n"
        "both"
    )
    assert values(cluster.run(code)) == ["[0, 3]", "2", "2", "[0, 3]"]


def test_a_cell_on_some_ranks_meets_with_these(cluster):
    code = "comm.all_gather_object(rank), comm.scatter_object('ab' if rank == 1 else None, root=1)"
    result = cluster.run(code, ranks="1,3")
    assert values(result) == ["([1, 3], 'a')", "([1, 3], 'b')"]
    result = cluster.run("comm.all_gather_object(rank, ranks=[1, 2])", ranks="1,3")
    first = next(rank for rank in result if rank.status == "raised")  # the other may be released
    assert first.error.ename == "UsageError"
    assert_tells(str(first.error), "rank 2", "ranks 1,3 of 4")
    assert_meets(cluster)


def test_arrays_arrive_as_they_were_and_can_be_written(four):
    code = (
        "import numpy as np\n"
        "array = np.arange(300_000, dtype=np.float32).reshape(3, -1) + rank\n"
        "found = comm.all_gather_object({'array': array, 'nan': float('nan')})\n"
        "for k, one in enumerate(found):\n"
        "    assert one['array'].dtype == np.float32 and one['array'].shape == (3, 100_000)\n"
        "    assert (one['array'] - array == k - rank).all()\n"
        "    one['array'][:] = 9\n"
        "float(array[0, 0])"
    )
    assert values(four.run(code)) == ["0.0", "1.0", "2.0", "3.0"]


def test_what_a_cell_defines_travels(four):
    code = (
        "class Settings:\n"
        "    def __init__(self, rate): self.rate = rate\n"
        "settings = comm.broadcast_object(Settings(0.1) if rank == 0 else None)\n"
        "scale = comm.broadcast_object((lambda x: x * settings.rate) if rank == 0 else None)\n"
        "comm.assert_equal(settings)\n"
        "scale(10)"
    )
    assert values(four.run(code)) == ["1.0"] * 4


def test_many_calls_in_a_row_do_not_mix(four):
    code = "[sum(comm.all_gather_object(rank + k)) for k in range(100)] == [6 + 4 * k for k in range(100)]"
    assert values(four.run(code)) == ["True"] * 4


def test_array_and_object_collectives_take_turns(four):
    code = (
        "import numpy as np\n"
        "total = 0\n"
        "for k in range(10):\n"
        "    total += comm.all_reduce(np.ones(3)).sum()\n"
        "    total += len(comm.all_gather_object(k))\n"
        "total"
    )
    assert all("160" in value for value in values(four.run(code)))


def test_a_cell_that_meets_all_the_time_prints_all_the_same(four, in_background, tmp_path):
    go = tmp_path / "go"
    code = f"while comm.broadcast_object(not os.path.exists({str(go)!r})): comm.barrier('turn')"
    running = begin(in_background, four, f"import os\nprint('here')\n{code}")
    assert not running.done()
    go.touch()
    assert running.result(10).ok


# --- who is missing --------------------------------------------------------------------------


def test_a_missing_rank_is_named_after_the_time_out(cluster, within):
    code = "comm.all_gather_object(0)\nif rank == 2: time.sleep(6)\ncomm.all_gather_object(rank, timeout_s=2.5)"
    with within(8):
        result = cluster.run(f"import time\n{code}", label=4)
    assert [result[k].error.ename for k in (0, 1, 3)] == ["CollectiveTimeout"] * 3
    assert_tells(errors(result)[0], "rank 2 ", "all_gather_object() #2 ", " 2.5 s", "timeout_s")
    assert result[2].status == "peer_failed"
    assert_meets(cluster)


@pytest.mark.slow
def test_who_comes_after_the_time_out_is_told_the_same(four):
    code = (
        "import time\n"
        "comm.barrier()\n"
        "if rank == 2: time.sleep(6)\n"
        "try: comm.all_gather_object(rank, timeout_s=2.5)\n"
        "except CollectiveTimeout as error: print('rank 2 ' in str(error))\n"
        "comm.all_gather_object(rank)"
    )
    result = four.run(f"from jupyter_dist.errors import CollectiveTimeout\n{code}")
    assert values(result) == ["[0, 1, 2, 3]"] * 4
    assert {rank.stdout for rank in result} == {"True\n"}


def test_a_rank_that_finished_the_cell_is_named_at_once(cluster, within):
    with within(1):
        result = cluster.run("if rank != 1: comm.barrier('end')")
    assert statuses(result) == ["raised", "ok", "raised", "raised"]
    for k in (0, 2, 3):
        assert result[k].error.ename == "CollectiveMissed"
        assert_tells(str(result[k].error), "rank 1 finished", "barrier('end') #1")
    assert_meets(cluster)


def test_different_calls_are_told_with_their_lines(cluster, within):
    code = "if rank == 3:\n    comm.gather_object(1)\nelse:\n    comm.all_gather_object(1)"
    with within(1):
        result = cluster.run(code, label=8)
    mismatch = next(text for text in errors(result) if text.startswith("CollectiveMismatch"))
    assert "rank 3 called gather_object(root=0) #1 at In[8]:2" in mismatch
    assert "called all_gather_object() #1 at In[8]:4" in mismatch
    assert_meets(cluster)


def test_a_cell_that_catches_what_failed_leaves_ranks_in_step(four):
    code = (
        "from jupyter_dist.errors import CollectiveMissed\n"
        "try:\n"
        "    if rank == 0: comm.all_gather_object(1)\n"
        "except CollectiveMissed: print('caught')"
    )
    for _ in range(2):
        result = four.run(code)
        assert statuses(result) == ["ok"] * 4
        assert result[0].stdout == "caught\n"
    assert_meets(four)


# --- ranks that fail, end, are interrupted ----------------------------------------------------


def test_a_rank_that_raises_releases_the_others(cluster, within):
    code = "if rank == 1: raise ValueError('bad batch')\ncomm.broadcast_object(1, timeout_s=30)"
    with within(1.5):
        result = cluster.run(code)
    assert statuses(result) == ["peer_failed", "raised", "peer_failed", "peer_failed"]
    for k in (0, 2, 3):
        assert "rank 1 raised ValueError: bad batch" in str(result[k].error)
    with pytest.raises(Exception, match=r"rank 1: ValueError: bad batch \(the 3 other"):
        result.raise_first()
    assert_meets(cluster)


def test_a_root_with_too_few_objects_releases_the_others(four, within):
    with within(1.5):
        result = four.run("comm.scatter_object([1, 2] if rank == 0 else None)", label=2)
    assert statuses(result) == ["raised", "peer_failed", "peer_failed", "peer_failed"]
    assert "got 2 objects for 4 ranks" in str(result[0].error)
    text = "\n".join(result[0].error.traceback)
    assert "jupyter_dist" not in text, "frames of ours do not belong into a user's traceback"
    assert_meets(four)


def test_an_object_that_cannot_be_sent_releases_the_others(four, within):
    with within(1.5):
        result = four.run(
            "import threading\ncomm.all_gather_object(threading.Lock() if rank == 2 else 1)"
        )
    assert result[2].error.ename == "TransferError"
    assert "lock" in str(result[2].error)
    assert statuses(result) == ["peer_failed", "peer_failed", "raised", "peer_failed"]
    assert_meets(four)


ODD = """
class Odd:
    def __reduce__(self): return eval, ("__import__('sys').exit(1)",)
class OddToPack:
    def __reduce__(self): raise SystemExit(1)
class OddToShow:
    def __repr__(self): raise SystemExit("in repr")
    __str__ = __eq__ = __reduce__ = __repr__
kept = rank
"""


@pytest.mark.parametrize("call", ["all_gather_object", "broadcast_object", "assert_equal"])
def test_an_object_that_ends_the_interpreter_is_an_error_of_the_collective(four, call):
    assert four.run(ODD).ok
    packing = four.run(f"comm.{call}(OddToPack() if rank == 0 else 1)", timeout_s=30)
    assert packing[0].status == "raised"
    assert set(statuses(packing)) <= {"raised", "peer_failed"}
    rebuilding = four.run(f"comm.{call}(Odd())", timeout_s=30)
    if call != "assert_equal":
        assert "TransferError" in {rank.error.ename for rank in rebuilding if rank.error}
    assert set(statuses(rebuilding)) <= {"ok", "raised", "peer_failed"}
    showing = four.run(f"comm.{call}(OddToShow())", timeout_s=30)
    assert "raised" in statuses(showing)
    assert values(four.run("kept")) == ["0", "1", "2", "3"]
    assert_meets(four)


def test_an_object_that_cannot_be_rebuilt_is_told_with_its_rank(four):
    code = (
        "import os\n"
        "here = os.getpid() if rank == 2 else 0\n"
        "def rebuild(pid):\n"
        "    import os\n"
        "    if os.getpid() != pid: raise OSError('homesick')\n"
        "class Homesick:\n"
        "    def __reduce__(self): return rebuild, (here,)\n"
        "comm.gather_object(Homesick() if rank == 2 else rank, root=1)"
    )
    result = four.run(code)
    assert result[1].error.ename == "TransferError"
    assert_tells(str(result[1].error), "rank 2", "homesick")
    assert_meets(four)


def test_more_than_the_coordinator_should_carry_is_refused_at_once(four, within):
    code = "import numpy as np\ncomm.broadcast_object(np.zeros(90 << 17) if rank == 0 else None)"
    with within(5):
        result = four.run(code)
    assert result[0].error.ename == "UsageError"
    text = str(result[0].error)
    assert "broadcast_object(root=0) #1 would send 270 MiB" in text
    assert "Accepted: 256 MiB" in text
    assert "comm.broadcast" in text
    assert statuses(result) == ["raised", "peer_failed", "peer_failed", "peer_failed"]
    assert_meets(four)


def test_more_than_the_coordinator_should_carry_in_sum_is_refused_on_all(four, within):
    code = "import numpy as np\ncomm.gather_object(np.zeros(90 << 17))"
    with within(20):
        result = four.run(code)
    first = next(rank for rank in result if rank.status == "raised")  # others may be released
    assert first.error.ename == "UsageError"
    assert "gather_object(root=0) #1 would send 270 MiB" in str(first.error)
    assert {rank.status for rank in result} <= {"raised", "peer_failed"}
    assert_meets(four)


@pytest.mark.parametrize("comm", ["auto", "none"])
def test_a_killed_rank_releases_the_others_within_a_second(start, in_background, within, comm):
    cluster = start("localhost:4", comm=comm)
    cluster.run("kept = f'kept {rank}'")
    running = run_until_here(
        cluster, in_background, "if rank == 2: time.sleep(60)\ncomm.all_gather_object(rank)"
    )
    let_pass(0.2)  # so that the others wait
    with within(1):
        engines_of(cluster)[2].send_signal(signal.SIGKILL)
        result = running.result(10)
    assert statuses(result) == ["peer_failed", "peer_failed", "lost", "peer_failed"]
    assert all(result[k].error.peer_rank == 2 for k in (0, 1, 3))
    assert "rank 2 is lost" in str(result[0].error)
    assert values(cluster.run("kept", ranks="0-1,3")) == ["'kept 0'", "'kept 1'", "'kept 3'"]
    for _ in range(2):
        assert_meets(cluster, [0, 1, 3])
    failing = cluster.run("if rank == 1: 1/0\ncomm.barrier('x')", ranks="0-1,3")
    assert statuses(failing) == ["peer_failed", "raised", "peer_failed"]
    assert_meets(cluster, [0, 1, 3])


def test_an_interrupt_ends_the_wait_at_once_and_the_next_cell_works(cluster, in_background, within):
    cluster.run("kept = rank")
    running = run_until_here(
        cluster, in_background, "if rank == 1: time.sleep(60)\ncomm.broadcast_object(1)"
    )
    let_pass(0.2)  # so that the others wait
    with within(1):
        assert cluster.interrupt() == (0, 1, 2, 3)
        result = running.result(10)
    assert statuses(result) == ["interrupted"] * 4
    assert values(cluster.run("kept")) == ["0", "1", "2", "3"]
    assert_meets(cluster)


def test_a_rank_interrupted_alone_is_named_to_the_others(four, in_background, within):
    code = (
        "try:\n"
        "    comm.all_gather_object(1, ranks=[0, 1, 2])\n"
        "except KeyboardInterrupt:\n"
        "    print('left')\n"
        "    time.sleep(60)\n"
    )
    running = run_until_here(
        four, in_background, f"if rank == 2: time.sleep(60)\nelif rank < 2:\n{_indent(code)}"
    )
    let_pass(0.2)  # so that they wait
    with within(3):
        assert four.interrupt(ranks=[0]) == (0,)
        wait_until(lambda: four.status().ranks[1] == "idle", 3, "rank 1 has raised")
        four.interrupt()
        result = running.result(10)
    assert result[0].stdout == "here\nleft\n"
    assert "was interrupted" in str(result[1].error)
    assert_meets(four)


def _indent(code):
    return "".join(f"    {line}\n" for line in code.splitlines())


def test_the_time_limit_of_a_cell_ends_the_wait(four, within):
    with within(2):
        result = four.run("if rank: comm.barrier('late', timeout_s=60)\nelse:\n    import time; time.sleep(60)", timeout_s=0.5)  # fmt: skip
    assert statuses(result) == ["timed_out"] * 4
    assert_meets(four)


@pytest.mark.slow
def test_a_thread_that_still_meets_when_the_cell_ends_is_told(four):
    code = (
        "import threading, time\n"
        "said = []\n"
        "def meet():\n"
        "    try: comm.all_gather_object(rank, ranks=[0, 1])\n"
        "    except Exception as error: said.append(str(error))\n"
        "if rank == 0:\n"
        "    thread = threading.Thread(target=meet)\n"
        "    thread.start()\n"
        "time.sleep(0.5 + 4 * (rank > 0))\n"
    )
    assert four.run(code).ok
    result = four.run("if rank == 0: thread.join(5)\nsaid")
    assert_tells(values(result)[0], "cell ended", "a thread")
    assert_meets(four)


# --- assert_equal ----------------------------------------------------------------------------


def test_the_first_difference_is_told_on_all_ranks(cluster):
    code = (
        "import numpy as np\n"
        "state = {'step': 5, 'layers': [np.zeros(3), np.zeros((2, 2), np.float32)]}\n"
        "if rank == 2: state['layers'][1][1, 0] = 0.5\n"
        "comm.assert_equal(state, 'model')"
    )
    result = cluster.run(code)
    assert statuses(result) == ["raised"] * 4
    (text,) = {*errors(result)}
    call, path = "ValuesDiffer: assert_equal('model') #1: ", " ['layers'][1] "
    place = "(numpy.ndarray float32[2,2], first at [1, 0]): "
    assert_tells(text, call, path, f"{place}ranks 0-1,3 have 0.0, rank 2 has 0.5")
    assert_meets(cluster)


def test_a_difference_can_be_caught_as_an_assertion_error(four):
    code = (
        "caught = 0\n"
        "for k in range(5):\n"
        "    try: comm.assert_equal(rank * (k % 2))\n"
        "    except AssertionError as error: caught += error.values['rank 3'] == str(3)\n"
        "caught"
    )
    assert values(four.run(code)) == ["2"] * 4


def test_large_arrays_are_compared_where_they_are(four, within):
    code = (
        "import numpy as np\n"
        "weights = np.zeros(20 << 17)\n"  # 20 MiB: far more than the coordinator should carry
        "comm.assert_equal([weights] * 5)\n"
        "weights[-3] += rank == 1\n"
        "try: comm.assert_equal([weights])\n"
        "except AssertionError as error: print(error)"
    )
    with within(20):
        result = four.run(code)
    (text,) = {rank.stdout for rank in result}
    place = " [0] (numpy.ndarray float64[2621440], first at [2621437]): "
    assert_tells(text, "assert_equal() #2: ", f"{place}ranks 0,2-3 have 0.0, rank 1 has 1.0")
    assert text.count("\n") == 1
