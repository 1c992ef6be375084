"""Stops of one rank: by `breakpoint()`, on order, at an error. Loaded with the first of them."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from IPython.core.error import StdinNotImplementedError

from jupyter_dist.engine.debugging.planned_stops import planned
from jupyter_dist.engine.debugging.rank_pdb import RankPdb, find_users_frame, name_place
from jupyter_dist.engine.debugging.stops import DebuggerStops
from jupyter_dist.engine.execution.rank_input import RankInput
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.engine.shell.tracebacks import begin_in_cell, up_to_our_code
from jupyter_dist.protocol.messages import Stops

PROMPT = "(Pdb) "
_CALL = "breakpoint()"
_QUIT = "q"
_OWN_THREADS = ("link", "observer", "observer-names", "nccl watcher", "nccl init", "nccl end")
"""Threads of the rank: one that waited for a person would take the rank with it."""


class Breakpoints:
    """Stops threads of the running cell, one at a time."""

    def __init__(
        self,
        asks: RankInput,
        stops: DebuggerStops,
        shell: RankShell,
        rank: Callable[[], int],
    ) -> None:
        self._asks, self._stops, self._shell, self._rank = asks, stops, shell, rank
        self._pid = os.getpid()
        self._turn = threading.RLock()
        self._own = threading.local()
        self._cell_id = ""
        """The cell that something has stopped in last."""
        self._is_off = False
        """A person has quit the debugger in that cell."""
        self._has_told = False
        """It was said in that cell what does not wait."""

    def stop(self, frame: FrameType | None) -> None:
        """Stop at the innermost frame of the user, or say on stderr why that cannot be."""
        if (found := find_users_frame(frame)) is None or not self._enter_cell():
            return
        place = name_place(found.f_code.co_filename, found.f_lineno)
        if obstacle := self._find_obstacle():
            sys.stderr.write(
                f"rank {self._rank()}: {_CALL} at {place} is passed over: {obstacle}\n"
            )
            return
        with self._turn:  # of several threads one is stopped after the other
            if not self._is_off:
                self._tell_limits()
                self._debugger().stop(found)

    @contextmanager
    def planned(self, stops: Stops | None) -> Iterator[None]:
        """Have the cell that runs in this context stop where it was asked to, on these ranks."""
        if stops is None or (stops.ranks is not None and self._rank() not in stops.ranks):
            yield
            return
        with planned(stops, self._shell, self.look_at):
            yield

    def look_at(self, error: BaseException) -> None:
        """Stop at an error that the cell is about to end with; its frames are kept meanwhile."""
        trace = begin_in_cell(up_to_our_code(error.__traceback__), self._shell.name_cell)
        if trace is None or not self._enter_cell() or self._find_obstacle():
            return
        with self._turn:
            if not self._is_off:
                self._debugger().look_at(error.with_traceback(trace), trace)

    def _enter_cell(self) -> bool:
        """Return whether this cell may be stopped; the first stop of a cell clears the last one."""
        if (cell_id := self._asks.cell_id) != self._cell_id:
            self._cell_id, self._is_off, self._has_told = cell_id, False, False
            self._shell.events.register("post_run_cell", self._leave_cell)
        return not self._is_off

    def _leave_cell(self, *_result: object) -> None:
        """Leave no trace function behind: the next cell is as fast as one before."""
        sys.settrace(None)
        if (debugger := getattr(self._own, "debugger", None)) is not None:
            debugger.clear_all_breaks()
        self._own = threading.local()
        self._cell_id = ""
        self._shell.events.unregister("post_run_cell", self._leave_cell)

    def _find_obstacle(self) -> str:
        if os.getpid() != self._pid:
            return "this process is a copy of the rank by fork"
        if threading.current_thread().name in _OWN_THREADS:
            return "it was called on a thread that the rank itself needs"
        return "" if self._asks.cell_id else "only in a cell that runs a person can be asked"

    def _tell_limits(self) -> None:
        """Say before the first stop of a cell which time-outs go on meanwhile."""
        torch = sys.modules.get("torch.distributed")
        limits = ""
        if torch is not None and torch.is_initialized():
            limits = (
                "calls of torch.distributed that other ranks have begun, and send and recv with "
                "gloo, run into their own time-out (if none was given, 90 minutes with gloo and 10 "
                "with NCCL)\n"
            )
        if "jax" in sys.modules:
            limits += (
                "collectives of JAX on CPU that other ranks have begun run into the time-out of "
                "XLA (if collective_timeout and XLA_FLAGS say nothing, 90 minutes; 30 with jaxlib "
                "before 0.8.2), and the first one of some devices into gloo's 30 seconds\n"
            )
        if limits and not self._has_told:
            self._has_told = True
            sys.stderr.write(limits)

    def _debugger(self) -> RankPdb:
        if (debugger := getattr(self._own, "debugger", None)) is None:
            debugger = self._own.debugger = RankPdb(self._ask, self._hold, self._quit)
        return debugger

    def _ask(self, place: str) -> str:
        """Return the next command; where no person can be asked, the rank goes on."""
        if self._is_off:
            return _QUIT
        try:
            command = self._asks.ask(_CALL, PROMPT, place=place)
        except StdinNotImplementedError as problem:
            sys.stderr.write(f"rank {self._rank()} goes on at {place}: {problem}\n")
            return _QUIT
        return _QUIT if command is None else command

    @contextmanager
    def _hold(self, place: str) -> Iterator[None]:
        with self._stops.stopped(place):
            yield

    def _quit(self) -> None:
        self._is_off = True
