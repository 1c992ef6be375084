"""Tasks of ipyparallel that need an event loop: those that make a rank a worker of dask."""

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

_START_TIMEOUT_S = 30.0
_NEED_LOOP = ("become_dask_worker", "stop_distributed_worker")
"""Functions of ipyparallel.util that expect a kernel, with a loop that runs beside tasks."""


def needs_loop(call: object) -> bool:
    """Return whether this function is one of them."""
    is_theirs = getattr(call, "__module__", "") == "ipyparallel.util"
    return is_theirs and getattr(call, "__name__", "") in _NEED_LOOP


@cache
def _start_loop() -> tuple[asyncio.AbstractEventLoop, SimpleNamespace]:
    """Return an event loop on a thread of its own, and what those functions keep their worker in.

    It serves until the process ends.
    """
    loop = asyncio.new_event_loop()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    threading.Thread(target=serve, name="parallel-dask", daemon=True).start()
    log = logging.getLogger("ipyparallel")
    return loop, SimpleNamespace(log=log, dask_worker=None, distributed_worker=None)


def call(shell: Any, function: Callable[..., Any], arguments: Any, options: Any) -> Any:
    """Call the function where a loop runs, and wait until what it has begun is done."""
    loop, kernel = _start_loop()

    async def within() -> Any:
        before = asyncio.all_tasks()
        result = function(*arguments, **options)
        begun = asyncio.all_tasks() - before
        await asyncio.gather(*begun)
        return result

    # Only now: libraries take a shell with a kernel for a notebook.
    shell.kernel = kernel
    try:
        return asyncio.run_coroutine_threadsafe(within(), loop).result(_START_TIMEOUT_S)
    finally:
        del shell.kernel
