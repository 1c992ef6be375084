"""A rank as an engine of ipyparallel, driven by a real controller and a real client."""

import contextlib
import os
import signal
import time

import ipyparallel
import pytest
from ipyparallel.error import CompositeError, RemoteError, TaskAborted

from jupyter_dist.frameworks.ipyparallel.client import RanksClient
from tests.patience import let_pass, within

from .leftovers import wait_until
from .parallel_ranks import TIMEOUT_S, Controller, Rank, wait_for_ids

WORLD_SIZE = 2
SIZE = 30_000_000
"""Of an answer that takes longer than a short message."""


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    """One for all tests that do it no harm."""
    with contextlib.closing(Controller(tmp_path_factory.mktemp("parallel") / "controller")) as made:
        yield made


@pytest.fixture(scope="module")
def ranks(controller, tmp_path_factory):
    """All ranks, joined."""
    root = tmp_path_factory.mktemp("ranks")
    with contextlib.ExitStack() as stack:
        made = [
            stack.enter_context(contextlib.closing(Rank(rank, WORLD_SIZE, root / str(rank))))
            for rank in range(WORLD_SIZE)
        ]
        began_s = time.monotonic()
        for rank in made:
            assert rank.join(controller.for_engines)["problem"] == ""
        with contextlib.closing(controller.client()) as client:
            wait_for_ids(client, list(range(WORLD_SIZE)))
        print(f"{WORLD_SIZE} ranks registered in {time.monotonic() - began_s:.2f} s")
        yield made


@pytest.fixture
def client(controller, ranks, gate):
    """Connected, and idle in the end."""
    with contextlib.closing(controller.client()) as made:
        wait_for_ids(made, list(range(WORLD_SIZE)))
        made.clear(block=True)
        for rank in ranks:
            rank.forget()
        yield made
        gate.open()
        made.clear(block=True)


@pytest.fixture
def gate(tmp_path):
    """Code that waits until the test opens the gate."""
    made = Gate(tmp_path / "open")
    yield made
    made.open()


class Gate:
    """A file that what runs on a rank waits for."""

    def __init__(self, path):
        self._path = path
        self.wait = f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)\n"

    def open(self):
        """Let it go on."""
        self._path.touch()


@ipyparallel.interactive
def evaluate(expression):
    """Give what it is on a rank; its globals are the user's there."""
    return eval(expression, globals())


@ipyparallel.interactive
def train(code):
    exec(code)


@ipyparallel.interactive
def fail():
    return 1 / 0


@ipyparallel.depend(evaluate, "rank == 1")
@ipyparallel.interactive
def where():
    return globals()["rank"]


def texts(result):
    return [output["text"] for output in result["outputs"]]


def begin_task(client, rank, code):
    """Send code, and wait until it runs for so long that it is told of."""
    asked = client[rank.rank].execute(code)
    while rank.hear("TaskBegan")["label"] != "execute":
        pass  # one before it may have been long enough to be told of, too
    return asked


def test_ids_are_ranks_and_functions_see_what_cells_have_made(client, ranks):
    for rank in ranks:
        rank.run_cell("a = rank + 10")
    view = client[:]
    assert view.apply_sync(evaluate, "(rank, world_size, a)") == [(0, 2, 10), (1, 2, 11)]
    view.push({"b": 3}, block=True)
    assert texts(ranks[1].run_cell("print(a * b)")) == ["33\n"]


def test_code_runs_in_the_shell_of_the_rank(client):
    asked = client[0].execute("%precision 3\n!echo from a process\n1 / 3", silent=False)
    reply = asked.get(TIMEOUT_S)
    assert asked.wait_for_output(TIMEOUT_S)  # it may come after the reply
    assert reply.execute_result["data"]["text/plain"] == "0.333"
    assert reply.stdout.split() == ["from", "a", "process"]
    assert reply.execute_input.endswith("1 / 3")
    client[0].execute("%precision %r")


def test_what_a_task_says_is_not_said_by_a_cell(client, ranks):
    asked = client[0].apply_async(evaluate, "print('by a task')")
    asked.get(TIMEOUT_S)
    assert asked.wait_for_output(TIMEOUT_S)
    assert texts(ranks[0].run_cell("print('by a cell')")) == ["by a cell\n"]
    assert asked.stdout == "by a task\n"


