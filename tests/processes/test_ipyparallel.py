"""Programs of ipyparallel on the ranks: views, their places beside cells, and what is said of it."""

import os
import signal
from itertools import pairwise

import numpy as np
import pytest
from ipyparallel import Reference, error, interactive, require

from jupyter_dist.errors import UsageError
from tests.facts import assert_tells
from tests.patience import let_pass, wait_until

from .listener import Listener

WAIT = """\
def wait_for(path, limit_s=30):
    import os, time
    deadline_s = time.monotonic() + limit_s
    while not os.path.exists(path) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return os.path.exists(path)
"""


@pytest.fixture(scope="module")
def client(shared):
    """A client of the ranks, for all tests of this module."""
    client = shared.cluster.ipyparallel()
    yield client
    client.close()


@pytest.fixture
def view(four, client):
    """A DirectView of all ranks, which are idle before and after."""
    del four
    return client[:]


@pytest.fixture
def hold(four, client, tmp_path):
    """Keep some ranks busy with a task until `release()`; gives the result to come."""
    path = tmp_path / "go on"
    four.run(WAIT)

    def hold_on(path):
        assert wait_for(path)  # noqa: F821  (it is there, on the ranks)
        return True

    class Hold:
        def __call__(self, *ranks):
            return client[list(ranks)].apply_async(interactive(hold_on), str(path))

        release = staticmethod(path.touch)
        wait = f"wait_for({str(path)!r})\n"

    yield Hold()
    path.touch()


def test_a_client_that_nobody_has_used_has_nothing_to_tell(client):
    assert client.history == []
    assert not client.metadata
    assert not client.results


# --- views ---


def test_engine_ids_are_the_ranks(four, client, view):
    assert client.ids == list(range(four.world_size))
    assert view["rank"] == client.ids
    for number in client.ids:
        assert client[number]["rank"] == number


def test_tasks_and_cells_share_process_and_names(four, view):
    assert four.run("import os\nmine = rank * 10").ok
    assert view["mine"] == [0, 10, 20, 30]
    pids = [engine.pid for engine in four.topology().engines]
    assert view.apply_sync(os.getpid) == pids
    view.push({"theirs": "pushed"}, block=True)
    result = four.run("print(theirs, mine)")
    assert [rank.stdout for rank in result] == [f"pushed {10 * n}\n" for n in range(4)]


def test_a_direct_view_pushes_pulls_scatters_gathers_and_maps(view):
    view.push({"a": 2}, block=True)
    view.scatter("part", list(range(8)), block=True)
    view.execute("total = a * sum(part)", block=True)
    assert view.pull("part", block=True) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert view.gather("part", block=True) == list(range(8))
    assert view["total"] == [2, 10, 18, 26]
    assert view.map_sync(lambda x: x * x, range(10)) == [x * x for x in range(10)]
    assert view.apply_sync(interactive(lambda x: x + rank), Reference("a")) == [2, 3, 4, 5]  # noqa: F821


@pytest.mark.parametrize("is_coalescing", [False, True])
def test_a_broadcast_view_reaches_every_rank(client, view, is_coalescing):
    broadcast = client.broadcast_view(is_coalescing=is_coalescing)
    broadcast.push({"b": [1, 2]}, block=True)
    assert view["b"] == [[1, 2]] * 4
    found = broadcast.apply_sync(interactive(lambda: rank * 2))  # noqa: F821
    assert sorted(found) == [0, 2, 4, 6]


def test_a_load_balanced_view_heeds_dependencies(client, view):
    balanced = client.load_balanced_view()
    first = balanced.apply_async(interactive(lambda: globals().setdefault("ran", rank)))  # noqa: F821
    with balanced.temp_flags(after=first, follow=first):
        second = balanced.apply_async(interactive(lambda: (rank, ran)))  # noqa: F821
    assert second.get(10) == (first.get(10),) * 2

    @require("numpy")
    @interactive
    def size():
        return numpy.zeros(3).size  # noqa: F821

    assert balanced.apply_sync(size) == 3
    with balanced.temp_flags(targets=[2]):
        assert balanced.apply_sync(interactive(lambda: rank)) == 2  # noqa: F821
    assert balanced.map_sync(lambda x: -x, range(20)) == [-x for x in range(20)]
    del view


def test_an_error_of_a_task_names_the_rank_and_spares_the_others(view):
    with pytest.raises(error.CompositeError) as caught:
        view.apply_sync(interactive(lambda: 1 / (rank - 1)))  # noqa: F821
    assert "[1:apply]ZeroDivisionError" in str(caught.value)
    shown = "".join(caught.value.elist[0][2])
    assert "lambda" in shown
    assert "jupyter_dist" not in shown
    with pytest.raises(error.CompositeError, match="SystemExit"):
        view.execute("exit()", silent=False, block=True)
    assert view["rank"] == [0, 1, 2, 3]


