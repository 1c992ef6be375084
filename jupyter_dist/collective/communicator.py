"""The communicator that `%%spmd` cells see as `comm`: what every kind of it can do."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

from jupyter_dist.collective.control import Control
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.objects.object_collectives import ObjectCollectives
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.errors import CommunicatorError


class Communicator(Protocol):
    """Exchanges arrays between ranks; every rank makes the same calls in the same order.

    Arrays of numpy, torch, JAX and CuPy are taken as they are, without a copy if they are
    C-contiguous; results come in the library of the input. Scalars and lists are taken as
    `numpy.asarray` takes them; a scalar gives a scalar. Accepted are bool, integers, floats
    (bfloat16 and the float8 types too) and complex numbers. Host memory and device memory each
    have their way; no call mixes them.

    A plain call returns a new array and leaves its input as it was. With `out=` the result goes
    there: it has the shape of the result, or is flat, in the order of C or of Fortran. In host
    memory that happens only once the whole operation has succeeded; where `out` is the input
    itself, and on devices, a failed operation leaves it half done.

    `op` is sum, prod, min, max or avg; on bool, sum and max are a logical or, prod and min an and.
    Integers keep their dtype and wrap around, as in numpy; they have no avg.

    Every method raises UsageError (a ValueError) or TypeError before anything is sent when its
    arguments cannot work, and otherwise CommunicatorError: PeerFailed when another rank raised,
    left or was lost; CollectiveMismatch when ranks called different things; CollectiveTimeout
    after `timeout_s`. After such an error the communicator is broken: later calls raise it again.

    Calls on host memory return when they are done, and take no `stream`. Calls on device memory
    are queued on the `stream` of the call, or else of the communicator, and return at once; what
    becomes of them shows at the latest when the cell ends.
    """

    rank: int
    size: int
    generation: int
    kind: str
    """ring, nccl or none."""
    timeout_s: float
    """Deadline for each operation in seconds; may be set at any time."""
    check: bool
    """Compare each collective across ranks before it begins; may be set at any time, on all."""
    participants: frozenset[int] | None
    """The ranks that run the current cell; None means all."""

    @property
    def stream(self) -> Any:
        """CUDA stream of device calls; None is CuPy's current one, and all without GPUs."""

    def all_reduce(
        self, array: Any, op: str = "sum", out: Any = None, *, stream: Any = None
    ) -> Any:
        """Reduce over all ranks; every rank gets the same bits."""

    def broadcast(self, array: Any, root: int = 0, out: Any = None, *, stream: Any = None) -> Any:
        """Return the root's array to everybody; elsewhere `array` tells shape and dtype."""

    def reduce(
        self, array: Any, root: int = 0, op: str = "sum", out: Any = None, *, stream: Any = None
    ) -> Any:
        """Reduce over all ranks into the root; the others get None and need no `out`."""

    def all_gather(
        self,
        array: Any,
        out: Any = None,
        *,
        count: int | None = None,
        tiled: bool = False,
        stream: Any = None,
    ) -> Any:
        """Collect every rank's array: shape (size, *array.shape).

        `tiled` puts them together along their first axis: (size * array.shape[0], …); of a JAX
        array that spans processes it gives the whole. With a `count` the first so many elements
        go, and the result is flat.
        """

    def to_global(self, local: Any, mesh: Any, spec: Any) -> Any:
        """Make a JAX array over all processes of each rank's part."""

    def to_local(self, array: Any) -> Any:
        """Return this rank's part of a JAX array over all processes."""

    def reduce_scatter(
        self,
        array: Any,
        op: str = "sum",
        out: Any = None,
        *,
        count: int | None = None,
        stream: Any = None,
    ) -> Any:
        """Reduce `array` of shape (size, …) over all ranks; rank i gets row i.

        With a `count` it is flat: rank i gets the `count` elements from i * count on.
        """

    def all_to_all(self, array: Any, out: Any = None, *, stream: Any = None) -> Any:
        """Send row i of `array` of shape (size, …) to rank i; row i of the result is from it."""

    def gather(self, array: Any, root: int = 0, out: Any = None, *, stream: Any = None) -> Any:
        """Collect every rank's array in the root: shape (size, *array.shape) there, else None."""

    def scatter(self, array: Any, root: int = 0, out: Any = None, *, stream: Any = None) -> Any:
        """Return row i of the root's array of shape (size, …) to rank i.

        Elsewhere `array` (or `out`) tells shape and dtype of the row.
        """

    def send(self, array: Any, dest: int, *, stream: Any = None) -> None:
        """Send to one rank, which calls recv; return when the data is on its way."""

    def recv(self, array_or_template: Any, source: int, *, stream: Any = None) -> Any:
        """Receive from one rank; a writable array is filled and returned, else a new one is."""

    def send_recv(
        self, send_array: Any, dest: int, recv_array: Any, source: int, *, stream: Any = None
    ) -> Any:
        """Send to one rank while receiving from another (or the same), as in a halo exchange."""

    def barrier(
        self,
        name: str = "",
        *,
        ranks: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Wait until every rank is here; with any argument over the control channel."""

    def group(self) -> AbstractContextManager[None]:
        """Begin all calls of a block together when it ends; results are there after it."""

    def split(self, color: int | None, key: int | None = None) -> "Communicator | None":
        """Make a communicator of all ranks with the same color, ordered by key, then rank."""

    def look(self) -> None:
        """Take note of what has ended on devices; the link thread calls it while a cell runs."""

    def settle(self) -> None:
        """Wait until all calls on devices have ended, and raise CommunicatorError if they do not.

        The main thread calls it at the end of each cell.
        """

    def lost_error(self) -> CommunicatorError | None:
        """Give, once, what to raise because calls on devices have been aborted."""

    def abort(self, failed_rank: int, reason: str) -> None:
        """Break the communicator from any thread: who waits in it raises PeerFailed at once."""

    def close(self) -> None:
        """Release everything; calling it again changes nothing."""


class NoCommunicator(ObjectCollectives):
    """Stands where a communicator would be; each method says how to get one.

    Object collectives work all the same: they need the control channel only.
    """

    kind = "none"
    stream = None

    def __init__(
        self,
        group: Group,
        reason: str = "",
        recorder: CollectiveRecorder | None = None,
        control: Control | None = None,
    ) -> None:
        super().__init__(group, recorder, control)
        self.reason = reason or "this cluster was started without one (comm=none)"
        self.timeout_s = 60.0
        self.check = False
        self.participants: frozenset[int] | None = None

    def _refuse(self, *_args: Any, **_keywords: Any) -> NoReturn:
        """Raise CommunicatorError, whatever was asked for."""
        raise CommunicatorError(
            f"there is no communicator: {self.reason}. Start the cluster with "
            "`%dist_start --comm auto` to get one."
        )

    all_reduce = broadcast = reduce = all_gather = reduce_scatter = all_to_all = _refuse
    gather = scatter = send = recv = send_recv = group = split = _refuse

    def barrier(
        self,
        name: str = "",
        *,
        ranks: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Wait until every rank is here, over the control channel."""
        self.object_barrier(name, ranks=ranks, timeout_s=timeout_s)

    def _do_nothing(self, *_args: Any, **_keywords: Any) -> None:
        """Do nothing: without calls there is nothing to wait for, to break or to release."""

    look = settle = lost_error = abort = close = _do_nothing
