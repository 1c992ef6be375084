"""Object collectives: any Python object, over the control channel.

They need no data path, may be called by some ranks of a cell only, and name who is missing. What
travels is pickled and goes through the coordinator: they are for settings and results, not for
large arrays.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from jupyter_dist.collective.calls.global_arrays import GlobalArrays
from jupyter_dist.collective.objects.comparison import find_difference
from jupyter_dist.collective.objects.object_call import Member, ObjectCall
from jupyter_dist.errors import UsageError, ValuesDiffer
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.protocol.objects import pack


class ObjectCollectives(Member, GlobalArrays):
    """What communicators can do with any objects.

    Each is called by all `ranks` of this communicator that take part: by default all that run the
    cell. `timeout_s` is how long to wait for the others, by default as the communicator does.

    Raises UsageError or TypeError for arguments that cannot work, and TransferError for objects
    that cannot be pickled or rebuilt; then CollectiveTimeout naming the ranks that have not come,
    CollectiveMismatch naming both calls, PeerFailed when a rank raised, left, was lost or has
    finished the cell. None of these breaks the communicator.
    """

    def broadcast_object(
        self,
        obj: Any = None,
        root: int = 0,
        *,
        ranks: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Return the root's object to everybody; elsewhere `obj` is ignored.

        The root gets its own object back, the others a copy.
        """
        with ObjectCall(self, "broadcast_object", ranks, timeout_s, root=root) as call:
            frames = pack("obj", obj) if call.is_root else []
            brought = call.meet("broadcast", frames)
        return obj if call.is_root else call.unpack(brought, call.root)

    def all_gather_object(
        self,
        obj: Any,
        *,
        ranks: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[Any]:
        """Collect everybody's object: a list of copies in rank order."""
        with ObjectCall(self, "all_gather_object", ranks, timeout_s) as call:
            brought = call.meet("all_gather", pack("obj", obj))
        return [call.unpack(brought, rank) for rank in call.ranks]

    def gather_object(
        self,
        obj: Any,
        root: int = 0,
        *,
        ranks: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[Any] | None:
        """Collect everybody's object in the root: copies in rank order there, elsewhere None."""
        with ObjectCall(self, "gather_object", ranks, timeout_s, root=root) as call:
            brought = call.meet("gather", pack("obj", obj))
        return [call.unpack(brought, rank) for rank in call.ranks] if call.is_root else None

    def scatter_object(
        self,
        objs: Iterable[Any] | None = None,
        root: int = 0,
        *,
        ranks: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Return each rank one of the root's objects, in rank order; elsewhere `objs` is ignored.

        The root gets its own object back, the others copies.
        """
        with ObjectCall(self, "scatter_object", ranks, timeout_s, root=root) as call:
            given = _one_for_each(objs, len(call.ranks)) if call.is_root else []
            pieces = [
                [] if rank == call.root else pack(f"objs[{index}]", one)
                for index, (rank, one) in enumerate(zip(call.ranks, given, strict=bool(given)))
            ]
            frames = [frame for piece in pieces for frame in piece]
            brought = call.meet("scatter", frames, [len(piece) for piece in pieces])
        if call.is_root:
            return given[call.ranks.index(call.root)]
        return call.unpack(brought, call.root)

    def object_barrier(
        self,
        name: str = "",
        *,
        ranks: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Wait until all are here; `name` must be the same on all."""
        with ObjectCall(self, "barrier_object", ranks, timeout_s, name=name) as call:
            call.meet("barrier", [])

    def assert_equal(
        self,
        obj: Any,
        name: str = "",
        *,
        equal_nan: bool = True,
        ranks: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Raise ValuesDiffer on all ranks unless all have the same value.

        Types, dtypes and shapes count, and so does the order of lists, but not that of dicts and
        sets. -0.0 is 0.0; NaN is NaN unless `equal_nan` is False. Equal values cost one exchange
        of digests, and of different ones only the first place that differs is sent.
        """
        with ObjectCall(self, "assert_equal_object", ranks, timeout_s, name=name) as call:
            own_rank = self.world_ranks[self.rank]
            all_gather = partial(call.meet, "all_gather")
            found = find_difference(obj, own_rank, all_gather, equal_nan=equal_nan)
            if found is not None:
                values = {name_ranks(having): text for having, text in found.groups}
                raise ValuesDiffer(call.claim, found.path, found.about, values)


def _one_for_each(objs: Iterable[Any] | None, count: int) -> list[Any]:
    if objs is None or not isinstance(objs, Iterable):
        raise TypeError(
            f"scatter_object got objs={objs!r} on the root. Accepted: a list with one object for "
            f"each of {count} ranks."
        )
    given = list(objs)
    if len(given) != count:
        raise UsageError(
            f"scatter_object got {len(given)} objects for {count} ranks. Accepted: one for each "
            "rank; for another division make a list of lists."
        )
    return given
