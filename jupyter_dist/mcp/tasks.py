"""Cells of agents as tasks of MCP, for clients that know them: asked after until they have ended.

That is the extension `io.modelcontextprotocol/tasks` of revision 2026-07-28. The SDK (2.3) takes
extensions, and has no tasks of its own, so what goes over the wire is written here. A client that
does not know tasks is told the number of the cell.
"""

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolRequestParams, RequestParams
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from jupyter_dist.errors import CellInterrupted, CellRefused, DistError
from jupyter_dist.mcp.answers import MOST_LINE, clean
from jupyter_dist.mcp.errands import GOING_ON, Errand
from jupyter_dist.mcp.output import tell_output

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 5000
KEPT_S = 3600.0
"""How long it is told after its end what has become of a cell."""
_GIVEN_UP = (CellInterrupted, CellRefused, KeyboardInterrupt)
"""Running, not begun yet, and on ranks that do not answer."""
_REVISIONS = frozenset(MODERN_PROTOCOL_VERSIONS)


class TaskParams(RequestParams):  # type: ignore[misc]  # the SDK may be missing
    """Which task is meant."""

    task_id: str = Field(alias="taskId")


class CellTask:
    """A cell that goes on, as a task."""

    def __init__(self, errand: Errand, clock: Callable[[], float] = time.time) -> None:
        self._errand = errand
        self._clock = clock
        self._began_s = self._changed_s = clock()
        self._is_unwanted = False
        self._end: dict[str, object] | None = None

    @property
    def is_forgotten(self) -> bool:
        """It has ended so long ago that it is told no more."""
        return self._end is not None and self._clock() - self._changed_s > KEPT_S

    def cancel(self) -> None:
        """Interrupt the cell, or take it back where it has not begun."""
        self._is_unwanted = True
        self._errand.cell.cancel()

    def look(self) -> dict[str, object]:
        """Return how it is now, as MCP has it; may ask the cluster, once."""
        if self._end is None and self._errand.cell.is_done:
            self._end = self._read_end()
            self._changed_s = self._clock()
        kept_ms = round(1000 * (self._changed_s - self._began_s + KEPT_S))
        return {
            "createdAt": _stamp(self._began_s),
            "lastUpdatedAt": _stamp(self._changed_s),
            "ttlMs": None if self._end is None else kept_ms,
            "pollIntervalMs": POLL_MS,
            **(self._end or {"status": "working", "statusMessage": self._tell()}),
        }

    def _tell(self) -> str:
        errand = self._errand
        note = clean(" ".join(errand.said.note.split()))[:MOST_LINE]
        head = f"{errand.label} on cluster {errand.cluster}"
        return f"{head}: {note}" if note else f"{head} runs or waits"

    def _read_end(self) -> dict[str, object]:
        errand = self._errand
        problem = _problem_of(errand)
        if self._is_unwanted and isinstance(problem, _GIVEN_UP):
            return {"status": "cancelled", "statusMessage": clean(str(problem))[:MOST_LINE]}
        try:
            text = tell_output(errand.cluster, errand.label, 0, "")
        except DistError as lost:
            text, problem = clean(str(lost)), problem or lost
        said = {"content": [{"type": "text", "text": text}], "isError": problem is not None}
        return {"status": "completed", "result": said}


class CellTasks(Extension):  # type: ignore[misc]
    """Makes a task of each cell that outlasts its call, for clients that know tasks."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self._tasks: dict[str, CellTask] = {}

    def methods(self) -> list[MethodBinding]:
        """Return what can be asked of tasks."""
        asked = {"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel}
        return [
            MethodBinding(method, TaskParams, handler, _REVISIONS)
            for method, handler in asked.items()
        ]

    async def intercept_tool_call(
        self,
        params: CallToolRequestParams,  # noqa: ARG002
        ctx: Any,
        call_next: Callable[[Any], Any],
    ) -> Any:
        """Return what a tool answers, or a task where a cell goes on and the client knows tasks."""
        if ctx.protocol_version not in _REVISIONS or not _knows_tasks(ctx):
            return await call_next(ctx)
        noted: list[Errand] = []
        token = GOING_ON.set(noted)
        try:
            answer = await call_next(ctx)
        finally:
            GOING_ON.reset(token)
        if not noted:
            return answer
        self._tasks = {key: task for key, task in self._tasks.items() if not task.is_forgotten}
        task_id = secrets.token_urlsafe(18)
        task = self._tasks[task_id] = CellTask(noted[0])
        seen = await anyio.to_thread.run_sync(task.look)
        return {"resultType": "task", "taskId": task_id, **seen}

    async def _get(self, ctx: Any, params: TaskParams) -> dict[str, object]:
        task = self._find(ctx, params)
        return {"taskId": params.task_id, **await anyio.to_thread.run_sync(task.look)}

    async def _update(self, ctx: Any, params: TaskParams) -> dict[str, object]:
        self._find(ctx, params)  # no task asks for anything
        return {}

    async def _cancel(self, ctx: Any, params: TaskParams) -> dict[str, object]:
        self._find(ctx, params).cancel()
        return {}

    def _find(self, ctx: Any, params: TaskParams) -> CellTask:
        require_client_extension(ctx, EXTENSION)
        task = self._tasks.get(params.task_id)
        if task is None or task.is_forgotten:
            raise MCPError(
                INVALID_PARAMS,
                f"There is no task {clean(params.task_id)[:80]!r}. A task is known to the server "
                "that has begun it, until an hour after its end; dist_output tells of its cell.",
            )
        return task


def _knows_tasks(ctx: Any) -> bool:
    try:
        require_client_extension(ctx, EXTENSION)
    except MCPError:
        return False
    return True


def _problem_of(errand: Errand) -> BaseException | None:
    """Return why the cell did not end well, if it has not."""
    try:
        result = errand.cell.result
        if result is not None:
            result.raise_first()
    except (DistError, KeyboardInterrupt) as problem:
        return problem
    return None


def _stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