def test_what_a_task_prints_goes_to_its_client_only(four, view):
    result = view.execute("print('from', rank)", silent=False, block=True)
    assert result.wait_for_output(10)
    assert [text.strip() for text in result.stdout] == [f"from {n}" for n in range(4)]
    assert [rank.stdout for rank in four.run("print('cell')")] == ["cell\n"] * 4


def test_code_runs_in_the_shell_of_the_rank(client, view):
    asked = client[0].execute("%precision 3\n!echo from a process\n1 / 3", silent=False)
    reply = asked.get(20)
    assert asked.wait_for_output(20)  # it may come after the reply
    assert reply.execute_result["data"]["text/plain"] == "0.333"
    assert reply.stdout.split() == ["from", "a", "process"]
    view.execute("%precision %r", block=True)


def test_output_arrives_while_the_task_runs(client, hold):
    asked = client[0].execute(f"print('begun')\n{hold.wait}")
    wait_until(lambda: asked.stdout == "begun\n", 20, "the output")
    assert not asked.done()
    hold.release()
    asked.get(20)


def test_rich_output_and_bars_arrive(client, view):
    code = (
        "from IPython.display import HTML, display\nfrom tqdm import tqdm\n"
        "display(HTML('<b>bold</b>'))\nfor _ in tqdm(range(3), desc='steps'): pass\n"
    )
    asked = client[0].execute(code)
    asked.get(20)
    assert asked.wait_for_output(20)
    assert [output["data"]["text/html"] for output in asked.outputs] == ["<b>bold</b>"]
    assert "steps: 100% 3/3 it [" in asked.stderr


def test_a_result_is_as_it_was_when_the_task_ended(client, view):
    view.execute("import numpy as np; x = np.zeros(1 << 20)", block=True)
    first = client[0].apply_async(interactive(lambda: x))  # noqa: F821
    client[0].execute("x += 1", block=True)
    np.testing.assert_array_equal(first.get(20), np.zeros(1 << 20))


def test_tasks_that_have_not_begun_can_be_aborted(four, client, hold):
    held = hold(0)
    _see(four, lambda engine: engine.rank == 0 and engine.state == "busy")
    second, third, fourth = (client[0].apply_async(os.getpid) for _ in range(3))
    client[0].abort([second, third], block=True)
    for aborted in (second, third):
        with pytest.raises(error.TaskAborted):
            aborted.get(20)
    hold.release()
    assert held.get(20) == [True]
    assert fourth.get(20) == four.topology().engines[0].pid


def test_code_behind_code_that_failed_is_not_run(client, hold):
    failing = client[0].execute(f"{hold.wait}1 / 0", silent=False)
    behind = client[0].execute("after = True", silent=False)
    applied = client[0].apply_async(interactive(lambda: "after" in globals()))
    let_pass(0.5)  # until all have come; nothing tells of a task that waits
    hold.release()
    with pytest.raises(error.RemoteError, match="ZeroDivisionError"):
        failing.get(20)
    with pytest.raises(error.TaskAborted):
        behind.get(20)
    assert applied.get(20) is False


def test_clearing_leaves_a_rank_its_place_and_its_communicator(client, view):
    view.push({"mine": 1}, block=True)
    client.clear(block=True)
    left = interactive(lambda: sorted({"mine", "rank", "comm"} & set(globals())))
    assert view.apply_sync(left) == [["comm", "rank"]] * 4


def test_requests_that_nobody_knows_are_refused(client, view):
    with pytest.raises(error.RemoteError, match="'complete' requests"):
        client._send_control_request(1, "complete_request", content={}, block=True)


# --- beside cells ---


def test_cells_and_tasks_of_a_rank_never_interleave(four, view, in_background):
    four.run(
        "import threading, time\nlog = []\n"
        "def note(what):\n"
        "    began = time.perf_counter()\n"
        "    time.sleep(0.004)\n"
        "    log.append((began, time.perf_counter(), what, threading.get_ident()))\n"
    )
    cells = in_background(
        lambda: [four.run("note('cell')\ncomm.barrier()\nnote('cell')") for _ in range(15)]
    )
    tasks = []
    while not cells.done() or len(tasks) < 20:
        tasks.append(view.apply_async(interactive(lambda: note("task"))))  # noqa: F821
        tasks[-1].get(20)
    assert all(result.ok for result in cells.result(20))
    for log in view["log"]:
        assert {what for _, _, what, _ in log} == {"cell", "task"}
        assert len(log) == 2 * 15 + len(tasks)
        assert len({thread for *_, thread in log}) == 1, "all on the main thread"
        assert all(one[1] <= after[0] for one, after in pairwise(log))
        kinds = [what for _, _, what, _ in log]
        runs = "".join(kind[0] for kind in kinds)
        assert "ctc" not in runs.replace("cc", ""), "no task between the halves of a cell"


