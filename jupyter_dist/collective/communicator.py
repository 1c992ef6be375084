"""The communicator that `%%spmd` cells see as `comm`: what every kind of it can do."""

from typing import Any, NoReturn, Protocol

from numpy.typing import ArrayLike, NDArray

from jupyter_dist.errors import CommunicatorError

Array = NDArray[Any]


class Communicator(Protocol):
    """Exchanges arrays between ranks; every rank makes the same calls in the same order.

    A plain call returns a new array and leaves its input as it was. With `out=` the result goes
    there, and only once the whole operation has succeeded; `out` may be the input itself, and then
    a failed operation leaves it half done. Scalars and lists are taken as `numpy.asarray` takes
    them; a scalar gives a scalar. Accepted are bool, integers, floats and complex numbers. `op` is
    sum, prod, min or max; on bool, sum and max are a logical or, prod and min an and. Integers keep
    their dtype and wrap around, as in numpy.

    Every method raises UsageError (a ValueError) or TypeError before anything is sent when its
    arguments cannot work, and otherwise CommunicatorError: PeerFailed when another rank raised,
    left or was lost; CollectiveMismatch when ranks called different things; CollectiveTimeout
    after `timeout_s`. After such an error the communicator is broken: later calls raise it again.
    """

    rank: int
    size: int
    generation: int
    kind: str
    """ring, gloo, nccl or none."""
    timeout_s: float
    """Deadline for each operation in seconds; may be set at any time."""
    participants: frozenset[int] | None
    """The ranks that run the current cell; None means all."""

    def all_reduce(self, array: ArrayLike, op: str = "sum", out: Array | None = None) -> Any:
        """Reduce over all ranks; every rank gets the same bits."""

    def broadcast(self, array: ArrayLike, root: int = 0, out: Array | None = None) -> Any:
        """Give the root's array to everybody; elsewhere `array` tells shape and dtype."""

    def reduce(
        self, array: ArrayLike, root: int = 0, op: str = "sum", out: Array | None = None
    ) -> Any:
        """Reduce over all ranks into the root; the others get None and need no `out`."""

    def all_gather(self, array: ArrayLike, out: Array | None = None) -> Array:
        """Collect every rank's array: shape (size, *array.shape)."""

    def reduce_scatter(self, array: ArrayLike, op: str = "sum", out: Array | None = None) -> Any:
        """Reduce `array` of shape (size, …) over all ranks; rank i gets row i."""

    def all_to_all(self, array: ArrayLike, out: Array | None = None) -> Array:
        """Send row i of `array` of shape (size, …) to rank i; row i of the result is from it."""

    def gather(self, array: ArrayLike, root: int = 0, out: Array | None = None) -> Array | None:
        """Collect every rank's array in the root: shape (size, *array.shape) there, else None."""

    def scatter(self, array: ArrayLike | None, root: int = 0, out: Array | None = None) -> Any:
        """Give row i of the root's array of shape (size, …) to rank i.

        Elsewhere `array` (or `out`) tells shape and dtype of the row.
        """

    def send(self, array: ArrayLike, dest: int) -> None:
        """Send to one rank, which calls recv; return when the data is on its way."""

    def recv(self, array_or_template: ArrayLike, source: int) -> Any:
        """Receive from one rank; a writable array is filled and returned, else a new one is."""

    def send_recv(
        self, send_array: ArrayLike, dest: int, recv_array: ArrayLike, source: int
    ) -> Any:
        """Send to one rank while receiving from another (or the same), as in a halo exchange."""

    def barrier(self) -> None:
        """Wait until every rank is here."""

    def abort(self, failed_rank: int, reason: str) -> None:
        """Break the communicator from any thread: who waits in it raises PeerFailed at once."""

    def close(self) -> None:
        """Release everything; calling it again changes nothing."""


class NoCommunicator:
    """Stands where a communicator would be; each method says how to get one."""

    kind = "none"

    def __init__(self, rank: int = 0, size: int = 1, generation: int = 0, reason: str = "") -> None:
        self.rank = rank
        self.size = size
        self.generation = generation
        self.reason = reason or "this cluster was started without one (comm=none)"
        self.timeout_s = 0.0
        self.participants: frozenset[int] | None = None

    def _refuse(self, *_args: Any, **_keywords: Any) -> NoReturn:
        """Raise CommunicatorError, whatever was asked for."""
        raise CommunicatorError(
            f"there is no communicator: {self.reason}. Start the cluster with "
            "`%dist_start --comm auto` to get one."
        )

    all_reduce = broadcast = reduce = all_gather = reduce_scatter = all_to_all = _refuse
    gather = scatter = send = recv = send_recv = barrier = _refuse

    def abort(self, failed_rank: int, reason: str) -> None:
        """Do nothing: nobody can wait in it."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
