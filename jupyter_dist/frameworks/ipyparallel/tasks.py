"""What clients of ipyparallel ask of the main thread of a rank, and what they are answered."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Protocol

from jupyter_dist.frameworks.ipyparallel.session import Dict, MessageSession, error_content
from jupyter_dist.protocol.messages import ErrorInfo, Output


class Ending(Protocol):
    """How a task has ended."""

    @property
    def value(self) -> Any:
        """What the answer is made of, where there is no error."""

    @property
    def error(self) -> ErrorInfo | None:
        """What it has raised."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """What it has said last."""


class Request(NamedTuple):
    """A message, and the way back to who has sent it."""

    idents: list[bytes]
    message: Dict

    @property
    def message_id(self) -> str:
        """Its name."""
        return str(self.message["header"]["msg_id"])

    @property
    def is_question(self) -> bool:
        """An answer is expected."""
        return str(self.message["header"]["msg_type"]).endswith("_request")

    @property
    def kind(self) -> str:
        """As `apply` of `apply_request`."""
        return str(self.message["header"]["msg_type"]).removesuffix("_request")

    @property
    def content(self) -> Dict:
        """What it says."""
        content: Dict = self.message["content"]
        return content


class Answer(NamedTuple):
    """What is sent back."""

    content: Dict
    metadata: Dict
    buffers: list[bytes]


Tell = Callable[["Task", Ending | None], None]
"""Takes a task that has begun (None), or ended."""


class Task:
    """A request that has the main thread once; made by the thread that takes requests in."""

    is_of_control: ClassVar[bool] = False
    """It has come, and is answered, on the channel for control."""
    is_shown_by_shell: ClassVar[bool] = False
    """The shell has shown what it raises."""

    def __init__(self, request: Request, count: int, tell: Tell) -> None:
        self.request = request
        self.count = count
        """Number of its last execute_request that is shown; as In[count]."""
        self.task_id = f"ipyparallel {request.message_id}"
        self.started: datetime | None = None
        self._tell = tell
        self._door = threading.Lock()
        self.is_claimed = False
        """The main thread has begun it."""
        self._is_withdrawn = False

    @property
    def label(self) -> str:
        """What is said of a rank that runs it."""
        given = self.request.message["metadata"].get("label")
        return f"{self.request.kind} {given}" if given else self.request.kind

    @property
    def code(self) -> str:
        """As the user has written it; empty for a function."""
        return ""

    def withdraw(self) -> bool:
        """Keep it from beginning; tells whether that was in time."""
        with self._door:
            self._is_withdrawn = not self.is_claimed
            return self._is_withdrawn

    def claim(self) -> bool:
        """Begin, unless it was withdrawn; on the main thread, as all that follows."""
        with self._door:
            self.is_claimed = not self._is_withdrawn
        if self.is_claimed:
            self.started = datetime.now(UTC)
            self._tell(self, None)
        return self.is_claimed

    def carry_out(self, shell: Any) -> tuple[BaseException | None, Any]:
        """Run it; gives its error, or its value."""
        try:
            return None, self._run(shell)
        except BaseException as error:  # noqa: BLE001  (whatever user code raises is its answer)
            if not self.is_shown_by_shell:
                trace = _beyond_us(error.__traceback__)
                shell.showtraceback((type(error), error, trace), tb_offset=0)
            return error, None

    def _run(self, shell: Any) -> Any:
        raise NotImplementedError

    def end(self, ending: Ending) -> None:
        """Tell how it has ended."""
        self._tell(self, ending)

    # --- the answer, made by the thread that has taken the request in ---

    def answer(self, speech: MessageSession, ending: Ending) -> Answer:
        """Return the answer to a task that has ended."""
        if ending.error is None:
            content, buffers = self._answer_well(ending.value)
        else:
            content, buffers = error_content(ending.error), []
            content |= self._complete_error(speech)
        metadata = self._describe(content["status"])
        if content["status"] == "error":
            metadata["dependencies_met"] = content["ename"] != "UnmetDependency"
            metadata["engine_info"] = speech.engine_info(self.request.kind)
        return Answer(content, metadata, buffers)

    def answer_aborted(self) -> Answer:
        """Return the answer to a task that was withdrawn."""
        return Answer({"status": "aborted"}, self._describe("aborted"), [])

    def _answer_well(self, value: Any) -> tuple[Dict, list[bytes]]:
        del value
        return {"status": "ok"}, []

    def _complete_error(self, speech: MessageSession) -> Dict:
        return {"engine_info": speech.engine_info(self.request.kind)}

    def _describe(self, status: str) -> Dict:
        """Return what schedulers and clients look at besides the content."""
        asked = self.request.message["metadata"]
        return {
            "started": self.started or datetime.now(UTC),
            "dependencies_met": True,
            "is_broadcast": asked.get("is_broadcast", False),
            "is_coalescing": asked.get("is_coalescing", False),
            "original_msg_id": asked.get("original_msg_id", ""),
            "label": asked.get("label"),
            "status": status,
        }


class Apply(Task):
    """Call a function with arguments; all of them come as buffers."""

    _name = ""

    def __init__(
        self, request: Request, count: int, tell: Tell, pack: Callable[[Any], list[Any]]
    ) -> None:
        """Make it; `pack` gives the buffers of its result."""
        super().__init__(request, count, tell)
        self._pack = pack

    @property
    def label(self) -> str:
        """What is said of a rank that runs it; with the name of the function once it is known."""
        label = super().label
        return label if label != self.request.kind else f"{label} {self._name}".rstrip()

    def _run(self, shell: Any) -> list[bytes]:
        from ipyparallel.serialize import unpack_apply_message

        from jupyter_dist.frameworks.ipyparallel import dask

        call, arguments, options = unpack_apply_message(
            self.request.message["buffers"], shell.user_ns, copy=False
        )
        self._name = str(getattr(call, "__name__", type(call).__name__))
        if dask.needs_loop(call):
            result = dask.call(shell, call, arguments, options)
        else:
            result = call(*arguments, **options)
        # Copied: what comes next on this thread may change it before it is on its way.
        return [bytes(buffer) for buffer in self._pack(result)]

    def _answer_well(self, value: Any) -> tuple[Dict, list[bytes]]:
        return {"status": "ok"}, value


class Execute(Task):
    """Run code as a cell of this rank alone."""

    is_shown_by_shell = True

    @property
    def code(self) -> str:
        """As the user has written it."""
        return str(self.request.content["code"])

    @property
    def is_silent(self) -> bool:
        """Its value is not shown, and it has no number of its own."""
        return bool(self.request.content.get("silent", False))

    @property
    def stops_on_error(self) -> bool:
        """When it fails, code that was sent after it is not run."""
        return not self.is_silent and bool(self.request.content.get("stop_on_error", True))

    def _run(self, shell: Any) -> Dict:
        shell.execution_count = self.count
        result = shell.run_cell(self.code, store_history=False, silent=self.is_silent)
        result.raise_error()
        payload = shell.payload_manager.read_payload()
        shell.payload_manager.clear_payload()
        asked = self.request.content.get("user_expressions") or {}
        return {"user_expressions": shell.user_expressions(asked), "payload": payload}

    def _answer_well(self, value: Any) -> tuple[Dict, list[bytes]]:
        return {"status": "ok", "execution_count": self.count, **value}, []

    def _complete_error(self, speech: MessageSession) -> Dict:
        more = {"execution_count": self.count, "user_expressions": {}, "payload": []}
        return {**super()._complete_error(speech), **more}


class Clear(Task):
    """Forget the names that the user has made; those that each rank is born with stay."""

    is_of_control = True

    def _run(self, shell: Any) -> None:
        shell.reset(new_session=False)


def _beyond_us(trace: TracebackType | None) -> TracebackType | None:
    """Leave out of a traceback how we came to the user's function."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__") == __name__:
        trace = trace.tb_next
    return trace
