"""How a communicator of host memory moves its arrays: what each transport can do."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from jupyter_dist.collective.breakage import Breakage
from jupyter_dist.collective.call import Array, Call
from jupyter_dist.collective.group import Group


class Message(NamedTuple):
    """One array between two ranks: sent to the peer, or to be filled from it."""

    call: Call
    array: Array
    peer: int


class HostTransport(Protocol):
    """Moves what it is given; the communicator has checked it, and numbered the call.

    Arrays are C-contiguous, and flat unless a shape is given; `target` may be `source` itself in
    all_reduce and reduce. Each method but abort is called from one thread at a time, and raises
    Broken when it cannot go on; then only `leave` and `close` follow.
    """

    kind: str
    on_waiting: Callable[[Call, Sequence[int]], object]
    """Called now and then while data of these ranks of the cluster has not come; or never."""

    def enter(self, timeout_s: float, site: str) -> None:
        """Tell how long the operation that comes next may take, and where it was called."""

    def all_reduce(self, call: Call, source: Array, target: Array, reduction: str) -> None:
        """Reduce over all ranks into `target`; for avg give the sum."""

    def broadcast(self, call: Call, target: Array, root: int) -> None:
        """Give the root's `target` to everybody."""

    def reduce(self, call: Call, source: Array, target: Array, root: int, reduction: str) -> None:
        """Reduce into the root's `target`, which elsewhere is room to work in."""

    def all_gather(self, call: Call, source: Array, stack: Array) -> None:
        """Collect every rank's `source` (count) in `stack` (size, count)."""

    def reduce_scatter(self, call: Call, rows: Array, target: Array, reduction: str) -> None:
        """Reduce `rows` (size, count) over all ranks; row `rank` goes to `target` (count)."""

    def all_to_all(self, call: Call, rows: Array, target: Array) -> None:
        """Send row i of `rows` (size, count) to rank i; row i of `target` comes from rank i."""

    def gather(self, call: Call, source: Array, stack: Array | None, root: int) -> None:
        """Collect every rank's `source` (count) in the root's `stack` (size, count)."""

    def scatter(self, call: Call, stack: Array | None, target: Array, root: int) -> None:
        """Give row i of the root's `stack` (size, count) to rank i's `target` (count)."""

    def exchange(self, call: Call, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send and receive all of these at once, none of them to or from this rank itself."""

    def barrier(self, call: Call) -> None:
        """Wait until every rank is here."""

    def prepare_split(self) -> str:
        """Get ready for a new communicator; what the other members must know of this one."""

    def split(self, group: Group, told: Sequence[str], number: int) -> "HostTransport":
        """Make the transport of a new communicator; `told` is what each member has prepared."""

    def abort(self, breakage: Breakage) -> None:
        """From any thread: make the running operation, if any, raise Broken at once."""

    def leave(self, breakage: Breakage) -> None:
        """Let peers that wait for this rank know why it is gone."""

    def close(self) -> None:
        """Release everything; calling it again changes nothing."""
