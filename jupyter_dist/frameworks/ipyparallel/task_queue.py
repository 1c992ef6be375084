"""Whose turn it is: tasks of ipyparallel that wait for the main thread of a rank, one by one."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, Protocol

from ipyparallel.serialize import serialize_object

from jupyter_dist.errors import UsageError
from jupyter_dist.frameworks.ipyparallel.channels import Channels
from jupyter_dist.frameworks.ipyparallel.output_messages import as_messages
from jupyter_dist.frameworks.ipyparallel.session import Dict, MessageSession, refusal
from jupyter_dist.frameworks.ipyparallel.tasks import (
    Answer,
    Apply,
    Clear,
    Ending,
    Execute,
    Request,
    Task,
)
from jupyter_dist.protocol.messages import Output

LONG_TASK_S = 0.25
"""A task that takes longer is told of."""
MOST_ABORTED = 10_000
"""Names kept of requests that were aborted before they came."""


class Seat(Protocol):
    """What an engine needs of its rank; all is called by the engine's thread.

    `tell_ended` is called by the main thread, where a task ends after the engine.
    """

    def hand_over(self, task: Task) -> None:
        """Have the main thread run this task, in its turn."""

    def take_output(self, task: Task) -> Sequence[Output]:
        """Return what the running task has said since the last call."""

    def interrupt(self) -> None:
        """Send SIGINT to the main thread, for the running task."""

    def tell_joined(self, problem: str) -> None:
        """It is an engine now, or `problem` says why it could not become one."""

    def tell_left(self, reason: str) -> None:
        """It is no engine any more; with a reason, if nobody has called `leave`."""

    def tell_began(self, label: str, running_s: float) -> None:
        """A task takes long."""

    def tell_ended(self) -> None:
        """The task that was told of is over."""


class Published(NamedTuple):
    """Objects that a task has published while it runs."""

    keys: tuple[str, ...]
    buffers: list[bytes]


class TaskQueue:
    """Hands over tasks, and answers for them; one thread calls all but what it gives to tasks.

    Cells come by another way, so one that comes waits for the current task only.
    """

    def __init__(
        self, speech: MessageSession, channels: Channels, seat: Seat, wake: Callable[[], None]
    ) -> None:
        self._speech = speech
        self._channels = channels
        self._seat = seat
        self._wake = wake
        self._door = threading.Lock()
        """Before whoever brings news, and before the end."""
        self._is_over = False
        self._news: queue.SimpleQueue[tuple[Task, Ending | Published | None]] = queue.SimpleQueue()
        self._waiting: deque[Task] = deque()
        self._current: Task | None = None
        """The task that the main thread has, or gets next."""
        self._began_s = 0.0
        """When the current task began; 0: it has not."""
        self._is_told = False
        self._count = 0
        self._aborted: dict[str, None] = {}
        self._last_answers: dict[bytes, str] = {}
        """What was answered last, by the scheduler that it went to; see `last_answers`."""

    @property
    def last_answers(self) -> set[str]:
        """The requests whose answers the controller gets last: it has all once it has these.

        Those of broadcasts are not among them: schedulers on the way rename these.
        """
        return set(self._last_answers.values())

    @property
    def is_task_running(self) -> bool:
        """The main thread has one."""
        return self._began_s > 0

    # --- what is asked ---

    def take(self, request: Request) -> bool:
        """Take a request that is for the main thread; tells whether it is."""
        match request.kind:
            case "apply":
                pack = partial(serialize_object, **self._speech.thresholds)
                self._queue(Apply(request, self._count, self._tell, pack))
            case "execute":
                self._count += not request.content.get("silent", False)
                self._queue(Execute(request, self._count, self._tell))
            case "clear":
                self._queue(Clear(request, self._count, self._tell))
            case _:
                return False
        return True

    def _queue(self, task: Task) -> None:
        self._waiting.append(task)
        if task.request.message_id in self._aborted:
            self._withdraw([task])
        self._hand_over_next()

    def _hand_over_next(self) -> None:
        if self._current is None and self._waiting:
            self._current = self._waiting.popleft()
            self._seat.hand_over(self._current)

    def interrupt(self) -> Dict:
        """Interrupt the running task; gives the answer to who has asked for that."""
        if self._current is not None and not self.is_task_running:
            return refusal(
                "this rank runs a cell of jupyter-dist now, and the task waits behind it. "
                "Interrupt the cell where it was started, or abort the task."
            )
        if self.is_task_running:
            self._seat.interrupt()
        return {"status": "ok"}

    def abort(self, asked: str | Sequence[str] | None) -> None:
        """Abort requests with these names, all if there are none, unless they have begun."""
        waiting = [task for task in (self._current, *self._waiting) if task is not None]
        if not asked:
            asked = [task.request.message_id for task in waiting]
        names = {asked} if isinstance(asked, str) else set(asked)
        self._withdraw([task for task in waiting if task.request.message_id in names])
        self._aborted |= dict.fromkeys(names)
        while len(self._aborted) > MOST_ABORTED:
            del self._aborted[next(iter(self._aborted))]

    def _withdraw(self, tasks: Sequence[Task]) -> None:
        """Answer tasks as aborted, those that have begun excepted."""
        for task in tasks:
            if not task.withdraw():
                continue
            if task is self._current:
                self._current = None
            else:
                self._waiting.remove(task)
            self._reply(task, task.answer_aborted())
        self._hand_over_next()

    # --- what becomes of it ---

    def _tell(self, task: Task, ending: Ending | None) -> None:
        """Take in from the main thread that a task has begun, or ended."""
        if not self._bring(task, ending) and ending is not None:
            self._forget_told()

    def _bring(self, task: Task, news: Ending | Published | None) -> bool:
        """Tell the engine's thread something of a task, unless its engine has ended."""
        with self._door:
            if self._is_over:
                return False
            self._news.put((task, news))
            self._wake()
            return True

    def take_in(self) -> None:
        """Look at what the main thread has told."""
        while not self._news.empty():
            task, ending = self._news.get()
            if ending is None:
                self._on_began(task)
            elif isinstance(ending, Published):
                content = {"keys": list(ending.keys)}
                self._publish(task, "data_message", content, buffers=ending.buffers)
            else:
                self._on_ended(task, ending)

    def _on_began(self, task: Task) -> None:
        self._began_s = monotonic()
        self._publish(task, "status", {"execution_state": "busy"})
        if isinstance(task, Execute) and not task.is_silent:
            content = {"code": task.code, "execution_count": task.count}
            self._publish(task, "execute_input", content)

    def _on_ended(self, task: Task, ending: Ending) -> None:
        self._current, self._began_s = None, 0.0
        if isinstance(task, Execute) and ending.error is not None and task.stops_on_error:
            # Code that waits behind code that has failed, as kernels do.
            self._withdraw([other for other in self._waiting if isinstance(other, Execute)])
        self._hand_over_next()  # it need not wait until the answer is packed
        self._show(task, ending.outputs)
        answer = task.answer(self._speech, ending)
        if answer.content["status"] == "error":
            self._publish(task, "error", answer.content)
        self._forget_told()
        self._reply(task, answer)

    def _reply(self, task: Task, answer: Answer) -> None:
        request = task.request
        socket = self._channels.control if task.is_of_control else self._channels.shell
        self._speech.say(
            socket,
            f"{request.kind}_reply",
            answer.content,
            request.message,
            request.idents,
            metadata=answer.metadata,
            buffers=answer.buffers,
        )
        self._publish(task, "status", {"execution_state": "idle"})
        if not task.is_of_control and not request.message["metadata"].get("is_broadcast"):
            self._last_answers[request.idents[0]] = request.message_id

    # --- what a task shows ---

    def look(self, now_s: float) -> None:
        """Show what the running task has said, and tell of it when it takes long."""
        task = self._current
        if task is None or not self.is_task_running:
            return
        self._show(task, self._seat.take_output(task))
        running_s = now_s - self._began_s
        if running_s > LONG_TASK_S:
            self._tell_began(task, running_s)

    def _tell_began(self, task: Task, running_s: float) -> None:
        if not self._is_told:
            self._is_told = True
            self._seat.tell_began(task.label, running_s)

    def _show(self, task: Task, outputs: Sequence[Output]) -> None:
        for kind, content in as_messages(outputs, task.count):
            self._publish(task, kind, content)

    def publish_data(self, data: dict[str, Any]) -> None:
        """Send objects to the client of the running task; on the thread that runs it."""
        task = self._current
        if task is None or not task.is_claimed:
            raise UsageError(
                "publish_data was called outside a task of ipyparallel, so there is no client to "
                "send it to. Call it in what a view applies or executes; a cell prints instead."
            )
        buffers = [bytes(buffer) for buffer in serialize_object(data, **self._speech.thresholds)]
        self._bring(task, Published(tuple(data), buffers))

    def _publish(self, task: Task, kind: str, content: Dict, **more: Any) -> None:
        self._speech.publish(self._channels.iopub, kind, content, task.request.message, **more)

    def end(self) -> None:
        """Answer what has ended, abort what waits; what still runs is told of, heard by nobody."""
        waiting = [task for task in (self._current, *self._waiting) if task is not None]
        self._waiting.clear()
        with self._door:
            self._is_over = True  # the main thread brings nothing more
            self.take_in()
            for each in waiting:
                if each.withdraw():
                    self._reply(each, each.answer_aborted())
            task = self._current
            if task is not None and task.is_claimed:
                running_s = monotonic() - self._began_s if self.is_task_running else 0.0
                self._tell_began(task, running_s)  # who else could say why a cell waits
            else:
                self._forget_told()

    def _forget_told(self) -> None:
        if self._is_told:
            self._is_told = False
            self._seat.tell_ended()
