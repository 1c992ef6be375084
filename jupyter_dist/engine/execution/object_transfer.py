"""Objects that come into a rank or leave it: pickle runs code of users, which may do anything."""

from jupyter_dist.control.memory_file import write_to
from jupyter_dist.engine.execution.executor import Executor
from jupyter_dist.engine.execution.namespace import Namespace
from jupyter_dist.errors import TransferError
from jupyter_dist.model.ranks.user_errors import error_text, name_error
from jupyter_dist.model.transfer.pieces import LARGE_FROM_BYTES
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import FetchObject, StoreObjects
from jupyter_dist.text.lists import name_pull, name_push, name_some


class ObjectTransfer:
    """Pushes and pulls on the main thread, where SIGINT ends them."""

    def __init__(self, executor: Executor, namespace: Namespace) -> None:
        self._executor = executor
        self._namespace = namespace

    def store(self, message: StoreObjects, buffers: list[Frame]) -> str:
        """Put pushed objects under their names, all or none; return why not, or nothing."""
        is_stored = False

        def store() -> None:
            nonlocal is_stored
            if message.sizes:
                self._namespace.store_placed(message)
            else:
                self._namespace.store(message.names, message.frame_counts, buffers)
            is_stored = True

        label = name_push(message.names)
        error, _ = self._executor.run_transfer(message.request_id, label, store)
        if error is None or is_stored:
            return ""
        return self._explain(error, f"rebuilt {name_some(message.names)}")

    def fetch(self, message: FetchObject) -> tuple[str, tuple[int, ...], list[Frame]]:
        """Pack an object; return why not, the sizes of frames if large, and those to send."""

        def fetch() -> tuple[tuple[int, ...], list[Frame]]:
            frames = self._namespace.fetch(message)
            sizes = tuple(memoryview(frame).nbytes for frame in frames)
            if sum(sizes) < LARGE_FROM_BYTES:
                return (), frames
            is_written = bool(message.file) and write_to(message.file, frames)
            return sizes, [] if is_written else frames

        label = name_pull(message.name)
        error, found = self._executor.run_transfer(message.request_id, label, fetch)
        if error is None:
            return "", *found
        return self._explain(error, f"packed {message.name}"), (), []

    def _explain(self, error: BaseException, doing: str) -> str:
        if isinstance(error, TransferError):
            return error_text(error)
        if isinstance(error, KeyboardInterrupt) and self._executor.was_interrupted:
            return f"interrupted while it {doing}"
        return f"raised {name_error(error)} while it {doing}"
