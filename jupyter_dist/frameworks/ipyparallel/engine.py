"""A rank as an engine of ipyparallel: a thread beside the rank's own, in the same process.

It speaks for the rank and runs nothing: tasks go to the main thread one at a time, so that a cell
waits for one of them at most.
"""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any

import ipyparallel

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.ipyparallel.channels import Channels, receive_all
from jupyter_dist.frameworks.ipyparallel.session import Dict, MessageSession, refusal
from jupyter_dist.frameworks.ipyparallel.task_queue import Seat, TaskQueue
from jupyter_dist.frameworks.ipyparallel.tasks import Request
from jupyter_dist.version import __version__

if TYPE_CHECKING:
    import zmq

SHOW_INTERVAL_S = 0.05
"""How often a running task's output is looked at."""
IDLE_INTERVAL_S = 0.5
SILENCE_S = 10.0
"""A controller that has not pinged for so long is gone; for longer, if it pings very rarely."""
_SILENT_BEATS = 10
_PUBLISHING = "ipyparallel.datapub"
_LATE_S = 2.0
"""When this thread itself was held up for so long, silence means nothing."""


class Waker:
    """A pipe that any thread rings, to wake the engine's.

    Also after it was closed: then nothing is written anywhere.
    """

    def __init__(self) -> None:
        self.descriptor, self._ringer = os.pipe()
        """Can be read from when it has rung."""
        for end in (self.descriptor, self._ringer):
            os.set_blocking(end, False)
        # Whatever is opened next gets the numbers of what is closed here.
        self._door = threading.Lock()

    def ring(self) -> None:
        """Wake who waits."""
        with self._door:
            if self._ringer >= 0:
                with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
                    os.write(self._ringer, b"!")

    def clear(self) -> None:
        """Forget that it has rung; only the thread that closes it may."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.descriptor, 4096)

    def close(self) -> None:
        """Ring no more."""
        with self._door:
            os.close(self._ringer)
            self._ringer = -1
        os.close(self.descriptor)


class ParallelEngine(threading.Thread):
    """One membership: joins when it is started, and ends for good."""

    def __init__(self, place: Mapping[str, Any], rank: int, seat: Seat) -> None:
        super().__init__(name="parallel-engine", daemon=True)
        self._speech = MessageSession(place, rank)
        self._seat = seat
        self._waker = Waker()
        try:
            self._channels = Channels(place, self._speech)
        except BaseException:
            self._waker.close()
            raise
        self._turns = TaskQueue(self._speech, self._channels, seat, self._waker.ring)
        self._silence_s = SILENCE_S
        self._is_wanted = True
        self._is_heard = False
        """The controller has it as an engine, and was not silent for too long."""
        self._reason = ""

    def start(self) -> None:
        """Begin; raises RuntimeError, with nothing left open, where threads cannot be had."""
        try:
            super().start()
        except RuntimeError:
            self._close()
            raise

    def leave(self, timeout_s: float) -> None:
        """End the membership, and wait until that is done; a task that runs goes on unheard."""
        self._is_wanted = False
        self._waker.ring()
        self.join(timeout_s)

    # --- its life ---

    def run(self) -> None:
        """Join, serve and leave."""
        problem = "it has not joined"
        try:
            problem = self._join()
            self._seat.tell_joined(problem)
            if not problem:
                self._is_heard = True
                teach_publishing(self._turns.publish_data)
                self._serve()
        except Exception as error:  # noqa: BLE001  (the rank, with the user's state, lives on)
            traceback.print_exc()
            what = f"{type(error).__name__}: {error}"
            self._reason = f"could not go on as an engine: {what}"
            if problem:
                self._seat.tell_joined(what)
        finally:
            self._end()
        if not problem:
            self._seat.tell_left(self._reason)

    def _join(self) -> str:
        try:
            period_s = self._channels.join(lambda: self._is_wanted)
            self._silence_s = max(SILENCE_S, _SILENT_BEATS * period_s)
        except (FrameworkError, ValueError, KeyError) as error:
            return str(error)
        return ""

    def _end(self) -> None:
        self._turns.end()
        if self._is_heard:
            # Clients hear at once that an engine has left, and call tasks without an answer lost.
            self._channels.await_passed(self._turns.last_answers)
        self._channels.unregister()
        self._close()

    def _close(self) -> None:
        self._channels.close()
        self._waker.close()

    def _serve(self) -> None:
        channels = self._channels
        looked_s = pinged_s = monotonic()
        while self._is_wanted:
            interval_s = SHOW_INTERVAL_S if self._turns.is_task_running else IDLE_INTERVAL_S
            channels.wait(self._waker.descriptor, interval_s)
            now_s = monotonic()
            if list(receive_all(channels.pings)) or now_s - looked_s > _LATE_S:
                pinged_s = now_s
            looked_s = now_s
            if now_s - pinged_s > self._silence_s:
                self._reason = f"has not heard its controller for {self._silence_s:g} s"
                self._is_heard = False
                return
            self._waker.clear()
            self._take_in()
            self._turns.look(now_s)

    # --- requests ---

    def _take_in(self) -> None:
        # Control first: what it aborts may come in the same moment.
        for socket in (self._channels.control, self._channels.shell):
            for frames in receive_all(socket):
                try:
                    idents, message = self._speech.understand(frames)
                    self._on_request(socket, Request(idents, message))
                except (ValueError, TypeError, KeyError):
                    # From whoever has the keys, so it is no attack: the log of the rank has it.
                    traceback.print_exc()
        self._turns.take_in()

    def _on_request(self, socket: "zmq.Socket[bytes]", request: Request) -> None:
        if not request.is_question:
            return  # of a widget, say: a rank has none that a client could reach
        if self._turns.take(request):
            return
        match request.kind:
            case "abort":
                self._turns.abort(request.content.get("msg_ids"))
                content: Dict = {"status": "ok"}
            case "shutdown":
                content = {"status": "ok", "restart": bool(request.content.get("restart", False))}
                self._reason = (
                    "was told to shut down by a client of ipyparallel, and left its controller; "
                    "the rank goes on, and %dist_stop ends the cluster"
                )
                self._is_wanted = False
            case _ if _is_interrupt(request):
                content = self._turns.interrupt()
            case _:
                content = _answer_at_once(request)
        self._speech.say(socket, f"{request.kind}_reply", content, request.message, request.idents)


def teach_publishing(publish: Callable[[dict[str, Any]], None]) -> None:
    """Have `ipyparallel.datapub.publish_data` be this one: theirs makes a kernel's shell."""
    module = ModuleType(_PUBLISHING, "Publish objects while a task runs.")
    module.publish_data = publish  # type: ignore[attr-defined]
    sys.modules[_PUBLISHING] = ipyparallel.datapub = module


