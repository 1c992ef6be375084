"""Tasks of ipyparallel that need an event loop: those that make a rank a worker of dask."""

import asyncio
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

_START_TIMEOUT_S = 30.0
_NEED_LOOP = ("become_dask_worker", "stop_distributed_worker")
"""Functions of ipyparallel.util that expect a kernel, with a loop that runs beside tasks."""


def needs_loop(call: object) -> bool:
    """Tell whether this function is one of them."""
    is_theirs = getattr(call, "__module__", "") == "ipyparallel.util"
    return is_theirs and getattr(call, "__name__", "") in _NEED_LOOP


class _Loop(threading.Thread):
    """An event loop on a thread of its own, for the worker of dask; it stays for the next one."""

    def __init__(self) -> None:
        super().__init__(name="parallel-dask", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.kernel = SimpleNamespace(
            log=logging.getLogger("ipyparallel"), dask_worker=None, distributed_worker=None
        )
        """What those functions keep their worker in."""

    def run(self) -> None:
        """Serve until the process ends."""
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_loop: _Loop | None = None


def call(shell: Any, function: Callable[..., Any], arguments: Any, options: Any) -> Any:
    """Call the function where a loop runs, and wait until what it has begun is done."""
    global _loop  # noqa: PLW0603  (one for the process, as its kernel would be)
    if _loop is None:
        _loop = _Loop()
        _loop.start()

    async def within() -> Any:
        before = asyncio.all_tasks()
        result = function(*arguments, **options)
        begun = asyncio.all_tasks() - before
        await asyncio.gather(*begun)
        return result

    # Only now: libraries take a shell with a kernel for a notebook.
    shell.kernel = _loop.kernel
    try:
        future = asyncio.run_coroutine_threadsafe(within(), _loop.loop)
        return future.result(_START_TIMEOUT_S)
    finally:
        del shell.kernel