def test_output_arrives_while_the_task_runs(client, gate):
    asked = client[0].execute("print('begun')\n" + gate.wait)
    wait_until(lambda: asked.stdout == "begun\n", TIMEOUT_S, "the output")
    assert not asked.done()
    gate.open()
    asked.get(TIMEOUT_S)


def test_rich_output_and_bars_arrive(client):
    code = (
        "from IPython.display import HTML, display\nfrom tqdm import tqdm\n"
        "display(HTML('<b>bold</b>'))\nfor _ in tqdm(range(3), desc='steps'): pass\n"
    )
    asked = client[0].execute(code)
    asked.get(TIMEOUT_S)
    assert asked.wait_for_output(TIMEOUT_S)
    assert [output["data"]["text/html"] for output in asked.outputs] == ["<b>bold</b>"]
    assert "steps: 100% 3/3 it [" in asked.stderr


def test_errors_are_those_of_the_user(client):
    with pytest.raises(CompositeError) as raised:
        client[:].apply_sync(fail)
    assert [each[0] for each in raised.value.elist] == ["ZeroDivisionError"] * WORLD_SIZE
    shown = "".join(raised.value.elist[0][2])
    assert "fail" in shown
    assert "jupyter_dist" not in shown
    with pytest.raises(RemoteError, match="SystemExit"):
        client[0].execute("exit()", silent=False, block=True)


def test_a_result_is_as_it_was_when_the_task_ended(client):
    client[0].execute("import numpy as np; x = np.zeros(1 << 20)", block=True)
    first = client[0].apply_async(evaluate, "x")
    client[0].execute("x += 1", block=True)
    assert not first.get().any()


def test_a_cell_waits_for_one_task_at_most_and_they_never_interleave(client, ranks, gate):
    client[0].push({"log": []}, block=True)
    begin_task(client, ranks[0], f"log += ['first begins']\n{gate.wait}log += ['first ends']")
    others = [client[0].execute(f"log += ['task {number}']") for number in range(3)]
    ranks[0].order("cell", id="between", code="log += ['cell begins']\nlog += ['cell ends']")
    ranks[0].look()  # answered by who has taken in the cell
    gate.open()
    assert ranks[0].hear("CellResult")["status"] == "ok"
    for other in others:
        other.get(TIMEOUT_S)
    assert client[0].pull("log", block=True) == [
        *("first begins", "first ends", "cell begins", "cell ends"),
        *(f"task {number}" for number in range(3)),
    ]


def test_tasks_that_have_not_begun_can_be_aborted(client, ranks, gate):
    ranks[0].order("cell", id="long", code=gate.wait)
    ranks[0].look()
    behind_the_cell, second = (client[0].apply_async(os.getpid) for _ in range(2))
    third = client[0].apply_async(os.getpid)
    client[0].abort([behind_the_cell, second], block=True)
    for aborted in (behind_the_cell, second):
        with pytest.raises(TaskAborted):
            aborted.get(TIMEOUT_S)
    gate.open()
    assert ranks[0].hear("CellResult")["status"] == "ok"
    assert third.get(TIMEOUT_S) == ranks[0].process.pid


def test_code_behind_code_that_failed_is_not_run(client, gate):
    failing = client[0].execute(gate.wait + "1 / 0", silent=False)
    behind = client[0].execute("after = True", silent=False)
    applied = client[0].apply_async(evaluate, "'after' in globals()")
    let_pass(0.5)  # until all have come; nothing tells of a task that waits
    gate.open()
    with pytest.raises(RemoteError, match="ZeroDivisionError"):
        failing.get(TIMEOUT_S)
    with pytest.raises(TaskAborted):
        behind.get(TIMEOUT_S)
    assert applied.get(TIMEOUT_S) is False


def test_a_client_interrupts_the_task_and_not_the_cell_behind_it(client, ranks, gate):
    asked = begin_task(client, ranks[0], gate.wait)
    ranks[0].order("cell", id="behind", code="print('well')")
    ranks[0].look()
    client.send_signal(signal.SIGINT, targets=0, block=True)
    with pytest.raises(RemoteError, match="KeyboardInterrupt"):
        asked.get(TIMEOUT_S)
    result = ranks[0].hear("CellResult")
    assert (result["status"], texts(result)) == ("ok", ["well\n"])


