"""Runs one cell, or one task between cells, on the main thread and says how it ended."""

import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from time import perf_counter
from types import FrameType
from typing import Any, Protocol

import msgspec

from jupyter_dist.collective.nccl.communicator import WAKING_SIGNAL
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.engine.builtins_guard import BuiltinsGuard
from jupyter_dist.engine.channel.failed_orders import internal_error
from jupyter_dist.engine.collectives.control_collectives import ControlCollectives
from jupyter_dist.engine.collectives.frameworks import Frameworks
from jupyter_dist.engine.execution.cell_status import judge
from jupyter_dist.engine.execution.namespace import Namespace
from jupyter_dist.engine.execution.swallowed_interrupts import SwallowedInterrupts
from jupyter_dist.engine.execution.user_handlers import UserHandlers, set_handler
from jupyter_dist.engine.output.outputs import Outputs
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.errors import CommunicatorError
from jupyter_dist.model.ranks.user_errors import is_of, name_error, type_name
from jupyter_dist.protocol.messages import CellResult, Command, ErrorInfo, Output, RunCell
from jupyter_dist.text.lists import name_some

_SIGINT = int(signal.SIGINT)

Call = Callable[[], tuple[BaseException | None, Any]]
"""User code: gives its error, or its value."""


class Ending(msgspec.Struct, frozen=True):
    """How user code has ended."""

    status: str
    """ok, raised, interrupted or peer_failed."""
    duration_s: float
    value: Any
    error: ErrorInfo | None
    outputs: tuple[Output, ...]
    """What was said since it was last asked for."""
    offsets: tuple[int, int]


class Task(Protocol):
    """What has the main thread between cells: a task of ipyparallel, or an event of a widget."""

    @property
    def task_id(self) -> str:
        """Its name, as the owner of what it says."""

    @property
    def label(self) -> str:
        """What is said of a rank that runs it."""

    @property
    def code(self) -> str:
        """As the user has written it; empty for a function."""

    def claim(self) -> bool:
        """Begin, unless it was withdrawn."""

    def carry_out(self, shell: Any) -> tuple[BaseException | None, Any]:
        """Run it; return its error, or its value."""

    def end(self, ending: Ending) -> None:
        """Tell how it has ended."""


