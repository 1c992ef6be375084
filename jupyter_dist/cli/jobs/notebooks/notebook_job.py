"""Runs a notebook in a kernel of its own, from its first cell to its last or to the first failure.

nbclient executes the cells; which of them run on ranks, and what these say, the kernel tells.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellExecutionError, DeadKernelError

from jupyter_dist.cli.jobs.notebooks.notebook_client import JobClient
from jupyter_dist.cli.jobs.notebooks.notebook_file import write_notebook
from jupyter_dist.cli.jobs.restarts import Outcome
from jupyter_dist.cli.jobs.termination import ENDS_WITHIN_S, REASON
from jupyter_dist.cluster.asking.front_end import JOB_VARIABLE
from jupyter_dist.cluster.jobs.exit_status import (
    INTERRUPTED,
    RAISED,
    TERMINATED,
    TIMED_OUT,
    status_of_process,
)
from jupyter_dist.errors import DistError

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from jupyter_dist.cli.jobs.notebooks.notebook_shows import BackgroundRun, NotebookShow
    from jupyter_dist.cluster.cluster import Cluster

TICK_S = 0.1
SAVE_INTERVAL_S = 30.0
"""How often a cell that runs for long is saved, when it says something."""
INTERRUPT_PATIENCE_S = 20.0
"""The ladder on ranks takes 3.5 s; who has not ended by then is in native code."""
_ENDS = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
_LONGEST_SOCKET = 90
"""The system takes 107 bytes, and each socket has a number."""
_MAY_FAIL = "raises-exception"
"""nbclient's tag of cells that may."""
_WELL = ("", "0", "None")
"""Statuses with which a cell ends a notebook well."""