def test_collectives_are_right_while_tasks_come(four, client, in_background):
    cells = in_background(lambda: [four.run("int(comm.all_reduce(rank + 1))") for _ in range(10)])
    balanced = client.load_balanced_view()
    found = []
    while not cells.done():
        found += balanced.map_sync(lambda x: x + 1, range(8))
    assert found[:8] == list(range(1, 9))
    assert [rank.value_repr for result in cells.result(20) for rank in result] == ["10"] * 40


def test_the_status_names_the_task_of_a_busy_rank(four, hold):
    held = hold(2)
    engine = _see(four, lambda engine: engine.rank == 2 and engine.state == "busy")
    assert "hold_on (ipyparallel)" in engine.cell
    assert "hold_on (ipyparallel) for" in str(four.status())
    hold.release()
    assert held.get(10) == [True]
    _see(four, lambda engine: engine.rank == 2 and engine.state == "idle" and not engine.cell)


def test_a_cell_that_waits_for_a_rank_with_a_task_says_so(four, hold, in_background):
    held = hold(2)
    _see(four, lambda engine: engine.rank == 2 and engine.state == "busy")
    listener = Listener()
    cell = in_background(four.run, "int(comm.all_reduce(1))", watcher=listener, label=7)
    listener.wait_for_note("rank 2 has not")
    note = next(note for note in listener.notes if "rank 2 has not" in note)
    assert_tells(note, "ranks 0-1,3 wait", "all_reduce", "rank 2 has not", "ipyparallel task")
    assert_tells(note, "not begun", "no hang")
    engine = _see(four, lambda engine: engine.rank == 2 and "then" in engine.cell)
    assert engine.cell.endswith("hold_on (ipyparallel), then In[7]")
    hold.release()
    assert [rank.value_repr for rank in cell.result(20)] == ["4"] * 4
    assert held.get(10) == [True]


def test_a_task_is_interrupted_as_a_cell_is(four, hold):
    held = hold(1, 3)
    for number in (1, 3):
        _see(four, lambda engine, number=number: engine.rank == number and engine.state == "busy")
    assert four.interrupt() == (1, 3)
    with pytest.raises(error.CompositeError, match="KeyboardInterrupt"):
        held.get(10)


def test_a_cell_that_waits_behind_a_task_is_interrupted_with_it(four, hold, in_background):
    held = hold(2)
    _see(four, lambda engine: engine.rank == 2 and engine.state == "busy")
    cell = in_background(four.run, "comm.barrier()")
    _see(four, lambda engine: engine.rank == 2 and "then" in engine.cell)
    four.interrupt()
    assert {rank.status for rank in cell.result(20)} == {"interrupted"}
    with pytest.raises(error.RemoteError, match="KeyboardInterrupt"):
        held.get(10)


def test_a_client_interrupts_the_task_and_not_the_cell_behind_it(four, client, hold, in_background):
    held = hold(2)
    _see(four, lambda engine: engine.rank == 2 and engine.state == "busy")
    cell = in_background(four.run, "print('well')")
    _see(four, lambda engine: engine.rank == 2 and "then" in engine.cell)
    client.send_signal(signal.SIGINT, targets=2, block=True)
    with pytest.raises(error.RemoteError, match="KeyboardInterrupt"):
        held.get(10)
    assert [rank.stdout for rank in cell.result(20)] == ["well\n"] * 4


def test_idle_ranks_take_no_notice_of_an_interrupt_and_other_signals_are_refused(client, view):
    client.send_signal(signal.SIGINT, block=True)
    with pytest.raises(error.RemoteError, match="Accepted: SIGINT"):
        client.send_signal(signal.SIGTERM, targets=1, block=True)
    assert view["rank"] == [0, 1, 2, 3]


def test_ranks_meet_anew_after_the_task_of_one_of_them(four, hold, in_background):
    held = hold(2)
    _see(four, lambda engine: engine.rank == 2 and engine.cell.startswith("apply"))
    four.run("1 / 0", ranks=[0, 1])  # their communicator is broken now
    listener = Listener()
    cell = in_background(four.run, "int(comm.all_reduce(1))", watcher=listener)
    listener.wait_for_note("(apply hold_on)")
    hold.release()
    assert [rank.value_repr for rank in cell.result(20)] == ["4"] * 4
    assert held.get(10) == [True]


def test_a_second_client_sees_the_same_ranks(four, client):
    other = four.ipyparallel()
    try:
        assert other.ids == client.ids
        other[:].push({"from_other": 5}, block=True)
        assert client[:]["from_other"] == [5] * 4
    finally:
        other.close()
    assert client[:]["from_other"] == [5] * 4


def test_a_time_that_is_none_is_refused(four):
    with pytest.raises(UsageError, match="timeout 0"):
        four.ipyparallel(timeout_s=0)


def _see(cluster, is_wanted, within_s=10.0):
    """Wait until a rank is as wanted; gives it."""
    return wait_until(
        lambda: next(filter(is_wanted, cluster.topology().engines), None),
        within_s,
        f"a rank is as wanted; they were {cluster.topology().engines}",
    )
