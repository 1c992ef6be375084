"""pydevd, the debugger in debugpy, in this process: put in, connected to a socket, taken out.

debugpy itself would start an adapter process and a TCP port for it; the client's side of that is
in the process that listens for clients, and pydevd speaks the protocol without an adapter.
"""

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jupyter_dist.engine.debugging.stops import DebuggerStops
from jupyter_dist.frameworks.thread_frames import no_garbage_collected, read_calls
from jupyter_dist.model.ranks.source_files import PACKAGE_DIR, name_cell_file

_NO_CHECKS = "PYDEVD_DISABLE_FILE_VALIDATION"
"""With it, debugpy writes nothing to stderr about modules that are frozen."""
_EVERY_THREAD = "*"


class Pydevd:
    """The debugger, from its import to its end; used on one thread."""

    def __init__(self, stops: DebuggerStops) -> None:
        """Import it. Raise ImportError where debugpy is not installed."""
        self._stops = stops
        self._pid = os.getpid()
        self._breakpoint_hook = sys.breakpointhook
        with _environment(_NO_CHECKS, "1"):
            from debugpy._vendored import force_pydevd as debugpy
        self._debugpy: Any = debugpy
        self._pydevd = self._debugpy.pydevd
        self._passed_over: list[threading.Thread] = []

    def connect(self, stream: socket.socket) -> None:
        """Trace all threads but our own, and serve the client at the other end of the stream."""
        module = self._pydevd
        self._pass_over_own_threads()
        kind = module.PyDB
        module.PyDB = _make_kind(module, stream, self._stops)
        try:
            with no_garbage_collected():
                module.settrace(
                    host="rank",
                    port=0,
                    suspend=False,
                    wait_for_ready_to_run=False,
                    notify_stdin=False,
                    dont_trace_start_patterns=(PACKAGE_DIR,),
                )
        finally:
            module.PyDB = kind
        for thread in self._passed_over:  # pydevd finds those to be traced by a list without them
            thread.is_pydev_daemon_thread = True  # type: ignore[attr-defined]
        sys.breakpointhook = self._stop_at_call

    def disconnect(self) -> None:
        """Let all threads go on without it, as fast as before."""
        sys.breakpointhook = self._breakpoint_hook
        debugger, api = self._pydevd.get_global_debugger(), self._pydevd.PyDevdAPI()
        if debugger is not None:
            api.request_disconnect(debugger, resume_threads=True)
        self._pydevd.stoptrace()
        api.request_resume_thread(_EVERY_THREAD)  # one may have come to a breakpoint meanwhile
        if sys.version_info < (3, 12):  # later ones are watched by sys.monitoring, for all threads
            _end_tracing(self._pydevd.pydevd_tracing)
        for thread in self._passed_over:
            for name in ("pydev_do_not_trace", "is_pydev_daemon_thread"):
                thread.__dict__.pop(name, None)

    def _stop_at_call(self, *_arguments: object, **_named: object) -> None:
        """Stop in the line that has called breakpoint().

        debugpy stops behind it: that may be in IPython, and with sys.monitoring in debugpy itself.
        """
        module, thread = self._pydevd, threading.current_thread()
        debugger = module.get_global_debugger()
        if debugger is None or os.getpid() != self._pid:
            return  # there is no client, or none of this process
        frame = sys._getframe(1)  # noqa: SLF001
        while frame.f_code.co_filename.startswith(PACKAGE_DIR) and frame.f_back is not None:
            frame = frame.f_back
        module.set_additional_thread_info(thread)
        debugger.enable_tracing()  # of this thread, which C may have started
        debugger.set_suspend(thread, module.CMD_SET_BREAK)
        try:
            debugger.do_wait_suspend(thread, frame, "line", None)
        except BaseException:  # as of an interrupt: it would stop again with the next line
            module.PyDevdAPI().request_resume_thread(module.get_current_thread_id(thread))
            raise

    def _pass_over_own_threads(self) -> None:
        """Have pydevd leave threads of this package alone, this one among them."""
        for thread in threading.enumerate():
            target = getattr(thread, "_target", None)
            module = getattr(type(thread) if target is None else target, "__module__", None)
            if (module or "").partition(".")[0] == __name__.partition(".")[0]:
                thread.pydev_do_not_trace = True  # type: ignore[attr-defined]
                self._passed_over.append(thread)


def _make_kind(module: Any, stream: socket.socket, stops: DebuggerStops) -> type:
    """Return the kind of debugger that a rank has."""

    class RankPyDB(module.PyDB):  # type: ignore[misc]
        """Is connected already, and has the cluster know of its stops."""

        def connect(self, _host: str, _port: int) -> None:
            self._client_socket = stream
            self.initialize_network(stream)

        def do_wait_suspend(
            self, thread: Any, frame: FrameType, event: str, arg: Any, *more: Any, **named: Any
        ) -> None:
            if os.getpid() != pid or self.pydb_disposed:
                return  # there is no thread, or no client, that could let it go on
            if not frame.f_lineno or not self._is_of_users(frame):
                _look_at_next_lines(module, thread)
                return  # it is asked again with the next line; before the first it is line 0
            with stops.stopped(_place_of(frame)):
                super().do_wait_suspend(thread, frame, event, arg, *more, **named)

        def _is_of_users(self, frame: FrameType | None) -> bool:
            """Return whether a thread may stop here: not while it serves the channel."""
            while frame is not None:
                file = frame.f_code.co_filename
                if file.startswith(PACKAGE_DIR):
                    return False
                if file[:1] != "<" and self.in_project_scope(frame):
                    return True
                frame = frame.f_back
            return True

    pid = os.getpid()
    return RankPyDB


def _look_at_next_lines(module: Any, thread: Any) -> None:
    """Have pydevd ask again wherever the thread goes: a step by sys.monitoring sees one frame."""
    info = thread.additional_info
    if sys.version_info >= (3, 12) and info.pydev_step_cmd != module.CMD_STEP_INTO:
        info.pydev_step_cmd, info.pydev_step_stop = module.CMD_STEP_INTO, None
        info.update_stepping_info()
        module.pydevd_sys_monitoring.update_monitor_events(suspend_requested=True)
        module.pydevd_sys_monitoring.restart_events()


def _place_of(frame: FrameType) -> str:
    file = frame.f_code.co_filename
    return f"{name_cell_file(file) or file}:{frame.f_lineno}"


def _end_tracing(pydevd_tracing: Any) -> None:
    """Have each thread end its own tracing with the next line or call; no other thread can."""
    with no_garbage_collected():
        pydevd_tracing.set_trace_to_threads(_untrace, create_dummy_thread=False)
    for calls in read_calls().values():
        for frame, _line in calls:
            if frame.f_trace is not None or frame is calls[-1][0]:
                frame.f_trace = _untrace
    sys.settrace(None)


def _untrace(frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
    sys.settrace(None)
    frame.f_trace = None
    return None


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
