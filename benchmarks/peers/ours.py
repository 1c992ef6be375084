"""jupyter-dist, through its Python class and through its notebook magics."""

import contextlib
import io
import time
from typing import Any, ClassVar

import psutil
from contender import (
    CELL_TIMEOUT_S,
    START_TIMEOUT_S,
    Contender,
    Memory,
    command_line,
    descendants,
    pss_bytes,
)
from IPython.core.interactiveshell import InteractiveShell

from jupyter_dist import Cluster

ZYGOTE = "jupyter_dist.engine.zygote"


class Ours(Contender):
    """`Cluster.start` and `cluster.run`."""

    packages = ("jupyter-dist", "ipython", "pyzmq", "msgspec", "numpy")
    run_ways = ("cluster.run",)
    push_ways: ClassVar[tuple[str, ...]] = ("cluster.push",)
    pull_ways: ClassVar[tuple[str, ...]] = ("cluster.pull",)

    def __init__(self) -> None:
        self.cluster: Cluster | None = None

    def start(self, n: int) -> float:
        began = time.perf_counter()
        self.cluster = Cluster.start(f"localhost:{n}", timeout_s=START_TIMEOUT_S)
        self.run("pass", "cluster.run")
        return time.perf_counter() - began

    def run(self, code: str, way: str) -> str:  # noqa: ARG002
        assert self.cluster is not None
        result = self.cluster.run(code, timeout_s=CELL_TIMEOUT_S)
        result.raise_first()
        assert len(result) == self.cluster.world_size
        return "".join(rank.stdout for rank in result)

    def push(self, array: Any, way: str) -> None:  # noqa: ARG002
        assert self.cluster is not None
        self.cluster.push({"pushed": array})

    def pull(self, way: str) -> list[Any]:  # noqa: ARG002
        assert self.cluster is not None
        return list(self.cluster.pull("pulled").values())

    def memory(self) -> Memory:
        parts: dict[str, list[psutil.Process]] = {}
        for process in descendants():
            parts.setdefault(_part(process), []).append(process)
        sizes = {part: pss_bytes(processes) for part, processes in parts.items()}
        return Memory(len(parts["engine"]), sizes)

    def stop(self) -> None:
        cluster, self.cluster = self.cluster, None
        if cluster is not None:
            cluster.stop()


class OursFromTheNotebook(Ours):
    """`%dist_start` and `%%spmd` in a plain IPython shell."""

    run_ways = ("%%spmd",)
    push_ways = ()
    pull_ways = ()
    collapses_output = ("%%spmd",)

    def __init__(self) -> None:
        super().__init__()
        self.shell = InteractiveShell.instance()
        self.shell.run_line_magic("load_ext", "jupyter_dist")
        self.is_running = False

    def start(self, n: int) -> float:
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            self.shell.run_line_magic("dist_start", f"-n {n}")
        self.is_running = True
        self.run("pass", "%%spmd")
        return time.perf_counter() - began

    def run(self, code: str, way: str) -> str:  # noqa: ARG002
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            self.shell.run_cell_magic("spmd", "", code)
        return stdout.getvalue()

    def stop(self) -> None:
        if self.is_running:
            self.is_running = False
            with contextlib.redirect_stdout(io.StringIO()):
                self.shell.run_line_magic("dist_stop", "")


def _part(process: psutil.Process) -> str:
    """Say what a process of ours is; an engine is a fork of the zygote and wears its command."""
    parent = process.parent()
    if parent is not None and ZYGOTE in command_line(parent):
        return "engine"
    command = command_line(process)
    parts = {"zygote": ZYGOTE, "agent": "jupyter_dist.agent", "coordinator": "jupyter_dist.coord"}
    return next((part for part, module in parts.items() if module in command), "other")
