"""A cell that runs while its notebook goes on."""

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol

from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.spmd import CellWatcher, Gathering, QuestionWatcher, gather, give_up
from jupyter_dist.cluster.variables.values_of_cells import Fetch
from jupyter_dist.errors import CellInterrupted, CellRefused
from jupyter_dist.model.hosts.axes import NO_AXES, Axes
from jupyter_dist.protocol.messages import Output, RankFinished, SubmitCell, WithdrawCell


class EndWatcher(CellWatcher, Protocol):
    """A CellWatcher that is told of the end, too."""

    def finish(self, result: SpmdResult | None) -> None:
        """Take in how the cell has ended; None: it is not known."""

    def show_again(self) -> None:
        """Show the end once more, on the thread that has waited for it."""


class BackgroundCell:
    """A cell on its way: waiting for what was begun before it, running, or done."""

    def __init__(
        self,
        line: Connection,
        request: SubmitCell,
        watcher: EndWatcher | None,
        fetch: Fetch,
        axes: Axes = NO_AXES,
    ) -> None:
        """Send the request on a line of its own, which is closed when the cell is over.

        Returns when the cluster has it: what is begun later waits for it.
        """
        from jupyter_dist.cluster.asking.desk import Desk

        self._line = line
        self._request = request
        self._watcher = watcher
        self._gathering = Gathering(request, self, fetch=fetch, axes=axes)
        self._wishes: list[str] = []
        """Grows with the first call of `cancel`."""
        self._ended: Future[SpmdResult] = Future()
        self._desk = Desk(line, self.on_note)
        self._is_taken = threading.Event()
        # A cell outlives its program: the interpreter does not wait for it.
        name = f"background-In[{request.label}]"
        work = partial(copy_context().run, self._run)  # so that what is shown belongs to this cell
        threading.Thread(target=work, name=name, daemon=True).start()
        self._is_taken.wait()

    def __repr__(self) -> str:
        state = repr(self._ended.result()) if self._is_known else "running or waiting"
        if self._ended.done() and not self._is_known:
            state = str(self._ended.exception())
        return f"<BackgroundCell In[{self._request.label}]: {state}>"

    @property
    def _is_known(self) -> bool:
        return self._ended.done() and self._ended.exception() is None

    @property
    def is_done(self) -> bool:
        """It has ended on every rank, or will never run."""
        return self._ended.done()

    @property
    def result(self) -> SpmdResult | None:
        """What came of it, also when that is an error; None while it has not ended.

        Raises what `run` raises where there is no result, as ClusterGone.
        """
        return self._ended.result() if self._ended.done() else None

    def wait(self, timeout_s: float | None = None) -> SpmdResult:
        """Wait until it has ended; return what came of it.

        Without a limit of time a person is asked what its ranks ask meanwhile.
        Raises TimeoutError when it still runs after `timeout_s` seconds, what `raise_first` raises
        when a rank did not end well, and what `run` raises. Ctrl-C ends the waiting, not the cell.
        """
        try:
            self._desk.wait(self._ended, timeout_s)
        except NotYet:
            raise TimeoutError(
                f"In[{self._request.label}] still runs after {timeout_s:g} s; it goes on"
            ) from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"In[{self._request.label}] goes on; cancel() of its BackgroundCell ends it"
            ) from None
        result = self._ended.result()
        if self._watcher is not None:
            self._watcher.show_again()
        result.raise_first()
        return result

    def cancel(self) -> None:
        """Interrupt it on the ranks, or take it back if it has not begun, without waiting."""
        if not self._wishes and not self._ended.done():
            self._wishes.append("cancel")

    def __await__(self) -> Generator[Any, None, SpmdResult]:
        """Wait for its end in a coroutine; otherwise as `wait`."""
        import asyncio

        result = yield from asyncio.wrap_future(self._ended).__await__()
        result.raise_first()
        return result

    # --- on its thread ---

    def _run(self) -> None:
        try:
            with closing(self._line) as line:
                withdrawal = WithdrawCell(self._request.request_id)
                interrupt = partial(line.send, withdrawal)
                gather(line, self._gathering, interrupt, self._wishes, self._desk)
            result = self._gathering.result()
        except BaseException as problem:  # noqa: BLE001  (raised where someone waits for it)
            self._finish(problem)
            self._ended.set_exception(problem)
        else:
            self._finish(result)
            self._ended.set_result(result)
        self._is_taken.set()

    def _finish(self, end: SpmdResult | BaseException) -> None:
        with suppress(Exception):
            self._desk.look(None)
        if self._watcher is None:
            return
        with suppress(Exception):  # what cannot be shown has its result all the same
            if isinstance(end, SpmdResult):
                self._watcher.finish(end)
            elif self._wishes and isinstance(end, CellRefused):  # it is taken back, as was wished
                give_up(self._watcher, CellInterrupted(str(end)))
            else:
                give_up(self._watcher, end)

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """Pass on what these ranks said."""
        if self._watcher is not None:
            self._watcher.on_output(ranks, outputs)

    def on_finished(self, result: RankFinished) -> None:
        """Pass on how it ended on a rank."""
        if self._watcher is not None:
            self._watcher.on_finished(result)

    def on_note(self, text: str) -> None:
        """Pass on a sentence for the person."""
        if self._watcher is not None:
            self._watcher.on_note(self._desk.add_hint(text))

    def on_question(self) -> bool:
        """Have everything shown; return whether the watcher may be called while a person types."""
        watcher: object = self._watcher
        return isinstance(watcher, QuestionWatcher) and watcher.on_question()

    def on_tick(self) -> None:
        """Let the watcher redraw, and note that the cluster has the cell."""
        if self._gathering.is_taken:
            self._is_taken.set()
        if self._watcher is not None:
            self._watcher.on_tick()