def test_who_interrupts_the_cell_ends_the_task_that_it_waits_for_too(client, ranks, gate):
    asked = begin_task(client, ranks[0], gate.wait)
    ranks[0].order("cell", id="behind", code="print('never')")
    ranks[0].look()
    ranks[0].order("interrupt")
    with pytest.raises(RemoteError, match="KeyboardInterrupt"):
        asked.get(TIMEOUT_S)
    result = ranks[0].hear("CellResult")
    assert (result["status"], texts(result)) == ("interrupted", [])
    assert ranks[0].run_cell("1")["status"] == "ok"


def test_an_interrupt_of_an_idle_rank_passes(client):
    client.send_signal(signal.SIGINT, block=True)
    assert client[:].apply_sync(evaluate, "rank") == [0, 1]


def test_a_task_that_waits_behind_a_cell_cannot_be_interrupted(client, ranks, gate):
    ranks[0].order("cell", id="long", code=gate.wait)
    ranks[0].look()
    waiting = client[0].apply_async(os.getpid)
    wait_until(lambda: "waits behind" in _try_to_interrupt(client), TIMEOUT_S, "the refusal")
    gate.open()
    assert ranks[0].hear("CellResult")["status"] == "ok"
    waiting.get(TIMEOUT_S)


def _try_to_interrupt(client):
    try:
        client.send_signal(signal.SIGINT, targets=0, block=True)
    except RemoteError as error:
        return str(error)
    return ""


def test_other_signals_are_refused(client, ranks):
    with pytest.raises(RemoteError, match="Accepted: SIGINT"):
        client.send_signal(signal.SIGTERM, targets=1, block=True)
    assert client[1].apply_sync(os.getpid) == ranks[1].process.pid


def test_a_long_task_is_told_with_the_name_of_its_function(client, ranks, gate):
    asked = client[1].apply_async(train, gate.wait)
    began = ranks[1].hear("TaskBegan")
    assert (began["rank"], began["label"]) == (1, "apply train")
    assert began["running_s"] > 0.2
    gate.open()
    asked.get(TIMEOUT_S)
    assert ranks[1].hear("TaskEnded")["rank"] == 1


def test_clearing_leaves_a_rank_its_place_and_its_communicator(client):
    client[:].push({"mine": 1}, block=True)
    client.clear(block=True)
    seen = client[:].apply_sync(evaluate, "sorted({'mine', 'rank', 'comm'} & set(globals()))")
    assert seen == [["comm", "rank"]] * WORLD_SIZE


@ipyparallel.interactive
def parse(text):
    raise ValueError(f"cut off: {chr(0xD83D)}")


def test_an_error_whose_text_cannot_be_sent_is_sent_escaped_and_the_rank_stays(client):
    with pytest.raises(RemoteError, match=r"cut off: .ud83d"):
        client[0].apply_sync(parse, "a cut-off emoji")
    assert client[0].apply_sync(evaluate, "rank") == 0


def test_balanced_tasks_go_where_their_dependencies_are_met(client):
    view = client.load_balanced_view()
    assert [view.apply_sync(where) for _ in range(3)] == [1, 1, 1]
    with view.temp_flags(after=view.apply_async(evaluate, "None")):
        assert view.apply_async(evaluate, "world_size").get(TIMEOUT_S) == WORLD_SIZE


def test_all_kinds_of_views_map_and_refer(client):
    assert client.broadcast_view().apply_sync(evaluate, "rank") == [0, 1]
    view = client[:]
    view.scatter("part", list(range(6)), block=True)
    refer = ipyparallel.Reference("part")
    assert view.apply_sync(sum, refer) == [3, 12]
    assert view.gather("part", block=True) == list(range(6))
    assert view.map_sync(evaluate, ["1 + 1", "rank", "rank"]) == [2, 0, 1]


def test_requests_that_nobody_knows_are_refused(client):
    with pytest.raises(RemoteError, match="does not answer 'complete' requests"):
        client._send_control_request(1, "complete_request", content={}, block=True)


# --- those that need a controller, or a rank, of their own ---


@pytest.fixture
def alone(tmp_path):
    """A controller, and one rank that has not joined."""
    with (
        contextlib.closing(Controller(tmp_path / "controller")) as controller,
        contextlib.closing(Rank(0, 1, tmp_path / "rank")) as rank,
    ):
        yield controller, rank


