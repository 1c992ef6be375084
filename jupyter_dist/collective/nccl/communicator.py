"""The communicator of clusters with GPUs: device memory by NCCL, host memory as without them."""

import signal
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jupyter_dist.collective.base import BaseCommunicator
from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.calls import counted
from jupyter_dist.collective.calls.arguments import refuse_stream
from jupyter_dist.collective.calls.arrays import is_on_device
from jupyter_dist.collective.calls.global_arrays import is_global
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.api import find_api
from jupyter_dist.collective.nccl.calls import DeviceCalls
from jupyter_dist.collective.nccl.cuda import load_cuda
from jupyter_dist.collective.nccl.device import NoArray, Ways
from jupyter_dist.collective.nccl.libraries import DeviceLibrary
from jupyter_dist.collective.nccl.messages import mixed
from jupyter_dist.collective.sparse.calls import call_sparse
from jupyter_dist.collective.sparse.matrices import is_sparse
from jupyter_dist.errors import CommunicatorError, UsageError

WAKING_SIGNAL = signal.SIGUSR2
"""The engine answers it by raising the communicator's `lost_error`, while a cell runs."""

_HOST_TYPES = frozenset((np.ndarray, int, float, complex, bool, list, tuple))


def _wake_main() -> None:
    """Interrupt the main thread, in whatever library it is, once that returns to Python."""
    thread_id = threading.main_thread().ident
    if thread_id is not None and callable(signal.getsignal(WAKING_SIGNAL)):
        signal.pthread_kill(thread_id, WAKING_SIGNAL)


_WAYS = Ways(load_cuda, find_api, _wake_main)


