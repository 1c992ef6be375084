"""Takes code from the coordinator, on a thread of its own: signals must not wait behind it."""

import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from jupyter_dist.agent.code.code_dir import CodeDir
from jupyter_dist.model.transfer.code_manifest import Manifest, Piece
from jupyter_dist.protocol import host_agent_pb2 as pb


class CodeReceiver:
    """One sync at a time; what belongs to an older one is dropped."""

    def __init__(
        self,
        run_dir: Path,
        tell: Callable[[pb.AgentEvent], None],
        living_engines: Callable[[], Sequence[str]],
    ) -> None:
        self._code = CodeDir(run_dir)
        self._tell = tell
        self._living_engines = living_engines
        self._commands: queue.SimpleQueue[pb.AgentCommand] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._request_id = ""
        self._manifest_data = bytearray()

    def obey(self, command: pb.AgentCommand) -> None:
        """Do it soon; the answer is told from the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="code", daemon=True)
            self._thread.start()
        self._commands.put(command)

    def _serve(self) -> None:
        while True:
            command = self._commands.get()
            match command.WhichOneof("command"):
                case "code_manifest":
                    self._compare(command.code_manifest)
                case "code_chunk" if command.code_chunk.request_id == self._request_id:
                    self._take(command.code_chunk)
                case "commit_code" if command.commit_code.request_id == self._request_id:
                    self._settle(command.commit_code)

    def _compare(self, part: pb.CodeManifest) -> None:
        if part.request_id != self._request_id:
            self._request_id = part.request_id
            self._manifest_data.clear()
        self._manifest_data += part.data
        if not part.is_last:
            return
        lacks = pb.CodeLacks(request_id=part.request_id)
        try:
            manifest = msgspec.msgpack.decode(self._manifest_data, type=Manifest)
            lacks.indices = msgspec.msgpack.encode(self._code.begin(manifest))
        except Exception as problem:  # noqa: BLE001  (whatever it is, someone waits for it)
            lacks.problem = _describe(problem)
        self._manifest_data.clear()
        self._tell(pb.AgentEvent(code_lacks=lacks))

    def _take(self, chunk: pb.CodeChunk) -> None:
        taken = pb.CodeTaken(request_id=chunk.request_id, number=chunk.number)
        try:
            self._code.add(msgspec.msgpack.decode(chunk.data, type=list[Piece]))
        except Exception as problem:  # noqa: BLE001  (whatever it is, someone waits for it)
            taken.problem = _describe(problem)
        self._tell(pb.AgentEvent(code_taken=taken))

    def _settle(self, command: pb.CommitCode) -> None:
        self._request_id = ""
        settled = pb.CodeCommitted(request_id=command.request_id)
        try:
            if not command.is_wanted:
                self._code.forget()
                return
            settled.removed = self._code.settle()
            settled.stale.extend(self._code.stale_modules(self._living_engines()))
        except Exception as problem:  # noqa: BLE001  (whatever it is, someone waits for it)
            settled.problem = _describe(problem)
        self._tell(pb.AgentEvent(code_committed=settled))


def _describe(problem: Exception) -> str:
    """Return what went wrong, as `No space left on device: '/tmp/…/mypkg/model.py'`."""
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}: {problem.filename}" if problem.filename else problem.strerror
    return str(problem) or type(problem).__name__
