"""The line by which a client speaks to the debugger of one rank."""

import queue
import threading
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from jupyter_dist.cluster.connection.connection import SLICE_S, Connection, raise_refusal
from jupyter_dist.control.dealer import AnswersLost
from jupyter_dist.control.poller import Poller, Waker
from jupyter_dist.errors import ClusterGone, DistError
from jupyter_dist.protocol.messages import (
    CloseDap,
    DapEnded,
    DapSpoke,
    OpenDap,
    TellDap,
)

if TYPE_CHECKING:
    from jupyter_dist.cluster.observed import ObservedCluster

_LOST = "messages of the debugger were lost while the connection was cut: attach again"


class DebuggerWatcher(Protocol):
    """Hears the debugger; called on the thread of the line."""

    def on_message(self, content: bytes) -> None:
        """Take in the JSON of one message of the protocol."""

    def on_ended(self, reason: str) -> None:
        """Take in that nothing more comes, and why."""


OpenLine = Callable[[int, DebuggerWatcher], "DebuggerLine"]


def lines_of(cluster: "ObservedCluster") -> OpenLine:
    """Return what opens a line to the debugger of a rank of this cluster."""

    def open_line(rank: int, watcher: DebuggerWatcher) -> DebuggerLine:
        line = DebuggerLine(cluster._new_line(), rank, watcher)  # noqa: SLF001
        line.start()
        return line

    return open_line


class DebuggerLine(threading.Thread):
    """Has a debugger in one rank as long as it is wanted, and the rank and the cluster live."""

    def __init__(self, line: Connection, rank: int, watcher: DebuggerWatcher) -> None:
        super().__init__(name=f"debugger-of-rank-{rank}", daemon=True)
        self._line, self._rank, self._watcher = line, rank, watcher
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waker = Waker()
        self._request_id = line.new_request_id()

    def send(self, content: bytes) -> None:
        """Send the JSON of one message to the debugger; from any thread, without waiting."""
        self._outbox.put(content)
        self._waker.wake()

    def close(self) -> None:
        """Take the debugger out of the rank; `on_ended` follows. From any thread."""
        self._outbox.put(None)
        self._waker.wake()

    def run(self) -> None:
        """Carry messages until the debugger is gone; the watcher gets the reason."""
        reason = "the debugger has ended"
        try:
            with closing(self._line), self._line.lock:
                self._line.send(OpenDap(self._request_id, self._rank))
                reason = self._serve()
        except AnswersLost:
            reason = _LOST
        except (ClusterGone, DistError) as problem:  # its end, or a refusal
            reason = str(problem)
        finally:
            self._waker.close()
            self._watcher.on_ended(reason)

    def _serve(self) -> str:
        poller = Poller()
        poller.add(self._line)
        poller.add(self._waker)
        while True:
            poller.wait(SLICE_S)
            self._waker.clear()
            while not self._outbox.empty():
                content = self._outbox.get()
                if content is None:
                    self._line.send(CloseDap(self._request_id))
                else:
                    self._line.send(TellDap(self._request_id, content))
            for message, _frames in self._line.receive(0.0):
                if isinstance(message, DapSpoke):
                    self._watcher.on_message(message.content)
                elif isinstance(message, DapEnded):
                    return message.reason
                else:
                    raise_refusal(message)
