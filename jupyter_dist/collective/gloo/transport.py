"""The transport of gloo, which torch brings along."""

from collections.abc import Callable, Sequence

import numpy as np

from jupyter_dist.collective.breakage import Breakage
from jupyter_dist.collective.call import UFUNCS, Array, Call
from jupyter_dist.collective.control import Control
from jupyter_dist.collective.gloo.link import Link
from jupyter_dist.collective.gloo.reductions import native
from jupyter_dist.collective.gloo.tensors import as_bytes, as_rows, as_tensor, operation
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.transport import Message

_FORMING_S = 60.0
"""Loading torch from a cold disk is part of it."""


class GlooTransport:
    """Moves numpy arrays by torch's gloo; see HostTransport for what each method does.

    It stands beside torch.distributed, which is left to the user. The members find each other over
    the control channel, which is authenticated; but gloo itself neither encrypts nor asks who
    connects, and notices no mismatch: ranks that call different things wait until their deadline,
    or get each other's bytes (comm.check compares calls before they begin).

    Raises UsageError without torch, CommunicatorError when the members do not come together.
    """

    kind = "gloo"
    on_waiting: Callable[[Call, Sequence[int]], object]
    """Never called: torch does not tell whose data has not come."""

    def __init__(
        self,
        group: Group,
        host: str,
        control: Control,
        timeout_s: float = _FORMING_S,
        look_around: Callable[[], None] = lambda: None,
    ) -> None:
        self._me = group
        self._host = host
        self._control = control
        self._link = Link(group, control)
        self._link.allow(timeout_s)
        if group.size > 1:
            try:
                self._link.form(host, look_around)
            except BaseException:
                self._link.close()
                raise

    def enter(self, timeout_s: float, site: str) -> None:  # noqa: ARG002  (gloo compares nothing)
        """Tell how long the operation that comes next may take."""
        self._link.allow(timeout_s)

    # --- collectives -------------------------------------------------------------------------

    def all_reduce(self, call: Call, source: Array, target: Array, reduction: str) -> None:
        """Reduce over all ranks into `target`, by numpy where gloo would do it differently."""
        if target is not source:
            np.copyto(target, source)
        seen = native(target, reduction)
        if seen is None:
            part = self._reduce_part(call, target, reduction)
            stack = np.empty((self._me.size, part.size), part.dtype)
            self.all_gather(call, part, stack)
            np.copyto(target, stack.reshape(-1)[: target.size])
        else:
            self._link.do(
                call,
                lambda gloo: gloo.allreduce(
                    [as_tensor(seen.array)],
                    self._link.options("Allreduce", reduceOp=operation(seen.operation)),
                ),
                target,
            )

    def broadcast(self, call: Call, target: Array, root: int) -> None:
        """Give the root's `target` to everybody."""
        self._link.do(
            call,
            lambda gloo: gloo.broadcast(
                [as_bytes(target)], self._link.options("Broadcast", rootRank=root)
            ),
            target,
        )

    def reduce(self, call: Call, source: Array, target: Array, root: int, reduction: str) -> None:
        """Reduce into the root's `target`, which elsewhere is room to work in."""
        if target is not source:
            np.copyto(target, source)
        seen = native(target, reduction)
        if seen is None:
            part = self._reduce_part(call, target, reduction)
            is_root = self._me.rank == root
            stack = np.empty((self._me.size, part.size), part.dtype) if is_root else None
            self.gather(call, part, stack, root)
            if stack is not None:
                np.copyto(target, stack.reshape(-1)[: target.size])
        else:
            self._link.do(
                call,
                lambda gloo: gloo.reduce(
                    [as_tensor(seen.array)],
                    self._link.options("Reduce", reduceOp=operation(seen.operation), rootRank=root),
                ),
                target,
            )

    def all_gather(self, call: Call, source: Array, stack: Array) -> None:
        """Collect every rank's `source` in `stack`."""
        stack[self._me.rank] = source
        self._link.do(
            call,
            lambda gloo: gloo.allgather(
                [as_rows(stack)], [as_bytes(source)], self._link.options("Allgather")
            ),
            source,
        )

    def reduce_scatter(self, call: Call, rows: Array, target: Array, reduction: str) -> None:
        """Reduce `rows` over all ranks; row `rank` goes to `target`."""
        stack = np.empty_like(rows)
        self.all_to_all(call, rows, stack)
        # numpy says nothing of a NaN in a minimum, ml_dtypes would.
        with np.errstate(invalid="ignore"):
            # Row by row: ufunc.reduce knows neither every dtype nor every byte order.
            np.copyto(target, stack[0])
            for row in stack[1:]:
                UFUNCS[reduction](target, row, out=target)

    def all_to_all(self, call: Call, rows: Array, target: Array) -> None:
        """Send row i of `rows` to rank i; row i of `target` comes from rank i."""
        target[self._me.rank] = rows[self._me.rank]
        self._link.do(
            call,
            lambda gloo: gloo.alltoall_base(
                as_bytes(target), as_bytes(rows), [], [], self._link.options("AllToAll")
            ),
            rows,
        )

    def gather(self, call: Call, source: Array, stack: Array | None, root: int) -> None:
        """Collect every rank's `source` in the root's `stack`."""
        if stack is not None:
            stack[self._me.rank] = source
        self._link.do(
            call,
            lambda gloo: gloo.gather(
                [] if stack is None else [as_rows(stack)],
                [as_bytes(source)],
                self._link.options("Gather", rootRank=root),
            ),
            source,
        )

    def scatter(self, call: Call, stack: Array | None, target: Array, root: int) -> None:
        """Give row i of the root's `stack` to rank i's `target`."""
        if stack is not None:
            np.copyto(target, stack[self._me.rank])
        self._link.do(
            call,
            lambda gloo: gloo.scatter(
                [as_bytes(target)],
                [] if stack is None else [as_rows(stack)],
                self._link.options("Scatter", rootRank=root),
            ),
            target,
        )

    def exchange(self, call: Call, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send and receive all of these at once."""
        self._link.exchange(call, sent, received)

    def barrier(self, call: Call) -> None:
        """Wait until every rank is here."""
        self._link.do(call, lambda gloo: gloo.barrier(self._link.options("Barrier")))

    def _reduce_part(self, call: Call, source: Array, reduction: str) -> Array:
        """Reduce this rank's part of a flat array; parts are equally long, the last is padded."""
        count = -(-source.size // self._me.size)
        rows = np.zeros((self._me.size, count), source.dtype)
        rows.reshape(-1)[: source.size] = source
        part = np.empty(count, source.dtype)
        self.reduce_scatter(call, rows, part, reduction)
        return part

    # --- other communicators, the end --------------------------------------------------------

    def prepare_split(self) -> str:
        """Have nothing to tell: members of a new group meet over the control channel."""
        return ""

    def split(
        self,
        group: Group,
        told: Sequence[str],  # noqa: ARG002
        number: int,  # noqa: ARG002
    ) -> "GlooTransport":
        """Make a gloo of these members, with connections of its own."""

        def look_around() -> None:
            if self._link.aborted is not None:
                raise self._link.aborted.error(self._me.world_rank)

        return GlooTransport(group, self._host, self._control, self._link.timeout_s, look_around)

    def abort(self, breakage: Breakage) -> None:
        """Make the running operation, if any, raise Broken at once."""
        self._link.abort(breakage)

    def leave(self, breakage: Breakage) -> None:
        """Let peers that wait for this rank know why it is gone."""
        self._link.leave(breakage)

    def close(self) -> None:
        """Release everything; calling it again changes nothing."""
        self._link.close()