class CellOutcome(msgspec.Struct, frozen=True):
    """How a code cell has ended."""

    number: int
    """Counted from 1, code cells only."""
    source: str
    status: str = "not run"
    """ok, failed or not run."""
    seconds: float = 0.0
    error: str = ""
    message: str = ""
    traceback: str = ""


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a notebook runs."""

    path: Path
    output: Path | None = None
    kernel: str
    cluster: str = ""
    """Name of that on which its cells run; empty: it starts its own."""
    cwd: str | None = None
    timeout_s: float | None = None


class NotebookJob:
    """One run of a notebook; `cells` says how each has ended."""

    def __init__(self, notebook: "NotebookNode", options: JobOptions, show: "NotebookShow") -> None:
        self._notebook = notebook
        self._options = options
        self._show = show
        self._outcome = Outcome()
        self._unwritten = ""
        self._ended_by: tuple[int, str] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._no_cell_runs = asyncio.Event()
        self._interrupted: list[BackgroundRun] = []
        """Cells that went on beside others when the first of them was interrupted."""
        self._is_given_up = False
        self._next_save_s = float("inf")
        self._code_cells = [
            (place, cell)
            for place, cell in enumerate(notebook.cells)
            if cell.cell_type == "code" and cell.source.strip()
        ]
        self.cells = [
            CellOutcome(number, cell.source) for number, (_, cell) in enumerate(self._code_cells, 1)
        ]

    def run(self) -> Outcome:
        """Run it; return how it has ended. Raise what the kernel's manager raises."""
        handlers = {number: signal.getsignal(number) for number in _ENDS}
        try:
            asyncio.run(self._run())
        finally:
            for number, handler in handlers.items():  # asyncio leaves the system's own
                signal.signal(number, handler)
        return self._outcome.with_problem(self._unwritten) if self._unwritten else self._outcome

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for number, status in _ENDS.items():
            loop.add_signal_handler(number, self._stop, status, f"ended by {number.name}")
        timer = None
        if (limit_s := self._options.timeout_s) is not None:
            over = f"the time limit of {limit_s:g} s was over"
            timer = loop.call_later(limit_s, self._stop, TIMED_OUT, over)
        try:
            with tempfile.TemporaryDirectory(prefix="jupyter-dist-") as folder:
                self._kernel = _make_manager(self._options.kernel, folder)
                await self._run_in_kernel()
        finally:
            if timer is not None:
                timer.cancel()
            self._save()

    async def _run_in_kernel(self) -> None:
        options = self._options
        env = {
            **os.environ,
            JOB_VARIABLE: options.cluster,
            "JPY_SESSION_NAME": str(options.path),
        }
        try:
            await self._kernel.start_kernel(env=env, cwd=options.cwd or os.getcwd())
            client = JobClient(self._notebook, self._show, km=self._kernel, on_message=self._hear)
            await client.async_start_new_kernel_client()
            await self._run_cells(client)
            client.set_widgets_metadata()
            if client.kc is not None:
                client.kc.stop_channels()
        except asyncio.CancelledError:  # while no cell ran
            self._fail(*(self._ended_by or (RAISED, "it was cancelled")))
        except RuntimeError as problem:  # it has not come up
            self._fail(RAISED, f"the kernel {options.kernel!r} did not start: {problem}")
        finally:
            if self._kernel.has_kernel:
                await self._kernel.shutdown_kernel(now=self._is_given_up)

    async def _run_cells(self, client: JobClient) -> None:
        for index, (place, cell) in enumerate(self._code_cells):
            if self._ended_by is not None:
                break
            number = index + 1
            self._show.begin_cell(number, len(self._code_cells), cell.source)
            self._save()
            self._next_save_s = time.monotonic() + SAVE_INTERVAL_S
            outcome = await self._run_cell(client, place, self.cells[index])
            self.cells[index] = outcome
            self._show.end_cell(outcome.status, outcome.seconds, outcome.error, outcome.message)
            if outcome.status != "ok":
                await self._hear_background(client, INTERRUPT_PATIENCE_S)
                return
            if outcome.error:  # sys.exit(0)
                break
        await self._await_background(client)
        if self._ended_by is not None:  # the cell has saved, or would not be interrupted
            self._fail(*self._ended_by)

    async def _await_background(self, client: JobClient) -> None:
        """Wait for cells that go on beside others; the first that has not ended well is told."""
        if not await self._hear_background(client):
            self._fail(RAISED, "the kernel of the notebook has ended")
            return
        for run in self._show.background:
            _, cell = self._code_cells[run.cell - 1]
            if run.end is None or run.end.exit_status in (0, INTERRUPTED):  # as by cancel()
                continue
            if _MAY_FAIL in cell.metadata.get("tags", ()):
                continue
            self._show.failure = run.end
            self._fail(run.end.exit_status, f"cell {run.cell}: {run.end.problem}")
            failed = self.cells[run.cell - 1]
            self.cells[run.cell - 1] = msgspec.structs.replace(
                failed, status="failed", error="CellFailed", message=run.end.problem
            )
            return

    async def _hear_background(self, client: JobClient, patience_s: float | None = None) -> bool:
        """Hear the ends of cells that go on beside others; return False where the kernel has ended.

        With a patience, and once the job is to end, they are interrupted, one after the other.
        """
        over_s = float("inf") if patience_s is None else time.monotonic() + patience_s
        while (left := self._show.running_beside) and time.monotonic() < over_s:
            is_over = patience_s is not None if self._ending is None else self._ending.done()
            if is_over and left != self._interrupted:  # the next one runs now
                self._interrupted = left
                await asyncio.to_thread(_interrupt, self._cluster)
            if not await self._kernel.is_alive():
                return False
            await client.hear_late(TICK_S)
            self._show.tick()
        return True

    async def _run_cell(self, client: JobClient, place: int, cell: CellOutcome) -> CellOutcome:
        """Run a cell, and say why it has failed, if it has."""
        began_s = time.monotonic()
        ticking = asyncio.ensure_future(self._tick())
        self._no_cell_runs.clear()
        error = message = traceback = ""
        try:
            await client.async_execute_cell(self._notebook.cells[place], place)
        except CellExecutionError as problem:
            error, message, traceback = problem.ename, problem.evalue, problem.traceback
        except DeadKernelError:
            error, message = "DeadKernelError", "the kernel of the notebook has ended"
        finally:
            ticking.cancel()
            self._no_cell_runs.set()
            seconds = time.monotonic() - began_s
        is_well = not error or (error == "SystemExit" and message in _WELL)
        if not is_well:
            why = f"{error}: {message}" if message else error
            if self._show.failure is not None:
                why = self._show.failure.problem
            self._fail(await self._status_of(error, message), f"cell {cell.number}: {why}")
        return msgspec.structs.replace(
            cell,
            status="ok" if is_well else "failed",
            seconds=seconds,
            error=error,
            message=message,
            traceback=traceback,
        )

    async def _status_of(self, error: str, message: str) -> int:
        if self._ended_by is not None:
            return self._ended_by[0]
        if self._show.failure is not None:
            return self._show.failure.exit_status
        if error == "DeadKernelError" and self._kernel.provisioner is not None:
            return status_of_process(await self._kernel.provisioner.poll())
        is_status = error == "SystemExit" and message.isdecimal()
        return int(message) & 0xFF if is_status else RAISED

    def _fail(self, status: int, problem: str) -> None:
        if self._ended_by is not None and self._ended_by[1] not in problem:
            problem = f"{self._ended_by[1]}; {problem}"
        failure = self._show.failure
        is_lost = self._ended_by is None and failure is not None and failure.is_lost
        self._outcome = Outcome(status, problem, is_lost)

    def _stop(self, status: int, why: str) -> None:
        """Interrupt the cell that runs; a second signal ends the kernel."""
        if self._ended_by is not None:
            if status != TIMED_OUT:
                self._give_up()
            return
        self._ended_by = status, why
        self._ending = asyncio.ensure_future(self._end(status))

    async def _end(self, status: int) -> None:
        """Interrupt the cell that runs; before that let ranks save, if a scheduler says so."""
        if status == TERMINATED and self._cluster:
            await self._let_save(self._cluster)
        if self._show.running_beside:
            self._interrupted = self._show.running_beside
            await asyncio.to_thread(_interrupt, self._cluster)
        if self._kernel.has_kernel:
            await self._kernel.interrupt_kernel()
        asyncio.get_running_loop().call_later(INTERRUPT_PATIENCE_S, self._give_up)

    async def _let_save(self, cluster: str) -> None:
        """Have ranks save and the cell end: an interrupt just then takes its answer away."""
        has_saved = await asyncio.to_thread(_let_save, cluster)
        if has_saved:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._no_cell_runs.wait(), ENDS_WITHIN_S)

    @property
    def _cluster(self) -> str:
        """Name of that on which a cell has run last, or may; empty: none yet."""
        return self._show.cluster or self._options.cluster

    def _give_up(self) -> None:
        self._is_given_up = True
        if self._task is not None:
            self._task.cancel()

    def _hear(self, kind: str, content: Mapping[str, Any]) -> None:
        self._show.take_message(kind, content)
        if time.monotonic() >= self._next_save_s:
            self._next_save_s = time.monotonic() + SAVE_INTERVAL_S
            self._save()

    async def _tick(self) -> None:
        """Let the view of a cell on ranks redraw, as often as `CellWatcher` says."""
        while True:
            await asyncio.sleep(TICK_S)
            self._show.tick()

    def _save(self) -> None:
        """Write the output; what keeps that from being written is reported at the end."""
        if self._options.output is None:
            return
        try:
            write_notebook(self._notebook, self._options.output)
            self._unwritten = ""
        except OSError as problem:
            self._unwritten = f"{self._options.output} was not written: {problem.strerror}"


def _make_manager(kernel: str, folder: str) -> AsyncKernelManager:
    """Return what starts a kernel whose sockets are in a folder that no other user can read.

    Where its path is too long for a socket, it is a kernel at ports of this machine, as ever.
    """
    sockets = f"{folder}/kernel"
    if len(sockets) > _LONGEST_SOCKET:
        return AsyncKernelManager(kernel_name=kernel)
    return AsyncKernelManager(kernel_name=kernel, transport="ipc", ip=sockets)


def _let_save(cluster: str) -> bool:
    """Have the ranks of a cluster save; return whether one wants to know."""
    from jupyter_dist.cluster.jobs.announcement import announce_end

    return bool(_have(cluster, lambda visited: announce_end(visited, REASON)))


def _interrupt(cluster: str) -> None:
    _have(cluster, lambda visited: visited.interrupt())


def _have(name: str, act: Callable[["Cluster"], object]) -> object:
    """Do something on a cluster; one that has gone has nothing to save or to interrupt."""
    from jupyter_dist.cluster.cluster import Cluster

    with suppress(DistError):
        visited = Cluster.visit(name)
        try:
            return act(visited)
        finally:
            visited.detach()
    return None