def test_a_rank_that_has_left_has_no_thread_and_no_file_more_than_before(alone, tmp_path):
    controller, rank = alone
    before = rank.look()
    assert not before["loaded"], "ipyparallel was loaded before it was needed"
    rank.join(controller.for_engines)
    rank.order("leave", id="once")
    assert rank.hear("ControllerLeft")["request_id"] == "once"
    left = rank.look()
    for round_id in ("twice", "again"):
        gate = Gate(tmp_path / round_id)
        assert rank.join(controller.for_engines)["problem"] == ""
        with contextlib.closing(controller.client()) as client:
            wait_for_ids(client, [0])
            begin_task(client, rank, gate.wait)
            with within(2.0):
                rank.order("leave", id=round_id)
                rank.hear("ControllerLeft")
            wait_until(lambda: not client.ids, TIMEOUT_S, "the engine is unregistered")
        assert "TaskEnded" not in [told["type"] for told in rank.seen], "its task still runs"
        gate.open()
        rank.hear("TaskEnded")
        rank.forget()
        assert rank.run_cell("1")["status"] == "ok"
    after = rank.look()
    assert after["threads"] == before["threads"]
    assert after["files"] == left["files"]


@pytest.mark.slow
def test_an_answer_that_is_still_on_its_way_is_not_lost_when_its_rank_leaves(alone, tmp_path):
    controller, rank = alone
    rank.join(controller.for_engines)
    facts = {**controller.for_clients, "address": "127.0.0.1", "registration_s": 0.0}
    gate = Gate(tmp_path / "open")
    with contextlib.closing(RanksClient(facts, lambda: True, lambda: None)) as client:
        first = client[0].apply_async(evaluate, f"[exec({gate.wait!r}), bytes({SIZE})][1]")
        rank.hear("TaskBegan")
        gate.open()
        rank.hear("TaskEnded")
        rank.order("leave", id="now")
        assert first.get(TIMEOUT_S) == bytes(SIZE)


@pytest.mark.slow
def test_a_client_that_shuts_engines_down_ends_the_membership_and_not_the_rank(alone):
    controller, rank = alone
    rank.run_cell("kept = 7")
    rank.join(controller.for_engines)
    with contextlib.closing(controller.client()) as client:
        wait_for_ids(client, [0])
        client.shutdown(block=True)
        assert "shut down" in rank.hear("ControllerLeft")["reason"]
        wait_until(lambda: not client.ids, TIMEOUT_S, "the engine is unregistered")
    assert texts(rank.run_cell("print(kept)")) == ["7\n"]
    assert rank.join(controller.for_engines, "2")["problem"] == ""


def test_a_replaced_rank_gets_the_id_of_the_one_that_is_gone(alone, tmp_path):
    controller, rank = alone
    with (
        contextlib.closing(Rank(0, 1, tmp_path / "gone")) as gone,
        contextlib.closing(controller.client()) as client,
    ):
        gone.join(controller.for_engines)
        wait_for_ids(client, [0])
        gone.process.kill()
        gone.process.wait()
        assert rank.join(controller.for_engines)["problem"] == ""
        pid = rank.process.pid
        wait_until(lambda: 0 in client.ids and _pid(client) == pid, TIMEOUT_S, "the new engine")


def _pid(client):
    with contextlib.suppress(RemoteError, ipyparallel.error.TimeoutError):
        return client[0].apply_async(os.getpid).get(1)


@pytest.mark.slow
def test_a_rank_notices_that_its_controller_is_gone_and_goes_on(alone):
    controller, rank = alone
    rank.join(controller.for_engines)
    controller.process.kill()
    left = rank.hear("ControllerLeft", 30.0)
    assert "has not heard its controller" in left["reason"]
    assert rank.run_cell("1")["status"] == "ok"
    assert "parallel-engine" not in rank.look()["threads"]


@pytest.mark.slow
def test_a_controller_that_does_not_answer_is_named(alone):
    controller, rank = alone
    wrong = {**controller.for_engines, "key": "another"}
    problem = rank.join(wrong)["problem"]
    assert f"tcp://127.0.0.1:{wrong['registration']} did not answer" in problem
    assert "not whole" in rank.join({"interface": "tcp://127.0.0.1"})["problem"]
    assert rank.join(controller.for_engines)["problem"] == ""
