"""How a cell ends on a rank whose device still works for it."""

import signal
import sys
import threading
import weakref
from contextlib import nullcontext, suppress
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from jupyter_dist.collective.nccl.communicator import WAKING_SIGNAL
from jupyter_dist.engine.builtins_guard import BuiltinsGuard
from jupyter_dist.engine.execution.executor import Executor
from jupyter_dist.errors import CollectiveTimeout, FrameworkError, PeerFailed
from jupyter_dist.protocol.messages import Command, RunCell

LOST = PeerFailed(1, "is lost: killed; all_reduce(float32[4], sum) #2 was on the device")


class FakeCommunicator:
    """Settles as it is told."""

    lost = None
    unsettled = None
    settled = 0

    def lost_error(self):
        error, self.lost = self.lost, None
        return error

    def settle(self):
        self.settled += 1
        if self.unsettled is not None:
            raise self.unsettled


class FakeFrameworks:
    """Takes a torn connection for the failure of a peer."""

    def __init__(self):
        self.context = self
        self.unprepared = None
        self.unsettled = None
        self.prepared = []

    def enter_cell(self, *_):
        self.is_in_cell = True

    enter_task = enter_cell

    def leave_cell(self):
        self.is_in_cell = False

    def prepare_cell(self, code):
        self.prepared.append(code)
        if self.unprepared is not None:
            raise self.unprepared

    def settle(self):
        if self.unsettled is not None:
            raise self.unsettled

    def explain(self, error):
        return LOST if "torn" in str(error) else error


class FakeShell:
    """Runs functions for cells."""

    last_traceback = ()

    def __init__(self):
        self.cell = lambda: None

    def run_cell(self, code, store_history):
        result = SimpleNamespace(error_before_exec=None, error_in_exec=None, result=None)
        try:
            self.cell()
        except Exception as error:  # noqa: BLE001  (as IPython does)
            result.error_in_exec = error
        return result

    def call_in_cell(self, _title, call):
        return call()


@pytest.fixture
def executor(monkeypatch):
    monkeypatch.setattr("builtins.input", input)
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: told.append(found.exc_type.__name__))
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, WAKING_SIGNAL)}
    outputs = Mock(take=Mock(return_value=((), ())), offsets=(0, 0))
    namespace = Mock(communicator=FakeCommunicator())
    made = Executor(
        0,
        FakeShell(),
        outputs,
        namespace,
        Mock(),
        FakeFrameworks(),
        Mock(),
        run_command=lambda command: command.payload[::-1],
        is_cell_waiting=lambda: False,
        builtins=BuiltinsGuard(),
    )
    made.communicator, made.shell = namespace.communicator, made._shell
    made.frameworks, made.told = made._frameworks, told
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_command_is_carried_out_in_place_of_code(executor):
    command = Command("turn", "a title", b"abc")
    result = executor.run(RunCell("cell-1", 1, "a title", (0,), 1, command=command))
    assert (result.status, result.report, result.value_repr) == ("ok", b"cba", None)


def run(executor, cell):
    executor.shell.cell = cell
    return executor.run(RunCell("cell-1", 1, "code", (0,), 1, True))


def test_what_the_device_did_not_do_is_the_error_of_the_cell(executor):
    executor.communicator.unsettled = late = CollectiveTimeout("rank 0 waited 60 s for its peers")
    result = run(executor, lambda: None)
    assert result.status == "raised"
    assert result.error.ename == "CollectiveTimeout"
    assert result.error.traceback == (f"CollectiveTimeout: {late}",)
    executor.communicator.unsettled = LOST
    assert run(executor, lambda: None).status == "peer_failed"


def test_a_cell_ends_when_its_device_has_ended_unless_it_has_raised(executor):
    assert run(executor, lambda: 1 / 0).error.ename == "ZeroDivisionError"
    assert executor.communicator.settled == 0
    assert run(executor, lambda: None).status == "ok"
    assert executor.communicator.settled == 1


@pytest.mark.parametrize("when", ["frameworks get ready", "the device is waited for"])
def test_an_interrupt_around_the_code_of_a_cell_ends_it(executor, when):
    if when == "frameworks get ready":
        executor.frameworks.unprepared = KeyboardInterrupt()
    else:
        executor.communicator.unsettled = KeyboardInterrupt()
    assert run(executor, lambda: None).status == "interrupted"


def test_an_interrupt_that_a_callback_has_swallowed_comes_again(executor):
    def cell():
        class Gone:
            pass

        gone = Gone()
        reference = weakref.ref(gone, lambda _: signal.raise_signal(signal.SIGINT))
        del gone
        assert reference() is None
        went_on.append(True)
        threading.Event().wait(30)

    went_on = []
    assert run(executor, cell).status == "interrupted"
    assert went_on == [True]


def test_other_errors_of_callbacks_are_told_as_before(executor):
    def cell():
        class Gone:
            def __del__(self):
                1 / 0  # noqa: B018

        Gone()

    assert run(executor, cell).status == "ok"
    assert executor.told == ["ZeroDivisionError"]


@pytest.mark.parametrize("is_swallowed", [False, True])
def test_user_code_raises_as_soon_as_its_results_are_lost(executor, is_swallowed):
    went_on = []

    def cell():
        executor.communicator.lost = LOST
        with suppress(Exception) if is_swallowed else nullcontext():
            signal.raise_signal(WAKING_SIGNAL)
            went_on.append(True)

    result = run(executor, cell)
    assert (result.status, result.error.peer_rank) == ("peer_failed", 1)
    assert not went_on
    assert run(executor, lambda: None).status == "ok"


