"""The communicator that needs nothing but numpy and TCP: rings of authenticated sockets."""

import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jupyter_dist.collective import algorithms, arguments
from jupyter_dist.collective.addresses import address_of, bind_listener
from jupyter_dist.collective.call import Array
from jupyter_dist.collective.handshake import Membership
from jupyter_dist.collective.operations import Operations
from jupyter_dist.collective.recorder import CollectiveRecorder

__all__ = ["RingCommunicator", "address_of", "bind_listener"]


class RingCommunicator:
    """Exchanges numpy arrays over TCP; see Communicator for what each method does.

    `listener` is bound and listening already (see `bind_listener`) and belongs to the communicator
    from now on; `peers` are the ranks' addresses as `host:port`, in rank order; `key` is the secret
    that they share. Nothing is connected before it is needed.
    """

    kind = "ring"

    def __init__(  # noqa: PLR0913, PLR0917 - what a Welcome brings, one by one
        self,
        rank: int,
        size: int,
        generation: int,
        listener: socket.socket,
        peers: Sequence[str],
        key: bytes,
        timeout_s: float = 60.0,
        recorder: CollectiveRecorder | None = None,
    ) -> None:
        self.rank = rank
        self.size = size
        self.generation = generation
        self._operations = Operations(
            Membership(rank, size, generation, key), listener, peers, recorder
        )
        self.timeout_s = timeout_s

    @property
    def timeout_s(self) -> float:
        """Deadline for each operation in seconds."""
        return self._operations.timeout_s

    @timeout_s.setter
    def timeout_s(self, seconds: float) -> None:
        self._operations.timeout_s = seconds

    @property
    def participants(self) -> frozenset[int] | None:
        """The ranks that run the current cell; None means all."""
        return self._operations.participants

    @participants.setter
    def participants(self, ranks: frozenset[int] | None) -> None:
        self._operations.participants = ranks

    # --- collectives -------------------------------------------------------------------------

    def all_reduce(self, array: ArrayLike, op: str = "sum", out: Array | None = None) -> Any:
        """Reduce over all ranks; every rank gets the same bits."""
        source = arguments.numbers("all_reduce", array)
        ufunc = arguments.reduction("all_reduce", op)
        room = arguments.result_room("all_reduce", out, source.shape, source.dtype)
        work = _work(room, out, source)
        self._operations.collect(
            self._operations.next_call("all_reduce", source, op),
            lambda flow: algorithms.all_reduce(flow, _flat(source), _flat(work), ufunc),
        )
        return _result(array, room, work)

    def broadcast(self, array: ArrayLike, root: int = 0, out: Array | None = None) -> Any:
        """Give the root's array to everybody; elsewhere `array` tells shape and dtype."""
        source = arguments.numbers("broadcast", array)
        root = arguments.peer("broadcast", "root", root, self.size)
        room = arguments.result_room("broadcast", out, source.shape, source.dtype)
        work = _work(room, out, source)
        if self.rank == root and work is not source:
            np.copyto(work, source)
        self._operations.collect(
            self._operations.next_call("broadcast", source, root=root),
            lambda flow: algorithms.broadcast(flow, _flat(work), root),
        )
        return _result(array, room, work)

    def reduce(
        self, array: ArrayLike, root: int = 0, op: str = "sum", out: Array | None = None
    ) -> Any:
        """Reduce over all ranks into the root; the others get None and need no `out`."""
        source = arguments.numbers("reduce", array)
        ufunc = arguments.reduction("reduce", op)
        root = arguments.peer("reduce", "root", root, self.size)
        if self.rank != root:
            out = None
        room = arguments.result_room("reduce", out, source.shape, source.dtype)
        work = _work(room, out, source)
        self._operations.collect(
            self._operations.next_call("reduce", source, op, root),
            lambda flow: algorithms.reduce(flow, _flat(source), _flat(work), root, ufunc),
        )
        return _result(array, room, work) if self.rank == root else None

    def all_gather(self, array: ArrayLike, out: Array | None = None) -> Array:
        """Collect every rank's array: shape (size, *array.shape)."""
        source = arguments.numbers("all_gather", array)
        shape = (self.size, *source.shape)
        room = arguments.result_room("all_gather", out, shape, source.dtype)
        work = _work(room, out, None)
        self._operations.collect(
            self._operations.next_call("all_gather", source),
            lambda flow: algorithms.all_gather(flow, _flat(source), self._rows(work)),
        )
        return _filled(room, work)

    def reduce_scatter(self, array: ArrayLike, op: str = "sum", out: Array | None = None) -> Any:
        """Reduce `array` of shape (size, …) over all ranks; rank i gets row i."""
        source = arguments.rows("reduce_scatter", array, self.size)
        ufunc = arguments.reduction("reduce_scatter", op)
        room = arguments.result_room("reduce_scatter", out, source.shape[1:], source.dtype)
        work = _work(room, out, None)
        self._operations.collect(
            self._operations.next_call("reduce_scatter", source, op),
            lambda flow: algorithms.reduce_scatter(flow, self._rows(source), _flat(work), ufunc),
        )
        return _result(array, room, work)

    def all_to_all(self, array: ArrayLike, out: Array | None = None) -> Array:
        """Send row i of `array` of shape (size, …) to rank i; row i of the result is from it."""
        source = arguments.rows("all_to_all", array, self.size)
        room = arguments.result_room("all_to_all", out, source.shape, source.dtype)
        work = _work(room, out, None)
        self._operations.collect(
            self._operations.next_call("all_to_all", source),
            lambda flow: algorithms.all_to_all(flow, self._rows(source), self._rows(work)),
        )
        return _filled(room, work)

    def gather(self, array: ArrayLike, root: int = 0, out: Array | None = None) -> Array | None:
        """Collect every rank's array in the root: shape (size, *array.shape) there, else None."""
        source = arguments.numbers("gather", array)
        root = arguments.peer("gather", "root", root, self.size)
        room = work = None
        if self.rank == root:
            shape = (self.size, *source.shape)
            room = arguments.result_room("gather", out, shape, source.dtype)
            work = _work(room, out, None)
        stack = None if work is None else self._rows(work)
        self._operations.collect(
            self._operations.next_call("gather", source, root=root),
            lambda flow: algorithms.gather(flow, _flat(source), stack, root),
        )
        return None if room is None or work is None else _filled(room, work)

    def scatter(self, array: ArrayLike | None, root: int = 0, out: Array | None = None) -> Any:
        """Give row i of the root's array of shape (size, …) to rank i.

        Elsewhere `array` (or `out`) tells shape and dtype of the row.
        """
        root = arguments.peer("scatter", "root", root, self.size)
        if self.rank == root:
            source = arguments.rows("scatter", array, self.size)
            stack, template = self._rows(source), source[0]
        else:
            stack, template = None, arguments.numbers("scatter", out if array is None else array)
        room = arguments.result_room("scatter", out, template.shape, template.dtype)
        work = _work(room, out, None)
        self._operations.collect(
            self._operations.next_call("scatter", room, root=root),
            lambda flow: algorithms.scatter(flow, stack, _flat(work), root),
        )
        return _result(array, room, work)

    def barrier(self) -> None:
        """Wait until every rank is here."""
        # Without data only a direct exchange makes everybody wait for everybody.
        count = self.size if self.size > algorithms.DIRECT_RANKS else 0
        steps = np.zeros(count, np.uint8)
        self._operations.collect(
            self._operations.next_call("barrier"),
            lambda flow: algorithms.all_reduce(flow, steps, steps, np.add),
        )

    # --- point to point ----------------------------------------------------------------------

    def send(self, array: ArrayLike, dest: int) -> None:
        """Send to one rank, which calls recv; return when the data is on its way."""
        source = arguments.numbers("send", array)
        dest = arguments.peer("send", "dest", dest, self.size)
        self._operations.pass_on("send", (source, dest), None)

    def recv(self, array_or_template: ArrayLike, source: int) -> Any:
        """Receive from one rank; a writable array is filled and returned, else a new one is."""
        template = arguments.numbers("recv", array_or_template)
        source = arguments.peer("recv", "source", source, self.size)
        room = np.empty_like(template)
        self._operations.pass_on("recv", None, (room, source))
        return _put(array_or_template, room)

    def send_recv(
        self, send_array: ArrayLike, dest: int, recv_array: ArrayLike, source: int
    ) -> Any:
        """Send to one rank while receiving from another (or the same), as in a halo exchange."""
        sent = arguments.numbers("send_recv", send_array)
        template = arguments.numbers("send_recv", recv_array)
        dest = arguments.peer("send_recv", "dest", dest, self.size)
        source = arguments.peer("send_recv", "source", source, self.size)
        room = np.empty_like(template)
        self._operations.pass_on("send_recv", (sent, dest), (room, source))
        return _put(recv_array, room)

    # --- the end -----------------------------------------------------------------------------

    def abort(self, failed_rank: int, reason: str) -> None:
        """Break the communicator from any thread: who waits in it raises PeerFailed at once."""
        self._operations.abort(failed_rank, reason)

    def close(self) -> None:
        """Close every socket and end the acceptor's thread; calling it again changes nothing."""
        self._operations.close()

    def _rows(self, array: Array) -> Array:
        # Not -1: an array without elements could have any number of columns.
        return array.reshape(self.size, array.size // self.size)


def _flat(array: Array) -> Array:
    return array.reshape(-1)


def _work(room: Array, out: Array | None, source: Array | None) -> Array:
    """Return where the operation may write before it has succeeded."""
    if out is None or (source is not None and arguments.is_same_memory(source, out)):
        return room
    return np.empty_like(room)


def _filled(room: Array, work: Array) -> Array:
    if work is not room:
        np.copyto(room, work)
    return room


def _result(given: object, room: Array, work: Array) -> Any:
    """Return the filled result; a number where a number was given."""
    _filled(room, work)
    if room.ndim == 0 and not isinstance(given, np.ndarray):
        return room[()]
    return room


def _put(given: object, received: Array) -> Any:
    """Return what was received, in the array that was given for it if that can be written."""
    if isinstance(given, np.ndarray) and given.flags.writeable:
        np.copyto(given, received)
        return given
    return _result(given, received, received)
