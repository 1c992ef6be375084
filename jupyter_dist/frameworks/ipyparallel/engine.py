"""A rank as an engine of ipyparallel: a thread beside the rank's own, in the same process.

It speaks for the rank and runs nothing: tasks go to the main thread one at a time, so that a cell
waits for one of them at most.
"""

import threading
import traceback
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.ipyparallel.bell import Bell
from jupyter_dist.frameworks.ipyparallel.channels import Channels, receive_all
from jupyter_dist.frameworks.ipyparallel.publishing import teach_publishing
from jupyter_dist.frameworks.ipyparallel.requests import answer_at_once, is_interrupt
from jupyter_dist.frameworks.ipyparallel.session import Dict, Speech
from jupyter_dist.frameworks.ipyparallel.tasks import Request
from jupyter_dist.frameworks.ipyparallel.turns import Seat, Turns

if TYPE_CHECKING:
    import zmq

SHOW_INTERVAL_S = 0.05
"""How often a running task's output is looked at."""
IDLE_INTERVAL_S = 0.5
SILENCE_S = 10.0
"""A controller that has not pinged for so long is gone; for longer, if it pings very rarely."""
_SILENT_BEATS = 10
_LATE_S = 2.0
"""When this thread itself was held up for so long, silence means nothing."""


class ParallelEngine(threading.Thread):
    """One membership: joins when it is started, and ends for good."""

    def __init__(self, place: Mapping[str, Any], rank: int, seat: Seat) -> None:
        super().__init__(name="parallel-engine", daemon=True)
        self._speech = Speech(place, rank)
        self._seat = seat
        self._bell = Bell()
        try:
            self._channels = Channels(place, self._speech)
        except BaseException:
            self._bell.close()
            raise
        self._turns = Turns(self._speech, self._channels, seat, self._bell.ring)
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
        self._bell.ring()
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
        self._bell.close()

    def _serve(self) -> None:
        channels = self._channels
        looked_s = pinged_s = monotonic()
        while self._is_wanted:
            interval_s = SHOW_INTERVAL_S if self._turns.is_task_running else IDLE_INTERVAL_S
            channels.wait(self._bell.descriptor, interval_s)
            now_s = monotonic()
            if list(receive_all(channels.pings)) or now_s - looked_s > _LATE_S:
                pinged_s = now_s
            looked_s = now_s
            if now_s - pinged_s > self._silence_s:
                self._reason = f"has not heard its controller for {self._silence_s:g} s"
                self._is_heard = False
                return
            self._bell.clear()
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
            case _ if is_interrupt(request):
                content = self._turns.interrupt()
            case _:
                content = answer_at_once(request)
        self._speech.say(socket, f"{request.kind}_reply", content, request.message, request.idents)