def test_the_signal_means_nothing_when_nothing_is_lost_or_no_cell_runs(executor):
    assert run(executor, lambda: signal.raise_signal(WAKING_SIGNAL)).status == "ok"
    executor.communicator.lost = LOST
    signal.raise_signal(WAKING_SIGNAL)
    assert executor.communicator.lost is LOST


def test_an_interrupt_between_the_beginning_of_a_cell_and_its_code_is_not_forgotten(executor):
    executor._recorder.begin_cell = lambda *_: signal.raise_signal(signal.SIGINT)
    ran = []
    assert run(executor, lambda: ran.append(1)).status == "interrupted"
    assert ran == []


def test_an_interrupt_of_an_idle_rank_or_after_the_code_of_a_cell_passes(executor):
    signal.raise_signal(signal.SIGINT)
    executor._recorder.end_cell = lambda: signal.raise_signal(signal.SIGINT)
    assert run(executor, lambda: None).status == "ok"
    assert run(executor, lambda: None).status == "ok"


def tear():
    raise ValueError("the connection was torn")


def test_frameworks_get_ready_before_the_cell_and_hear_of_its_end(executor):
    seen = []
    run(executor, lambda: seen.append((list(executor.frameworks.prepared), inside(executor))))
    assert seen == [(["code"], True)]
    assert not inside(executor)


def inside(executor):
    return executor.frameworks.is_in_cell


def test_a_framework_that_cannot_get_ready_is_the_error_of_the_cell(executor):
    went_on = []
    executor.frameworks.unprepared = FrameworkError("rank 1 has JAX 0.7, others 0.10")
    result = run(executor, lambda: went_on.append(True))
    assert (result.status, result.error.ename) == ("raised", "FrameworkError")
    assert result.error.traceback == ("FrameworkError: rank 1 has JAX 0.7, others 0.10",)
    assert not went_on


def test_what_a_framework_did_not_do_is_the_error_of_the_cell(executor):
    executor.frameworks.unsettled = RuntimeError("bad program")
    assert run(executor, lambda: None).error.ename == "RuntimeError"


@pytest.mark.parametrize("where", ["cell", "end"])
def test_an_error_is_told_as_what_it_means(executor, where):
    if where == "end":
        executor.frameworks.unsettled = ValueError("torn")
    result = run(executor, tear if where == "cell" else lambda: None)
    assert (result.status, result.error.peer_rank) == ("peer_failed", 1)
    assert result.error.traceback == (f"PeerFailed: {LOST}",)


class FakeTask:
    """Calls a function."""

    task_id, label, code = "task-1", "apply f", ""
    ending = None
    is_wanted = True

    def __init__(self, function):
        self._function = function

    def claim(self):
        return self.is_wanted

    def carry_out(self, shell):
        try:
            return None, self._function()
        except BaseException as error:  # noqa: BLE001
            return error, None

    def end(self, ending):
        self.ending = ending


def run_task(executor, function):
    task = FakeTask(function)
    executor.run_task(task)
    return task.ending


def test_a_task_ends_as_a_cell_does(executor):
    ending = run_task(executor, lambda: 7)
    assert (ending.status, ending.value, executor.communicator.settled) == ("ok", 7, 1)
    assert run_task(executor, lambda: 1 / 0).error.ename == "ZeroDivisionError"
    assert run_task(executor, tear).status == "peer_failed"


@pytest.mark.parametrize("broken", ["enter_task", "leave_cell"])
def test_an_error_of_our_own_around_a_task_is_its_answer(executor, monkeypatch, broken):
    with monkeypatch.context() as patch:
        patch.setattr(executor.frameworks, broken, lambda: 1 / 0)
        ending = run_task(executor, lambda: 7)
    assert (ending.status, ending.error.ename) == ("raised", "InternalError")
    assert run_task(executor, lambda: 7).value == 7
    assert run(executor, lambda: None).status == "ok"


def test_frameworks_and_records_know_that_a_task_is_no_cell(executor):
    begun, seen = [], []
    executor._recorder.begin_cell = lambda *facts: begun.append(facts)
    run_task(executor, lambda: seen.append((inside(executor), executor.is_in_task)))
    assert (seen, inside(executor), executor.is_in_task) == ([(True, True)], False, False)
    run(executor, lambda: None)
    assert begun == [("apply f", "task-1", True), ("In[1]", "cell-1", False)]


def test_a_task_that_nobody_wants_any_more_is_not_run(executor):
    ran = []
    task = FakeTask(lambda: ran.append(1))
    task.is_wanted = False
    executor.run_task(task)
    assert (ran, task.ending) == ([], None)


@pytest.mark.parametrize("is_for_task", [False, True])
def test_an_interrupt_ends_the_task_and_unless_meant_for_it_the_cell_that_waits(
    executor, is_for_task
):
    executor.is_cell_waiting = lambda: True
    interrupt = partial(signal.raise_signal, signal.SIGINT)
    ending = run_task(executor, executor.interrupt_task if is_for_task else interrupt)
    assert ending.status == "interrupted"
    assert run(executor, lambda: None).status == ("ok" if is_for_task else "interrupted")
    assert run(executor, lambda: None).status == "ok"


def test_an_interrupt_for_a_task_that_has_ended_is_not_sent(executor):
    executor.interrupt_task()
    assert run(executor, executor.interrupt_task).status == "ok"
    assert run_task(executor, lambda: None).status == "ok"


def test_a_task_that_has_not_seen_its_interrupt_is_woken_until_it_has(executor, monkeypatch):
    sent = []
    monkeypatch.setattr(signal, "pthread_kill", lambda _thread, number: sent.append(number))

    def task():
        executor.look()
        executor.interrupt_task()
        executor.look()
        signal.raise_signal(signal.SIGINT)

    assert run_task(executor, task).status == "interrupted"
    executor.look()
    assert sent == [signal.SIGINT, signal.SIGURG]