class NcclCommunicator(BaseCommunicator):
    """Takes arrays where they lie: those on the device by NCCL, all others by `host`.

    NCCL is loaded and formed at the first call with an array on the device; all members must
    come to theirs then. What was split off has an NCCL communicator of its own, with an id of its
    own: ncclCommSplit would let an abort of one touch the other.
    """

    kind = "nccl"

    def __init__(self, host: HostCommunicator, ways: Ways = _WAYS) -> None:
        super().__init__(host.log)
        self._host = host
        self._ways = ways
        self._device = DeviceCalls(host.log, ways)
        self._device.log.tie(host.log)
        self._plain: type[Any] = self._device.ndarray
        """Arrays of this type go to the device as things stand, which is most of the time."""
        self._is_grouped = False
        self._family = _Family(self._device)

    @property
    def stream(self) -> Any:
        """CUDA stream of device calls; None is the current one of CuPy (of torch for tensors)."""
        return self._device.stream

    @stream.setter
    def stream(self, given: Any) -> None:
        if given is not None:
            self._device.load()
            given = self._device.cuda.stream_of(given)
        self._device.stream = given
        self._find_plain()

    # --- collectives -------------------------------------------------------------------------

    def all_reduce(
        self, array: Any, op: str = "sum", out: Any = None, *, stream: Any = None
    ) -> Any:
        """Reduce over all ranks; every rank gets the same bits."""
        if type(array) is self._plain and stream is None:
            return self._device.all_reduce(array, op, out)
        return self._pass_on("all_reduce", array, out, (array, op, out), stream)

    def broadcast(self, array: Any, root: int = 0, out: Any = None, *, stream: Any = None) -> Any:
        """Return the root's array to everybody; elsewhere `array` tells shape and dtype."""
        return self._pass_on("broadcast", array, out, (array, root, out), stream)

    def reduce(
        self, array: Any, root: int = 0, op: str = "sum", out: Any = None, *, stream: Any = None
    ) -> Any:
        """Reduce over all ranks into the root; the others get None and need no `out`."""
        return self._pass_on("reduce", array, out, (array, root, op, out), stream)

    def all_gather(
        self,
        array: Any,
        out: Any = None,
        *,
        count: int | None = None,
        tiled: bool = False,
        stream: Any = None,
    ) -> Any:
        """Collect every rank's array: shape (size, *array.shape), tiled along the first axis."""
        if count is not None and not is_sparse(array):
            return counted.all_gather(self, array, out, count, stream)
        if type(array) is not self._plain and is_global(array):
            if stream is not None:
                refuse_stream("all_gather", stream)
            return self._host.all_gather(array, out, tiled=tiled)
        return self._pass_on("all_gather", array, out, (array, out), stream, tiled=tiled)

    def reduce_scatter(
        self,
        array: Any,
        op: str = "sum",
        out: Any = None,
        *,
        count: int | None = None,
        stream: Any = None,
    ) -> Any:
        """Reduce `array` of shape (size, …) over all ranks; rank i gets row i."""
        if count is not None and not is_sparse(array):
            return counted.reduce_scatter(self, array, op, out, count, stream)
        return self._pass_on("reduce_scatter", array, out, (array, op, out), stream)

    def all_to_all(self, array: Any, out: Any = None, *, stream: Any = None) -> Any:
        """Send row i of `array` of shape (size, …) to rank i; row i of the result is from it."""
        return self._pass_on("all_to_all", array, out, (array, out), stream)

    def gather(self, array: Any, root: int = 0, out: Any = None, *, stream: Any = None) -> Any:
        """Collect every rank's array in the root: shape (size, *array.shape) there, else None."""
        return self._pass_on("gather", array, out, (array, root, out), stream)

    def scatter(self, array: Any, root: int = 0, out: Any = None, *, stream: Any = None) -> Any:
        """Return row i of the root's array of shape (size, …) to rank i.

        Elsewhere `array` (or `out`) tells shape and dtype of the row.
        """
        given = out if array is None else array
        return self._pass_on("scatter", given, out, (array, root, out), stream)

    # --- messages ----------------------------------------------------------------------------

    def send(self, array: Any, dest: int, *, stream: Any = None) -> None:
        """Send to one rank, which calls recv.

        On a device this is queued, and done only when the other has called recv: two ranks that
        both send first wait for each other for ever. Use send_recv or group for that.
        """
        self._pass_on("send", array, None, (array, dest), stream)

    def recv(self, array_or_template: Any, source: int, *, stream: Any = None) -> Any:
        """Receive from one rank; a writable array is filled and returned, else a new one is."""
        given = array_or_template
        return self._pass_on("recv", given, None, (given, source), stream)

    def send_recv(
        self, send_array: Any, dest: int, recv_array: Any, source: int, *, stream: Any = None
    ) -> Any:
        """Send to one rank while receiving from another (or the same), as in a halo exchange."""
        arguments = send_array, dest, recv_array, source
        return self._pass_on("send_recv", send_array, recv_array, arguments, stream)

    def barrier(
        self,
        name: str = "",
        *,
        ranks: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Wait until every rank is here; not for what is queued on devices."""
        self._host.barrier(name, ranks=ranks, timeout_s=timeout_s)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Begin all calls inside together when the block ends: no order of messages can hang."""
        if self._is_grouped:
            raise UsageError("comm.group() is open already. Close it before opening another one.")
        self._is_grouped = True
        try:
            with self._host.group(), self._device.group():
                yield
                # Before either part begins: else what the other has would never be sent.
                self._device.check_group()
        finally:
            self._is_grouped = False

    def split(self, color: int | None, key: int | None = None) -> "NcclCommunicator | None":
        """Make a communicator of all ranks that give the same color, ordered by key, then rank.

        A color of None gives None. All ranks must call it.
        """
        host = self._host.split(color, key)
        return None if host is None else self._adopt(host)

    def _split_off(self, members: Sequence[int], claim: str) -> "NcclCommunicator":
        """Make a communicator of these members, in their order; all of them must call it."""
        return self._adopt(self._host._split_off(members, claim))  # noqa: SLF001  (its own part)

    def _adopt(self, host: HostCommunicator) -> "NcclCommunicator":
        child = NcclCommunicator(host, self._ways)
        self._family.adopt(child, child._family)
        return child

    # --- what becomes of it ------------------------------------------------------------------

    def look(self) -> None:
        """From the link thread, some times a second: take note of what ended on the device."""
        for device in self._family.devices():
            device.look()
        self._family.end_dropped()

    def settle(self) -> None:
        """Wait until all that is queued on the device has ended; raise if it does not."""
        for device in self._family.devices():
            device.settle()
        self._family.end_dropped()

    def lost_error(self) -> CommunicatorError | None:
        """Give, once, the error of calls that were on the device when it broke."""
        errors = [device.lost_error() for device in self._family.devices()]
        return next((error for error in errors if error is not None), None)

    def abort(self, failed_rank: int, reason: str) -> None:
        """Break it, and what was split off, from any thread; what is on the device is lost.

        `failed_rank` is a rank of the cluster.
        """
        self._host.abort(failed_rank, reason)
        for device in self._family.devices():
            device.abort(Breakage("failed", failed_rank, reason))

    def close(self) -> None:
        """Release everything, of what was split off as well; again changes nothing."""
        for device in self._family.devices():
            device.close()
        self._host.close()

    # --- which way ---------------------------------------------------------------------------

    def _pass_on(
        self,
        operation: str,
        given: Any,
        other: Any,
        arguments: tuple[Any, ...],
        stream: Any = None,
        **named: Any,
    ) -> Any:
        """Let the part do it in whose memory the arrays lie; raises UsageError for both."""
        if stream is not None:
            with self._on(stream, operation, given):
                return self._pass_on(operation, given, other, arguments, **named)
        device = self._device
        if type(given) is self._plain:
            return getattr(device, operation)(*arguments, **named)
        library = self._find_library(given)
        if library is None:
            if is_sparse(given):
                # Made of calls for arrays, which then go where those of the matrix lie.
                with device.along_stream(operation):
                    return call_sparse(operation, self, *arguments, **named)
            if other is not None and self._find_library(other) is not None:
                raise mixed(operation, given)
            return getattr(self._host, operation)(*arguments, **named)
        with device.using(library):
            return getattr(device, operation)(*arguments, **named)

    @contextmanager
    def _on(self, stream: Any, operation: str, given: Any) -> Iterator[None]:
        """Have one call go to a stream of its own; raises UsageError for host memory."""
        if not self._is_on_device(given):
            refuse_stream(operation, stream)
        usual, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = usual

    def _is_on_device(self, given: Any) -> bool:
        if is_sparse(given):
            first = given[0] if isinstance(given, (list, tuple)) else given
            given = first.data
        return type(given) is self._plain or self._find_library(given) is not None

    def _find_library(self, given: Any) -> DeviceLibrary | None:
        """Return the library of an array on the device; None for everything else."""
        if type(given) in _HOST_TYPES or not is_on_device(given):
            return None
        self._device.load()
        self._find_plain()
        return self._device.libraries.find(given)

    def _find_plain(self) -> None:
        has_stream = self._device.stream is not None
        self._plain = NoArray if has_stream else self._device.ndarray


class _Family:
    """The device of one communicator, and its children, which the user may drop before their end.

    The main thread and the link thread use it.
    """

    def __init__(self, own: DeviceCalls) -> None:
        self._own = own
        self._children: list[tuple[weakref.ref[object], _Family]] = []
        self._parting = threading.Lock()

    def adopt(self, owner: object, child: "_Family") -> None:
        """Take in what was split off; `owner` is the communicator that the user has."""
        self._children.append((weakref.ref(owner), child))

    def devices(self) -> Iterator[DeviceCalls]:
        """Yield its own device, and those of all descendants."""
        yield self._own
        for _owner, child in list(self._children):
            yield from child.devices()

    def end_dropped(self) -> None:
        """End children that are no longer referenced, once their calls have ended."""
        if not self._parting.acquire(blocking=False):
            return  # another thread does it
        try:
            for each in list(self._children):
                if each[1]._is_over(each[0]()):  # noqa: SLF001  (of the same kind)
                    self._children.remove(each)
        finally:
            self._parting.release()

    def _is_over(self, owner: object | None) -> bool:
        self.end_dropped()
        return owner is None and not self._children and self._own.end_if_idle()
