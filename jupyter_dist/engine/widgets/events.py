"""What a page says to the widgets of this rank: handled in its order, between cells."""

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from jupyter_dist.engine.execution.executor import Ending, Executor
from jupyter_dist.engine.widgets.rank_comms import RankComms
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    WIDGET_EVENT,
    CommHandled,
    CommReceived,
    Message,
    Output,
    TaskBegan,
    TaskEnded,
)

MOST_WAITING = 1000
MOST_WAITING_BYTES = 64 << 20
TOLD_AFTER_S = 0.3
"""So long an event has the main thread before the coordinator hears of it."""


@dataclass(frozen=True)
class _Event:
    comm_id: str
    number: int
    kind: str
    content: dict[str, Any]
    buffers: list[Frame]
    size: int

    @property
    def changes(self) -> dict[str, Any] | None:
        """The values that it changes, if it does nothing else."""
        data = self.content.get("data")
        if self.buffers or not isinstance(data, dict) or data.get("method") != "update":
            return None
        state = data.get("state")
        return state if isinstance(state, dict) else None

    def followed_by(self, later: "_Event") -> "_Event | None":
        """Return one event for both, if they only change values of one widget: a slider moves."""
        before, after = self.changes, later.changes
        if self.comm_id != later.comm_id or before is None or after is None:
            return None
        data = {**self.content["data"], "state": {**before, **after}}
        return replace(later, content={**later.content, "data": data})


class WidgetEvents:
    """Events wait for the main thread; those that come too fast are put together."""

    def __init__(
        self,
        comms: RankComms,
        executor: Executor,
        post: Callable[[Message], None],
        hand_over: Callable[[Callable[[], None]], None],
    ) -> None:
        self._comms = comms
        self._executor = executor
        self._post, self._hand_over = post, hand_over
        self._door = threading.Lock()
        self._waiting: deque[_Event] = deque()
        self._running_since_s: float | None = None
        self._is_told = False

    def take(self, message: CommReceived, buffers: list[Frame]) -> None:
        """Let an event wait for its turn; on the thread in charge of the channel."""
        size = len(message.content) + sum(memoryview(buffer).nbytes for buffer in buffers)
        try:
            content = json.loads(message.content)
        except ValueError as problem:
            self._refuse(message, f"it is not JSON: {problem}")
            return
        event = _Event(message.comm_id, message.number, message.kind, content, buffers, size)
        with self._door:
            merged = self._waiting[-1].followed_by(event) if self._waiting else None
            is_full = len(self._waiting) >= MOST_WAITING
            is_full |= sum(each.size for each in self._waiting) + size > MOST_WAITING_BYTES
            if merged is not None:
                self._waiting[-1] = merged
            elif not is_full:
                self._waiting.append(event)
        if merged is None and is_full:
            self._refuse(message, f"{MOST_WAITING} events wait already")
        elif merged is None:
            self._hand_over(self._run_next)

    def look(self) -> None:
        """Let the coordinator know of an event that takes long; on the link thread."""
        since_s = self._running_since_s
        if since_s is None or self._is_told or monotonic() - since_s < TOLD_AFTER_S:
            return
        self._is_told = True
        self._post(TaskBegan(self._executor.rank, WIDGET_EVENT, monotonic() - since_s))

    def _refuse(self, message: CommReceived, why: str) -> None:
        said = Output("stderr", f"an event of a widget was left out: {why}\n")
        rank = self._executor.rank
        self._post(CommHandled(rank, message.comm_id, message.number, (said,)))

    # --- on the main thread ---

    def _run_next(self) -> None:
        with self._door:
            event = self._waiting.popleft()
        self._running_since_s = monotonic()
        try:
            self._executor.run_task(_EventTask(event, self._comms, self._end))
        finally:
            self._running_since_s = None
            if self._is_told:
                self._is_told = False
                self._post(TaskEnded(self._executor.rank))

    def _end(self, event: _Event, outputs: tuple[Output, ...]) -> None:
        self._post(CommHandled(self._executor.rank, event.comm_id, event.number, outputs))


class _EventTask:
    """One event, as the executor runs it."""

    code = ""
    label = WIDGET_EVENT

    def __init__(
        self,
        event: _Event,
        comms: RankComms,
        tell: Callable[[_Event, tuple[Output, ...]], None],
    ) -> None:
        self._event, self._comms, self._tell = event, comms, tell
        self._shown_error = ""
        self.task_id = f"widget {event.comm_id} {event.number}"

    def claim(self) -> bool:
        return True

    def carry_out(self, shell: Any) -> tuple[BaseException | None, Any]:
        comm = self._comms.find(self._event.comm_id)
        if comm is None:  # closed meanwhile
            return None, None
        event = self._event
        content = {**event.content, "comm_id": event.comm_id}
        message = {"content": content, "buffers": event.buffers, "metadata": {}, "header": {}}
        try:
            if event.kind == "close":
                comm.handle_close(message)
            else:
                comm.handle_msg(message)
        except BaseException as error:  # noqa: BLE001  (whatever a callback raises)
            shell.showtraceback()
            return error, None
        finally:
            # ipywidgets has the shell show what callbacks raise, and goes on.
            self._shown_error = "\n".join(shell.last_traceback)
        return None, None

    def end(self, ending: Ending) -> None:
        error = self._shown_error or (str(ending.error) if ending.error is not None else "")
        failed = (Output("stderr", f"{error}\n"),) if error else ()
        self._tell(self._event, (*ending.outputs, *failed))
