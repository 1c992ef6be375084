"""Call something that takes its time on a thread that nobody has to wait for in the end."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def on_thread(call: Callable[[], Result], name: str = "jupyter-dist-call") -> "Future[Result]":
    """Start it; the future has what it gives, or raises.

    An executor's threads are waited for when the interpreter ends; a cluster that is silent, or a
    start that takes minutes, must not hold up the end of Jupyter Server.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as problem:  # noqa: BLE001  (whoever waits raises it)
            disappoint(future, problem)
        else:
            settle(future, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def settle(future: "Future[Result]", result: Result) -> None:
    """Give a future its result, unless whoever waited for it has left."""
    if future.set_running_or_notify_cancel():
        future.set_result(result)


def disappoint(future: "Future[Result]", problem: BaseException) -> None:
    """Let a future raise this, unless whoever waited for it has left."""
    if future.set_running_or_notify_cancel():
        future.set_exception(problem)
