"""ipyparallel as its users have it: `Cluster(n=...)`, then `%%px` or a view."""

import contextlib
import io
import tempfile
import time
from typing import Any, ClassVar

import ipyparallel
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
from traitlets.config import Config


class Ipyparallel(Contender):
    """The stock settings."""

    packages = ("ipyparallel", "ipykernel", "ipython", "pyzmq", "numpy")
    run_ways = ("DirectView", "BroadcastView", "%%px")
    push_ways = ("DirectView", "BroadcastView")
    pull_ways = ("DirectView",)
    config: ClassVar[Config] = Config()
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.shell = InteractiveShell.instance()
        self.cluster: Any = None
        self.client: Any = None
        self.views: dict[str, Any] = {}

    def start(self, n: int) -> float:
        profile = tempfile.mkdtemp(prefix="profile-")
        began = time.perf_counter()
        self.cluster = ipyparallel.Cluster(
            n=n,
            profile_dir=profile,
            log_level=40,
            engine_timeout=int(START_TIMEOUT_S),
            config=self.config,
            **self.options,
        )
        self.client = self.cluster.start_and_connect_sync()
        self.views = {
            "DirectView": self.client[:],
            "BroadcastView": self.client.broadcast_view(),
        }
        self.views["DirectView"].execute("pass").get(timeout=START_TIMEOUT_S)
        seconds = time.perf_counter() - began
        self.client.activate()
        return seconds

    def run(self, code: str, way: str) -> str:
        if way == "%%px":
            with contextlib.redirect_stdout(io.StringIO()) as stdout:
                self.shell.run_cell_magic("px", "", code)
            return stdout.getvalue()
        running = self.views[way].execute(code)
        running.get(timeout=CELL_TIMEOUT_S)
        if "print" not in code:
            return ""
        running.wait_for_output(CELL_TIMEOUT_S)
        return "".join(running.stdout)

    def push(self, array: Any, way: str) -> None:
        self.views[way].push({"pushed": array}, block=False).get(timeout=CELL_TIMEOUT_S)

    def pull(self, way: str) -> list[Any]:
        return list(self.views[way].pull("pulled", block=False).get(timeout=CELL_TIMEOUT_S))

    def memory(self) -> Memory:
        parts: dict[str, list[Any]] = {"engine": [], "nanny": [], "controller": []}
        for process in descendants():
            command = command_line(process)
            if "ipyparallel.nanny" in command or "engine.nanny" in command:
                parts["nanny"].append(process)
            elif "ipyparallel.engine" in command:
                parts["engine"].append(process)
            else:
                parts["controller"].append(process)
        sizes = {part: pss_bytes(processes) for part, processes in parts.items()}
        return Memory(len(parts["engine"]), sizes, ("engine", "nanny"))

    def stop(self) -> None:
        client, self.client = self.client, None
        cluster, self.cluster = self.cluster, None
        if client is not None:
            client.close()
        if cluster is not None:
            cluster.stop_cluster_sync()


class TunedIpyparallel(Ipyparallel):
    """With what makes its start faster: ten times the heartbeats, no pause between engines."""

    config = Config({"LocalEngineSetLauncher": {"delay": 0}})
    options: ClassVar[dict[str, Any]] = {"controller_args": ["--ping=300"]}
