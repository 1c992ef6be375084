"""Clusters that pages start: each on a thread of its own; they live on without us."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.connection_file import find_connection
from jupyter_dist.protocol.messages import StartProgress
from jupyter_dist.server.on_thread import on_thread
from jupyter_dist.server.page_messages import StartSeen
from jupyter_dist.server.page_requests import StartAsked
from jupyter_dist.server.specs import SpecFolders
from jupyter_dist.server.summaries import ClusterRow, row_of
from jupyter_dist.views.stages.start_table import start_line


class Starts:
    """Starts what is asked for; `tell` gets how far each start is, on threads of ours."""

    def __init__(self, folders: SpecFolders, root: Path, tell: Callable[[StartSeen], None]) -> None:
        self._folders = folders
        self._root = root
        self._tell = tell
        self._running: dict[str, Future[ClusterRow]] = {}

    def start(self, asked: StartAsked) -> "Future[ClusterRow]":
        """Start it, once per id; raises what `Cluster.start` raises. Called by one thread."""
        known = self._running.get(asked.id)
        if known is not None and not known.done():
            return known
        for request_id in [each for each, one in self._running.items() if one.done()]:
            del self._running[request_id]
        found = self._running[asked.id] = on_thread(lambda: self._start(asked), "cluster-start")
        return found

    def _start(self, asked: StartAsked) -> ClusterRow:
        def tell(text: str, **more: Any) -> None:
            self._tell(StartSeen(id=asked.id, text=text, **more))

        def on_progress(progress: StartProgress) -> None:
            ready, asked_for = progress.ready_ranks, progress.world_size
            tell(start_line(progress), ready_ranks=ready, world_size=asked_for, cluster=name)

        name = asked.name or ""
        tell("starting…", cluster=name)
        try:
            cluster = Cluster.start(**self._read(asked), on_progress=on_progress)
            try:
                row = row_of(cluster.topology(), info=find_connection(cluster.name))
            finally:
                cluster.detach()
        except BaseException as problem:
            tell(str(problem) or type(problem).__name__, is_over=True, ok=False)
            raise
        tell(
            f"cluster {row.name} is ready",
            ready_ranks=row.world_size,
            world_size=row.world_size,
            is_over=True,
            cluster=row.name,
        )
        return row

    def _read(self, asked: StartAsked) -> dict[str, Any]:
        """Return what `Cluster.start` takes."""
        ways = {"hosts": asked.hosts, "spec": asked.spec, "count": asked.count}
        given = {way: value for way, value in ways.items() if value}
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} are given. Give one of hosts, spec and count.")
        options: dict[str, Any] = {"name": asked.name or None}
        if asked.spec:
            return {**options, "spec": self._folders.find(asked.spec)}
        options["cwd"] = self._root
        if asked.count:
            return {**options, "hosts": f"localhost:{asked.count}"}
        return {**options, "hosts": asked.hosts or None}
