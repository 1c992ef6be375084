"""This rank as an engine of ipyparallel: who joins and leaves, and what comes of its tasks.

ipyparallel is imported with the first order to join, never before.
"""

import contextlib
import importlib
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from jupyter_dist.engine.execution.executor import Executor
from jupyter_dist.engine.output.outputs import Outputs
from jupyter_dist.protocol.messages import (
    ControllerJoined,
    ControllerLeft,
    JoinController,
    LeaveController,
    Message,
    Output,
    TaskBegan,
    TaskEnded,
)

if TYPE_CHECKING:
    from jupyter_dist.frameworks.ipyparallel.engine import ParallelEngine
    from jupyter_dist.frameworks.ipyparallel.tasks import Task

LEAVE_TIMEOUT_S = 2.0

Order = JoinController | LeaveController
Work = Callable[[], None]
"""Something for the main thread that is no message."""


@dataclass(eq=False)
class IpyparallelTasks:
    """Takes orders on the link thread, carries them out on a thread that ends with the last one."""

    executor: Executor
    outputs: Outputs
    post: Callable[[Message], None]
    hand_over: Callable[[Work], None]
    _engine: "ParallelEngine | None" = None
    _orders: deque[Order] = field(default_factory=deque)
    _door: threading.Lock = field(default_factory=threading.Lock)
    _worker: threading.Thread | None = None

    def order(self, order: Order) -> None:
        """Join or leave soon; orders are carried out one after the other, whatever comes of one."""
        with self._door:
            self._orders.append(order)
            if self._worker is not None:
                return
            worker = threading.Thread(target=self._work, name="parallel-orders", daemon=True)
            try:
                worker.start()
            except RuntimeError as error:  # the caller is what keeps this rank alive
                self._orders.remove(order)
                self._refuse(order, error)
            else:
                self._worker = worker

    def _refuse(self, order: Order, error: Exception) -> None:
        if isinstance(order, LeaveController):
            self.leave(timeout_s=0.0)
            self.post(ControllerLeft(self.executor.rank, order.request_id))
        elif order.connection:
            self.post(ControllerJoined(self.executor.rank, order.request_id, _describe(error)))

    def leave(self, timeout_s: float = LEAVE_TIMEOUT_S) -> None:
        """Leave before the process ends."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.leave(timeout_s)

    def _work(self) -> None:
        while True:
            with self._door:
                if not self._orders:
                    self._worker = None
                    return
                order = self._orders.popleft()
            try:
                self._carry_out(order)
            except Exception:  # noqa: BLE001  (the next order is to be carried out all the same)
                traceback.print_exc()

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, JoinController) and not order.connection:
            _make_ready()
            return
        self.leave()
        if isinstance(order, JoinController):
            self._join(order)
        else:
            self.post(ControllerLeft(self.executor.rank, order.request_id))

    def _join(self, order: JoinController) -> None:
        rank = order.rank
        try:
            from jupyter_dist.frameworks.ipyparallel.engine import ParallelEngine

            place = msgspec.json.decode(order.connection, type=dict)
            engine = ParallelEngine(place, rank, _Seat(self, rank, order.request_id))
            engine.start()
        except ImportError as error:
            problem = (
                f"ipyparallel cannot be imported there ({error}). Install it on that host: "
                "pip install 'ipyparallel>=9,<10'"
            )
        except (msgspec.DecodeError, KeyError, ValueError) as error:
            problem = f"the connection of the ipyparallel controller is not whole: {error!r}"
        except Exception as error:  # noqa: BLE001  (a broken install, no descriptors, no threads)
            problem = _describe(error)
        else:
            self._engine = engine
            return
        self.post(ControllerJoined(rank, order.request_id, problem))


def _make_ready() -> None:
    """Import, while the controller starts, what joining it takes; joining says what goes wrong."""
    with contextlib.suppress(Exception):
        importlib.import_module("jupyter_dist.frameworks.ipyparallel.engine")


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class _Seat:
    """One membership, as the engine of ipyparallel sees its rank."""

    def __init__(self, tasks: IpyparallelTasks, rank: int, request_id: str) -> None:
        self._tasks = tasks
        self._rank = rank
        self._request_id = request_id

    def hand_over(self, task: "Task") -> None:
        self._tasks.hand_over(partial(self._tasks.executor.run_task, task))

    def take_output(self, task: "Task") -> Sequence[Output]:
        return self._tasks.outputs.take(task.task_id)[0]

    def interrupt(self) -> None:
        self._tasks.executor.interrupt_task()

    def tell_joined(self, problem: str) -> None:
        self._tasks.post(ControllerJoined(self._rank, self._request_id, problem))

    def tell_left(self, reason: str) -> None:
        if reason:
            self._tasks.post(ControllerLeft(self._rank, reason=reason))

    def tell_began(self, label: str, running_s: float) -> None:
        self._tasks.post(TaskBegan(self._rank, label, running_s))

    def tell_ended(self) -> None:
        self._tasks.post(TaskEnded(self._rank))
