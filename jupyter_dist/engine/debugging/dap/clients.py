"""A debugger in this rank, for a client somewhere else: its messages come and go as all others."""

import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from jupyter_dist.engine.debugging.dap.cell_breakpoints import CellBreakpoints
from jupyter_dist.engine.debugging.dap.conversation import Conversation
from jupyter_dist.engine.debugging.stops import DebuggerStops
from jupyter_dist.engine.shell.cell_sources import RankCompiler
from jupyter_dist.protocol.dap import MessageReader, frame
from jupyter_dist.protocol.messages import (
    AboutDap,
    DapLeft,
    DapSaid,
    EndDap,
    HearDap,
    Message,
    StartDap,
)

_READ_BYTES = 1 << 16
_LACKING = (
    "debugpy is not installed where this rank runs ({problem}). "
    "Install it there: pip install 'jupyter-dist[debug]'"
)


class DebuggerClients:
    """Has one session at a time."""

    def __init__(
        self,
        get_rank: Callable[[], int],
        post: Callable[[Message], None],
        stops: DebuggerStops,
        sources: RankCompiler,
    ) -> None:
        self._get_rank, self._post, self._stops = get_rank, post, stops
        self._sources = sources
        self._session: _Session | None = None

    def on_message(self, message: AboutDap) -> None:
        """Do what a client asks for; on the thread in charge, without waiting."""
        if isinstance(message, StartDap):
            say = partial(self._say, message.session)
            end = partial(self._end, message.session)
            self._sources.writes_sources = True  # debuggers set breakpoints in files that are there
            self._session = _Session(
                message.session, say, end, self._stops, self._sources, self._session
            )
            self._session.start()
        elif self._session is None or self._session.name_of_session != message.session:
            return
        elif isinstance(message, HearDap):
            self._session.inbox.put(message.content)
        elif isinstance(message, EndDap):
            self._session.inbox.put(None)

    def _say(self, session: str, content: bytes) -> None:
        self._post(DapSaid(self._get_rank(), session, content))

    def _end(self, session: str, problem: str) -> None:
        self._post(DapLeft(self._get_rank(), session, problem))


class _Session(threading.Thread):
    """Loads the debugger, feeds it with what the client says, and takes it out at the end."""

    def __init__(
        self,
        session: str,
        say: Callable[[bytes], None],
        end: Callable[[str], None],
        stops: DebuggerStops,
        sources: RankCompiler,
        before: threading.Thread | None,
    ) -> None:
        super().__init__(name="debugger-in", daemon=True)
        self.name_of_session = session
        self.inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """What the client says; None: it has left."""
        self._say, self._end = say, end
        self._stops, self._sources, self._before = stops, sources, before
        self._cells = CellBreakpoints(self.inbox.put)
        self._conversation = Conversation(self._cells)

    def run(self) -> None:
        """Live from the first message to the last."""
        if self._before is not None:
            self._before.join()
            self._before = None
        problem = ""
        try:
            self._serve()
        except ImportError as error:
            problem = _LACKING.format(problem=error)
        except Exception as error:  # noqa: BLE001  (the debugger's; the rank lives on)
            problem = f"the debugger of this rank has failed: {type(error).__name__}: {error}"
        self._end(problem)

    def _serve(self) -> None:
        from jupyter_dist.engine.debugging.dap.pydevd_inside import Pydevd

        pydevd = Pydevd(self._stops)
        ours, its = socket.socketpair()
        hearing = threading.Thread(
            target=self._hear, args=(ours,), name="debugger-out", daemon=True
        )
        hearing.start()
        try:
            pydevd.connect(its)
            self._sources.on_file = self._cells.on_file
            while (content := self.inbox.get()) is not None:
                told, answer = self._conversation.read(content)
                if answer:
                    self._say(answer)
                if told:
                    ours.sendall(frame(told))
        finally:
            self._sources.on_file = None
            self._cells.end()
            with suppress(OSError):
                ours.shutdown(socket.SHUT_WR)
            pydevd.disconnect()
            its.close()
            hearing.join()
            ours.close()

    def _hear(self, stream: socket.socket) -> None:
        """Pass on what the debugger says, until it has said goodbye."""
        reader = MessageReader()
        try:
            while not self._conversation.is_over and (data := stream.recv(_READ_BYTES)):
                for content in reader.take(data):
                    if said := self._conversation.write(content):
                        self._say(said)
        except OSError:
            pass  # its end of the stream is closed
        finally:
            self.inbox.put(None)
