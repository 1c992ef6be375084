"""What a rank has to do with debuggers, its own and those of its peers, before there is any."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from time import monotonic
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

from jupyter_dist.engine.execution.rank_input import RankInput
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.messages import (
    AboutDap,
    CellResult,
    HoldDeadlines,
    Message,
    RunCell,
    StopNow,
)

if TYPE_CHECKING:
    from jupyter_dist.engine.debugging.breakpoints import Breakpoints
    from jupyter_dist.engine.debugging.dap.clients import DebuggerClients
    from jupyter_dist.engine.debugging.stops import DebuggerStops


_STOP_SIGNAL = signal.SIGURG
"""It is ignored where no one handles it, and programs hardly ever do."""
_REPLACED = (
    "rank {rank} goes on: its program has replaced the handler of SIGURG, by which ranks stop\n"
)
_OWN_HOOKS = ("", "pdb.set_trace")
"""What PYTHONBREAKPOINT says where Python's own debugger is meant."""


class RankDebugging:
    """Holds this rank's deadlines while ranks are in a debugger; imports what else is needed."""

    def __init__(
        self,
        rank: Callable[[], int],
        post: Callable[[Message], None],
        asks: RankInput,
        shell: RankShell,
    ) -> None:
        """`post` sends a message soon; any thread may call it."""
        self._rank, self._post, self._asks, self._shell = rank, post, asks, shell
        self._main, self._is_ordered = threading.get_ident(), False
        self.held = HeldTime()
        """When deadlines stood still."""

    @cached_property
    def stops(self) -> "DebuggerStops":
        """The stops of this rank, which the cluster knows of."""
        from jupyter_dist.engine.debugging.stops import DebuggerStops

        return DebuggerStops(self._rank, self._post)

    @cached_property
    def breakpoints(self) -> "Breakpoints":
        """What stops the cell at a prompt."""
        from jupyter_dist.engine.debugging.breakpoints import Breakpoints

        return Breakpoints(self._asks, self.stops, self._shell, self._rank)

    def install(self, hooks: ImportHooks) -> HeldTime:
        """Be what `breakpoint()` calls; return when deadlines stand still."""
        signal.signal(_STOP_SIGNAL, self._on_stop_signal)
        hooks.after("pdb", self._replace_set_trace)
        sys.breakpointhook = self._on_breakpoint
        return self.held

    def run(self, cell: RunCell, run: Callable[[RunCell], CellResult]) -> CellResult:
        """Run a cell with the stops that it was sent with."""
        with self.breakpoints.planned(cell.stops):
            return run(cell)

    def look(self) -> None:
        """Signal the main thread again that has not stopped: a system call may have begun since.

        Python sees signals between two instructions only. On the link thread.
        """
        if not self._is_ordered:
            return
        if signal.getsignal(_STOP_SIGNAL) == self._on_stop_signal:
            signal.pthread_kill(self._main, _STOP_SIGNAL)
            return
        self._is_ordered = False  # else a program's own handler would be called for ever
        with suppress(OSError):  # not sys.stderr, whose lock the main thread may have
            os.write(2, _REPLACED.format(rank=self._rank()).encode())

    def _replace_set_trace(self, pdb: ModuleType) -> None:
        vars(pdb)["set_trace"] = self._on_breakpoint

    def _on_stop_signal(self, _number: int, frame: FrameType | None) -> None:
        """Stop the main thread wherever it is, if the coordinator has asked for it."""
        if self._is_ordered:
            self._is_ordered = False
            self.breakpoints.stop(frame)

    def _on_breakpoint(self, *arguments: object, **options: object) -> None:
        if os.environ.get("PYTHONBREAKPOINT", "") not in _OWN_HOOKS:
            sys.__breakpointhook__(*arguments, **options)
            return
        self.breakpoints.stop(sys._getframe(1))  # noqa: SLF001  (who has called it)

    @cached_property
    def clients(self) -> "DebuggerClients":
        """Clients of debuggers that are somewhere else, as VS Code."""
        from jupyter_dist.engine.debugging.dap.clients import DebuggerClients

        return DebuggerClients(self._rank, self._post, self.stops, self._shell.compile)

    def on_message(self, message: HoldDeadlines | StopNow | AboutDap) -> None:
        """Hold deadlines, or let them go on; stop, or serve a debugger's client.

        On the link thread.
        """
        if isinstance(message, StopNow):
            self._is_ordered = bool(self.breakpoints)  # loads it: the signal may come anywhere
            self.look()
        elif not isinstance(message, HoldDeadlines):
            self.clients.on_message(message)
        elif message.is_held:
            self.held.hold(monotonic())
        else:
            self.held.release(monotonic())