# --- requests that are answered without the main thread ---


def _is_interrupt(request: Request) -> bool:
    """Return whether it asks for SIGINT, by its name or its number."""
    asked = request.content.get("sig") if request.kind == "signal" else None
    return request.kind == "interrupt" or asked in (signal.SIGINT.name, signal.SIGINT)


_KERNEL = {
    "protocol_version": "5.3",
    "implementation": "jupyter-dist",
    "implementation_version": __version__,
    "language_info": {"name": "python", "mimetype": "text/x-python", "file_extension": ".py"},
    "banner": "A rank of jupyter-dist",
    "help_links": [],
}
_ANSWERS: dict[str, Dict] = {
    "kernel_info": _KERNEL,
    "history": {"history": []},
    "comm_info": {"comms": {}},
}


def _answer_at_once(request: Request) -> Dict:
    """Return what is answered to this request; one that is not known is refused."""
    if request.kind == "signal":
        return refusal(
            f"an engine of jupyter-dist takes no signal {request.content.get('sig')!r}. Accepted: "
            "SIGINT. A rank ends with its cluster (%dist_stop), or is replaced (%dist_heal)."
        )
    if request.kind in _ANSWERS:
        return {"status": "ok", **_ANSWERS[request.kind]}
    return refusal(f"an engine of jupyter-dist does not answer {request.kind!r} requests")
