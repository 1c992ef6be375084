"""The communicator of arrays in host memory, which the ring moves."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_dist.collective import splitting
from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.calls import arguments, counted
from jupyter_dist.collective.calls.call import UFUNCS, Array, Call
from jupyter_dist.collective.calls.global_arrays import gather_whole, is_global
from jupyter_dist.collective.calls.output_buffer import OutputBuffer
from jupyter_dist.collective.control import Control
from jupyter_dist.collective.group import Group, Scope
from jupyter_dist.collective.host_messages import HostMessages
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.collective.sparse.calls import takes_sparse
from jupyter_dist.descriptors import defer_interrupts
from jupyter_dist.errors import CommunicatorError, UsageError

if TYPE_CHECKING:
    # Named in quotes below, or Shift-Tab would show the dozen types that it stands for.
    from numpy.typing import ArrayLike


@takes_sparse
class HostCommunicator(HostMessages):
    """Exchanges arrays in host memory; see BaseCommunicator for what all methods keep to.

    The transport belongs to it from now on; `scope` is shared with what is split off.
    """

    def __init__(
        self,
        group: Group,
        transport: RingTransport,
        recorder: CollectiveRecorder | None = None,
        control: Control | None = None,
        scope: Scope | None = None,
    ) -> None:
        log = CallLog(group, scope or Scope(), recorder, control, transport.leave)
        super().__init__(log, transport)
        if recorder is not None:
            transport.on_waiting = recorder.note_awaited

    def all_reduce(self, array: "ArrayLike", op: str = "sum", out: Any = None) -> Any:
        """Reduce over all ranks; every rank gets the same bits."""
        source, library = arguments.numbers("all_reduce", array)
        arguments.check_reduction("all_reduce", op, source.dtype)
        output = arguments.result_room("all_reduce", out, source.shape, source.dtype, library)
        work = output.keep_safe(source)

        def move(call: Call) -> None:
            self._transport.run(call, _flat(source), _flat(work), UFUNCS[op])
            output.settle(self._divisor(op))

        return self._collect("all_reduce", source, move, output, op)

    def broadcast(self, array: "ArrayLike", root: int = 0, out: Any = None) -> Any:
        """Return the root's array to everybody; elsewhere `array` tells shape and dtype."""
        source, library = arguments.numbers("broadcast", array)
        root = arguments.peer("broadcast", "root", root, self.size)
        output = arguments.result_room("broadcast", out, source.shape, source.dtype, library)
        work = output.keep_safe(source)

        def move(call: Call) -> None:
            if self.rank == root and work is not source:
                np.copyto(work, source)
            self._transport.run(call, _flat(work), root)
            output.settle()

        return self._collect("broadcast", source, move, output, root=root)

    def reduce(self, array: "ArrayLike", root: int = 0, op: str = "sum", out: Any = None) -> Any:
        """Reduce over all ranks into the root; the others get None and need no `out`."""
        source, library = arguments.numbers("reduce", array)
        arguments.check_reduction("reduce", op, source.dtype)
        root = arguments.peer("reduce", "root", root, self.size)
        is_root = self.rank == root
        wanted = out if is_root else None
        output = arguments.result_room("reduce", wanted, source.shape, source.dtype, library)
        work = output.keep_safe(source)

        def move(call: Call) -> None:
            self._transport.run(call, _flat(source), _flat(work), root, UFUNCS[op])
            if is_root:
                output.settle(self._divisor(op))

        return self._collect("reduce", source, move, output if is_root else None, op, root)

    def all_gather(
        self, array: "ArrayLike", out: Any = None, *, count: int | None = None, tiled: bool = False
    ) -> Any:
        """Collect every rank's array: shape (size, *array.shape).

        `tiled` puts them together along their first axis: (size * array.shape[0], …); of a JAX
        array that spans processes it gives the whole. With a `count` the first so many elements
        go, and the result is flat.
        """
        if count is not None:
            return counted.all_gather(self, array, out, count)
        if is_global(array):
            return gather_whole(self, array, out, tiled=tiled)
        source, library = arguments.numbers("all_gather", array)
        shape = arguments.gathered_shape(source.shape, self.size, tiled=tiled)
        output = arguments.result_room("all_gather", out, shape, source.dtype, library)
        stack = self._rows(output.keep_safe())

        def move(call: Call) -> None:
            self._transport.run(call, _flat(source), stack)
            output.settle()

        return self._collect("all_gather", source, move, output)

    def reduce_scatter(
        self, array: "ArrayLike", op: str = "sum", out: Any = None, *, count: int | None = None
    ) -> Any:
        """Reduce `array` of shape (size, …) over all ranks; rank i gets row i.

        With a `count` it is flat: rank i gets the `count` elements from i * count on.
        """
        if count is not None:
            return counted.reduce_scatter(self, array, op, out, count)
        source, library = arguments.rows("reduce_scatter", array, self.size)
        arguments.check_reduction("reduce_scatter", op, source.dtype)
        shape = source.shape[1:]
        output = arguments.result_room("reduce_scatter", out, shape, source.dtype, library)
        work = output.keep_safe()

        def move(call: Call) -> None:
            self._transport.run(call, self._rows(source), _flat(work), UFUNCS[op])
            output.settle(self._divisor(op))

        return self._collect("reduce_scatter", source, move, output, op)

    def all_to_all(self, array: "ArrayLike", out: Any = None) -> Any:
        """Send row i of `array` of shape (size, …) to rank i; row i of the result is from it."""
        source, library = arguments.rows("all_to_all", array, self.size)
        output = arguments.result_room("all_to_all", out, source.shape, source.dtype, library)
        work = output.keep_safe()

        def move(call: Call) -> None:
            self._transport.run(call, self._rows(source), self._rows(work))
            output.settle()

        return self._collect("all_to_all", source, move, output)

    def gather(self, array: "ArrayLike", root: int = 0, out: Any = None) -> Any:
        """Collect every rank's array in the root: shape (size, *array.shape) there, else None."""
        source, library = arguments.numbers("gather", array)
        root = arguments.peer("gather", "root", root, self.size)
        output: OutputBuffer | None = None
        stack: Array | None = None
        if self.rank == root:
            shape = (self.size, *source.shape)
            output = arguments.result_room("gather", out, shape, source.dtype, library)
            stack = self._rows(output.keep_safe())

        def move(call: Call) -> None:
            self._transport.run(call, _flat(source), stack, root)
            if output is not None:
                output.settle()

        return self._collect("gather", source, move, output, root=root)

    def scatter(self, array: "ArrayLike | None", root: int = 0, out: Any = None) -> Any:
        """Return row i of the root's array of shape (size, …) to rank i.

        Elsewhere `array` (or `out`) tells shape and dtype of the row.
        """
        root = arguments.peer("scatter", "root", root, self.size)
        stack: Array | None = None
        if self.rank == root:
            source, library = arguments.rows("scatter", array, self.size)
            stack, template = self._rows(source), source[0, ...]
        else:
            template, library = arguments.numbers("scatter", out if array is None else array)
        output = arguments.result_room("scatter", out, template.shape, template.dtype, library)
        work = output.keep_safe()

        def move(call: Call) -> None:
            self._transport.run(call, stack, _flat(work), root)
            output.settle()

        return self._collect("scatter", output.view, move, output, root=root)

    def barrier(
        self,
        name: str = "",
        *,
        ranks: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Wait until every rank is here.

        With a name, ranks or a time-out it goes over the control channel, which any ranks may use.
        """
        if name or ranks is not None or timeout_s is not None:
            self.object_barrier(name, ranks=ranks, timeout_s=timeout_s)
            return
        self._collect("barrier", None, self._transport.run, None)

    def split(self, color: int | None, key: int | None = None) -> "HostCommunicator | None":
        """Make a communicator of all ranks that give the same color, ordered by key, then rank.

        A color of None gives None. All ranks must call it.
        """
        wish = splitting.check_wish(color, key, self.rank)
        if self._grouped is not None:
            raise UsageError(
                "split cannot be called inside comm.group(). Call it before the block."
            )
        self.log.check_possible("split")
        prepared = "" if wish.color is None else self._transport.prepare_split()
        told = self.all_gather(splitting.pack(wish, prepared))
        self._children.release_dropped()
        group, addresses = splitting.form(self.log.group, self.log.scope, told)
        return None if group is None else self._make_child(group, addresses)

    def _split_off(self, members: Sequence[int], claim: str) -> "HostCommunicator":
        """Make a communicator of these members, in their order; all of them must call it."""
        if self._grouped is not None:
            raise UsageError(f"{claim} cannot be called inside comm.group(). Call it before.")
        self.log.check_intact()
        self._children.release_dropped()
        address = self._transport.prepare_split()
        try:
            told = self.all_gather_object(address, ranks=members)
        except BaseException:
            self._transport.forget_split()
            raise
        addresses = dict(zip(sorted(members), told, strict=True))
        group = splitting.form_of(self.log.group, self.log.scope, members)
        return self._make_child(group, [addresses[member] for member in members])

    def _make_child(self, group: Group, addresses: Sequence[str]) -> "HostCommunicator":
        log = self.log
        with log.turn("split"), defer_interrupts():
            transport = self._transport.split(group, addresses, log.sequence)
            child = HostCommunicator(group, transport, log.recorder, log.control, log.scope)
            child._parent = self
            self._children.add(child, child._release_when_dropped())
        try:
            log.check_intact()
        except CommunicatorError:  # an abort came before the child could be seen
            child.close()
            raise
        return child

    def _collect(
        self,
        operation: str,
        array: Array | None,
        move: Callable[[Call], None],
        output: OutputBuffer | None,
        op: str = "",
        root: int = -1,
    ) -> Any:
        """Do it now, or with the others of a group; give what the caller gets."""
        self._do(self.log.sign(operation, array, op, root), move, output)
        return None if output is None else output.answer()

    def _divisor(self, op: str) -> int:
        return self.size if op == "avg" else 1

    def _rows(self, array: Array) -> Array:
        # Not -1: an array without elements could have any number of columns.
        return array.reshape(self.size, array.size // self.size)


def _flat(array: Array) -> Array:
    return array.reshape(-1)