class Executor:
    """The main thread's side of a rank; the only place where user code runs."""

    def __init__(  # noqa: PLR0913, PLR0917  (all that a cell touches)
        self,
        rank: int,
        shell: RankShell,
        outputs: Outputs,
        namespace: Namespace,
        collectives: ControlCollectives,
        frameworks: Frameworks,
        recorder: CollectiveRecorder,
        run_command: Callable[[Command], bytes],
        is_cell_waiting: Callable[[], bool],
        builtins: BuiltinsGuard,
    ) -> None:
        self.rank = rank
        self._shell = shell
        self._outputs = outputs
        self._namespace = namespace
        self._collectives = collectives
        self._frameworks = frameworks
        self._recorder = recorder
        self._carry_out_command = run_command
        self.is_cell_waiting = is_cell_waiting
        """Tells whether a cell has come that has not begun."""
        self.running_cell_id = ""
        """Read by the link thread, so that what is said is sent while the cell runs."""
        self._turn = 0
        """Number of the cell or task that has the main thread, or had it last."""
        self._is_in_user_code = False
        self._is_running = False
        self._is_interrupted_early = False
        """SIGINT has come between the beginning of a cell and that of its code."""
        self.is_in_task = False
        """Read by the link thread, too."""
        self._is_task_interrupt = False
        """The SIGINT that comes now is for the task alone."""
        self._is_next_interrupted = False
        """The cell that waits behind a task was interrupted before it began."""
        self.was_interrupted = False
        """SIGINT has come in the last push or pull."""
        self._main = threading.get_ident()
        self._lost: CommunicatorError | None = None
        """What the device has lost in this cell, even if user code has swallowed it."""
        self._handlers = UserHandlers()
        set_handler(_SIGINT, self._on_idle_interrupt)
        set_handler(WAKING_SIGNAL, self._raise_lost)
        SwallowedInterrupts(lambda: self._is_in_user_code and self._turn)
        self._builtins = builtins

    # --- cells and tasks ---

    def run(self, cell: RunCell) -> CellResult:
        """Run the cell to its end, whatever that is."""
        self._is_interrupted_early, self._is_next_interrupted = self._is_next_interrupted, False
        self._is_running = True
        ranks = self._namespace.all_ranks if cell.ranks is None else cell.ranks
        self._namespace.enter_cell(ranks, cell.is_checked)
        self._collectives.enter_cell(cell.cell_id, ranks)
        self._frameworks.context.enter_cell(ranks, cell.is_checked)
        self._show_code(cell.code, cell.is_plain_python)
        self._shell.execution_count = cell.label
        self.running_cell_id = cell.cell_id
        label, call = f"In[{cell.label}]", partial(self._run_cell, cell.code)
        if cell.command is not None:
            call = partial(self._run_command, cell.command)
        try:
            ending = self._carry_out(cell.cell_id, label, call, is_command=cell.command is not None)
        finally:
            self.running_cell_id = ""
            self._frameworks.context.leave_cell()
            self._collectives.leave_cell()
            self._namespace.leave_cell(cell.is_checked)
        has_value = cell.command is None and ending.error is None and ending.value is not None
        if has_value:
            self._namespace.keep_value(cell.label, cell.cell_id)
        return CellResult(
            rank=self.rank,
            cell_id=cell.cell_id,
            status=ending.status,
            duration_s=ending.duration_s,
            value_repr=_value_repr(ending.value, self._shell.shown_value) if has_value else None,
            error=ending.error,
            outputs=ending.outputs,
            offsets=ending.offsets,
            report=b"" if cell.command is None else ending.value or b"",
        )

    def run_task(self, task: Task) -> None:
        """Run the task to its end, and tell it; collectives refuse to begin within it."""
        if not task.claim():
            return
        try:
            ending = self._run_task(task)
        except BaseException as error:  # noqa: BLE001  (ours, or of hooks that a task has set)
            ending = Ending("raised", 0.0, None, internal_error(error), (), self._outputs.offsets)
        task.end(ending)

    def _run_task(self, task: Task) -> Ending:
        self._is_interrupted_early = self._is_task_interrupt = False
        self._is_running = self.is_in_task = True
        try:
            self._namespace.enter_cell((self.rank,), is_checked=False)
            self._frameworks.context.enter_task()
            self._show_code(task.code)
            return self._carry_out(task.task_id, task.label, partial(task.carry_out, self._shell))
        finally:
            self._is_running = self.is_in_task = False
            self._frameworks.context.leave_cell()
            self._namespace.leave_cell(is_checked=False)

    def run_transfer(
        self, transfer_id: str, label: str, work: Callable[[], Any]
    ) -> tuple[BaseException | None, Any]:
        """Pack or rebuild objects, which SIGINT ends; return the error, or the value."""
        self.was_interrupted = self._is_next_interrupted
        self._is_interrupted_early, self._is_next_interrupted = self._is_next_interrupted, False
        self._is_task_interrupt = False
        self._is_running = True
        self._turn += 1
        self._recorder.begin_cell(label, transfer_id)
        try:
            return self._run_user_code(lambda: (None, work()))
        finally:
            self._recorder.end_cell()
            self.was_interrupted |= self._is_interrupted_early
            self._is_running = False

    def interrupt_task(self) -> None:
        """Send SIGINT for the running task, and for no cell that waits behind it; any thread."""
        if not self.is_in_task:
            return
        self._is_task_interrupt = True
        signal.pthread_kill(self._main, signal.SIGINT)

    def look(self) -> None:
        """End the system call of a task that has not seen its SIGINT; on the link thread."""
        if self._is_task_interrupt and self.is_in_task:
            signal.pthread_kill(self._main, signal.SIGURG)

    def _show_code(self, code: str, is_plain_python: bool = False) -> None:
        self._shell.current_cell, self._shell.is_plain_python = code, is_plain_python
        self._shell.last_traceback, self._shell.shown_value = (), None

    def _run_cell(self, code: str) -> tuple[BaseException | None, Any]:
        self._frameworks.prepare_cell(code)
        result = self._shell.run_cell(code, store_history=False)
        self._namespace.take_back_names(code)
        return result.error_before_exec or result.error_in_exec, result.result

    def _run_command(self, command: Command) -> tuple[BaseException | None, Any]:
        try:
            call = partial(self._carry_out_command, command)
            return None, self._shell.call_in_cell(command.title, call)
        except BaseException as error:  # noqa: BLE001  (as the shell does with those of cells)
            self._shell.showtraceback()
            return error, None

    # --- what both have in common ---

    def _carry_out(self, owner: str, label: str, call: Call, *, is_command: bool = False) -> Ending:
        """Run user code until all is done that it has begun; `owner` has said what it says."""
        self._outputs.repair()
        self._outputs.owner = owner
        self._turn += 1
        self._lost = None
        start_s = perf_counter()
        self._recorder.begin_cell(label, owner, self.is_in_task)
        try:
            error, value = self._run_user_code(call)
            error = self._settle() if error is None else self._explain(error)
        finally:
            self._recorder.end_cell()
            self._is_running = False
        duration_s = perf_counter() - start_s
        self._outputs.repair()
        outputs, offsets = self._outputs.take(owner, is_final=True)
        status, info = "ok", None
        if error is not None:
            status, info = judge(error, self._shell.last_traceback, is_program=is_command)
        return Ending(status, duration_s, value, info, outputs, offsets)

    def _run_user_code(self, call: Call) -> tuple[BaseException | None, Any]:
        try:
            return self._call(call)
        finally:
            self._repair()

    def _call(self, call: Call) -> tuple[BaseException | None, Any]:
        try:
            # The interpreter's own handler, so that no frame of ours shows in the traceback.
            interrupt = signal.default_int_handler if self.running_cell_id else self._on_interrupt
            set_handler(_SIGINT, interrupt)
            if self._is_interrupted_early:
                raise KeyboardInterrupt
            self._handlers.release()
            self._is_in_user_code = True
            try:
                return call()
            finally:
                self._is_in_user_code = False
                self._handlers.contain()
                set_handler(_SIGINT, self._on_idle_interrupt)
        # Between two steps of the shell, or of a framework that got ready.
        except BaseException as error:  # noqa: BLE001  (also what hooks of users raise)
            self._repair()  # what comes now needs builtins
            self._is_in_user_code = False
            self._handlers.contain()
            set_handler(_SIGINT, self._on_idle_interrupt)
            if not is_of(error, KeyboardInterrupt):
                self._show_alone(error)
            return error, None

    def _settle(self) -> BaseException | None:
        """Wait for what the cell has queued on devices; give the error of what did not end well."""
        try:
            set_handler(_SIGINT, signal.default_int_handler)
            try:
                self._namespace.communicator.settle()
                if self._lost is not None:
                    raise self._lost
                self._frameworks.settle()
            finally:
                set_handler(_SIGINT, self._on_idle_interrupt)
        except BaseException as error:  # noqa: BLE001  (what frameworks have run)
            self._show_alone(error)
            return self._explain(error)
        return None

    def _repair(self) -> None:
        """Restore what this rank cannot run without, and say so in the cell."""
        if damaged := self._builtins.take_repaired():
            self._outputs.repair()
            sys.stderr.write(
                f"rank {self.rank}: {name_some(damaged)} had been replaced, and was restored: the "
                "rank itself runs with it.\n"
            )

    def _explain(self, error: BaseException) -> BaseException:
        """Return what an error really means: a torn connection, that a peer has failed."""
        meant = self._frameworks.explain(error)
        if meant is not error:
            self._show_alone(meant)
        return meant

    def _show_alone(self, error: BaseException) -> None:
        """Show an error that has come from no line of the cell."""
        self._shell.last_traceback = (name_error(error),)

    def _raise_lost(self, signal_number: int, frame: FrameType | None) -> None:
        """Raise in user code that what it has on its device is lost."""
        del signal_number, frame
        error = self._namespace.communicator.lost_error() if self._is_in_user_code else None
        if error is not None:
            self._lost = error
            raise error

    def _on_interrupt(self, signal_number: int, frame: FrameType | None) -> None:
        """End the running task; a cell that waits behind it was meant, too, or alone."""
        if not self._is_task_interrupt and self.is_cell_waiting():
            self._is_next_interrupted = True
        self._is_task_interrupt = False
        self.was_interrupted = True
        signal.default_int_handler(signal_number, frame)

    def _on_idle_interrupt(self, signal_number: int, frame: FrameType | None) -> None:
        """Let an interrupt that comes too late pass; one that comes early is not forgotten."""
        del signal_number, frame
        self._is_interrupted_early = self._is_running


def _value_repr(value: Any, shown: Any) -> str:
    """Return the text of the last expression's value as it was shown, or else its `repr`."""
    if shown is not None:
        return str(shown)
    try:
        return repr(value)
    except BaseException as error:  # noqa: BLE001  (a user's __repr__ may raise anything)
        return f"<{type_name(value)}, whose repr raised {type_name(error)}>"
