"""jupyter-distributed without a browser: the group of kernels behind its proxy kernel.

In a notebook its proxy kernel and the browser come on top; what is measured here is the part that
runs the cell, driven on an event loop that turns all the time, as in the proxy.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

from contender import (
    CELL_TIMEOUT_S,
    START_TIMEOUT_S,
    Contender,
    Memory,
    NotOfferedError,
    command_line,
    descendants,
    pss_bytes,
)
from jupyter_distributed.kernel_group import DistributedKernelGroup


class JupyterDistributed(Contender):
    packages = ("jupyter-distributed", "ipykernel", "ipython", "jupyter-client", "pyzmq")
    run_ways = ("DistributedKernelGroup",)
    push_ways = ("none",)

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.group: DistributedKernelGroup | None = None

    def start(self, n: int) -> float:
        began = time.perf_counter()
        self.group = DistributedKernelGroup(n)
        self._await(self.group.start(), START_TIMEOUT_S)
        self.run("pass", "")
        return time.perf_counter() - began

    def run(self, code: str, way: str) -> str:  # noqa: ARG002
        assert self.group is not None
        done = self._await(self.group.execute(code))
        if done.status != "ok":
            raise RuntimeError(f"the cell ended with {done.status}")
        return "".join(said.plain_text() for rank in done.ranks for said in rank.outputs)

    def push(self, array: Any, way: str) -> None:  # noqa: ARG002
        raise NotOfferedError("it has no way to send an object to its ranks")

    def memory(self) -> Memory:
        engines = [p for p in descendants() if "ipykernel_launcher" in command_line(p)]
        return Memory(len(engines), {"engine": pss_bytes(engines)})

    def stop(self) -> None:
        group, self.group = self.group, None
        if group is not None:
            self._await(group.shutdown(now=True))

    def _await(self, what: Coroutine[Any, Any, Any], timeout_s: float = CELL_TIMEOUT_S) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(timeout_s)
