"""The ways to libnccl: NVIDIA's own binding, and CuPy's."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from jupyter_dist.errors import CommunicatorError

SUCCESS, REMOTE_ERROR, IN_PROGRESS = 0, 6, 7

Launch = Callable[..., None]
"""Queues something on a stream. Takes pointers, counts and codes in the order of nccl.h."""


class Nccl4py:
    """NVIDIA's binding. Communicators do not block, so that each wait has an end."""

    name = "nccl4py"
    is_polled = True
    """What is called may go on after the return: `state` says IN_PROGRESS meanwhile."""

    def __init__(self, binding: Any) -> None:
        self._nccl = binding
        self._configs: dict[Any, Any] = {}
        """NCCL keeps a pointer to the name in the configuration of each communicator."""
        self.failure: type[Exception] = binding.NCCLError
        self.state: Callable[[Any], int] = binding.comm_get_async_error
        """Gives the result code of what goes on in the background."""
        self.finalize: Callable[[Any], None] = binding.comm_finalize
        """Begins the end of a communicator that has nothing on the device any more."""
        self.all_reduce: Launch = binding.all_reduce
        """Takes source, target, count, datatype, op, handle, stream."""
        self.broadcast: Launch = binding.broadcast
        """Takes source, target, count, datatype, root, handle, stream."""
        self.reduce: Launch = binding.reduce
        """Takes source, target, count, datatype, op, root, handle, stream."""
        self.all_gather: Launch = binding.all_gather
        """Takes source, target, count of the source, datatype, handle, stream."""
        self.reduce_scatter: Launch = binding.reduce_scatter
        """Takes source, target, count of the target, datatype, op, handle, stream."""
        self.send: Launch = binding.send
        """Takes source, count, datatype, peer, handle, stream."""
        self.recv: Launch = binding.recv
        """Takes target, count, datatype, peer, handle, stream."""
        self.group_start: Launch = binding.group_start
        """Begins a group: what this thread calls until its end begins together."""
        self.group_end: Launch = binding.group_end
        """Ends the group."""

    def new_id(self) -> bytes:
        """Make the id of a communicator to be; this process must be its rank 0."""
        return bytes(self._nccl.get_unique_id())

    def init(self, size: int, unique_id: bytes, rank: int, name: str) -> Any:
        """Begin to form a communicator; NCCL_COMM_BLOCKING=1 makes this block."""
        config = self._nccl.Config()
        config.blocking = 0
        config.comm_name = name
        identity = self._nccl.UniqueId.from_buffer(unique_id)
        handle = self._nccl.comm_init_rank_config(size, identity, rank, config)
        self._configs[handle] = config
        return handle

    def abort(self, handle: Any) -> None:
        """End everything that the communicator has on the device, and the communicator."""
        try:
            self._nccl.comm_abort(handle)
        finally:
            self._configs.pop(handle, None)

    def destroy(self, handle: Any) -> None:
        """End a communicator that is finalized."""
        try:
            self._nccl.comm_destroy(handle)
        finally:
            self._configs.pop(handle, None)

    def explain(self, handle: Any, status: int) -> str:
        """Return what a result code means, with NCCL's last words."""
        meaning = str(self._nccl.get_error_string(status))
        last = "" if handle is None else str(self._nccl.get_last_error(handle)).strip()
        return f"{meaning}: {last}" if last else meaning


class CuPyNccl:
    """CuPy's binding. Communicators block: NCCL itself has no deadline then."""

    name = "cupy"
    is_polled = False

    def __init__(self, binding: Any, lack: str = "") -> None:
        self._nccl = binding
        self._lack = lack
        """Why nccl4py does not serve."""
        self.failure: type[Exception] = binding.NcclError
        self.group_start: Launch = binding.groupStart
        self.group_end: Launch = binding.groupEnd
        self.all_reduce: Launch = partial(_call_handle, "allReduce")
        self.broadcast: Launch = partial(_call_handle, "broadcast")
        self.reduce: Launch = partial(_call_handle, "reduce")
        self.all_gather: Launch = partial(_call_handle, "allGather")
        self.reduce_scatter: Launch = partial(_call_handle, "reduceScatter")
        self.send: Launch = partial(_call_handle, "send")
        self.recv: Launch = partial(_call_handle, "recv")

    def new_id(self) -> bytes:
        """Make the id of a communicator to be."""
        made = self._nccl.get_unique_id()
        # Before version 14 it was a tuple of signed numbers.
        return made if isinstance(made, bytes) else bytes(number & 0xFF for number in made)

    def init(self, size: int, unique_id: bytes, rank: int, name: str) -> Any:
        """Form a communicator; blocks until all ranks have come, or for ever."""
        del name
        try:
            return self._nccl.NcclCommunicator(size, unique_id, rank)
        except TypeError:  # CuPy before 14
            signed = tuple(number - 256 if number > 127 else number for number in unique_id)
            return self._nccl.NcclCommunicator(size, signed, rank)

    def state(self, handle: Any) -> int:
        """Return the result code of what goes on in the background."""
        try:
            handle.check_async_error()
        except self.failure as error:
            return int(getattr(error, "status", 1))
        return SUCCESS

    def explain(self, handle: Any, status: int) -> str:
        """Return what a result code means; CuPy does not pass on NCCL's last words."""
        del handle
        try:
            meaning = str(self.failure(status))
        except KeyError:  # CuPy's table ends at 6
            meaning = f"NCCL result code {status}"
        if not self._lack:
            return meaning
        return f"{meaning} (through CuPy, which tells no more; nccl4py is not used: {self._lack})"

    def abort(self, handle: Any) -> None:
        """End everything that the communicator has on the device, and the communicator."""
        handle.abort()

    def finalize(self, handle: Any) -> None:
        """Do nothing: where communicators block, `destroy` does all."""

    def destroy(self, handle: Any) -> None:
        """End a communicator that has nothing on the device any more."""
        handle.destroy()


NcclApi = Nccl4py | CuPyNccl
"""What is needed of NCCL. A handle is whatever stands for an ncclComm_t.

Calls raise `failure`, which has NCCL's result code as its `status`.
"""


def _call_handle(method: str, *args: Any) -> None:
    """Call what CuPy's communicator has: the handle is not among its arguments, but has it."""
    *told, handle, stream = args
    getattr(handle, method)(*told, stream)


def find_api() -> NcclApi:
    """Load NVIDIA's binding, or else CuPy's; raises CommunicatorError when there is no NCCL."""
    try:
        from nccl.bindings import nccl as binding

        binding.get_version()
        return Nccl4py(binding)
    except (ImportError, RuntimeError) as error:  # the binding, or libnccl itself, is missing
        lack = (str(error).strip() or type(error).__name__).splitlines()[0]
    with warnings.catch_warnings():
        # CuPy says by a warning that there is no libnccl; the error below says it better.
        warnings.simplefilter("ignore")
        from cupy.cuda import nccl as older
    if older.available:
        return CuPyNccl(older, lack)
    raise CommunicatorError(
        "arrays in device memory travel by NCCL, which is not installed here "
        f"({lack}). Install it with CuPy's CUDA version: pip install nccl4py nvidia-nccl-cu12 (or "
        "nvidia-nccl-cu13; with torch the one that torch brings). Or pass arrays in host memory "
        "(cupy.asnumpy(x))."
    )
