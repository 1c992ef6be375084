"""One object collective: who takes part, what it is called, and its way to the coordinator."""

from collections import Counter
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from jupyter_dist.collective import arguments
from jupyter_dist.collective.call import Call, Signature
from jupyter_dist.collective.control import Brought, Control
from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.errors import CommunicatorError, UsageError
from jupyter_dist.model.rank import format_ranks, name_ranks
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.objects import unpack

_PURPOSE = "objects"
_WRITTEN = {"barrier_object": "barrier", "assert_equal_object": "assert_equal"}
"""What people write, where records say it otherwise."""


class Numbers:
    """Counts the object collectives of a cell, for each combination of ranks."""

    def __init__(self, cell_id: str) -> None:
        self.cell_id = cell_id
        self.counts: Counter[tuple[int, ...]] = Counter()


class Host(Protocol):
    """What an object collective needs of its communicator."""

    rank: int
    size: int
    world_ranks: tuple[int, ...]
    group_label: str
    numbers: Numbers | None
    """Of the cell of its last object collective."""

    @property
    def participants(self) -> frozenset[int] | None:
        """Ranks of the communicator that run the cell; None means all."""

    @property
    def control(self) -> Control | None:
        """The way to the coordinator."""

    @property
    def recorder(self) -> CollectiveRecorder | None:
        """What keeps records, if anything does."""

    @property
    def timeout_s(self) -> float:
        """How long to wait when the call does not say."""


class ObjectCall:
    """Checks the arguments, numbers and records the call, meets the others.

    `ranks` and `root` are those of the cluster. Raises UsageError, TypeError or CommunicatorError
    before anything is sent; such a call does not count.
    """

    def __init__(
        self,
        host: Host,
        operation: str,
        ranks: Iterable[int] | None,
        timeout_s: float | None,
        *,
        root: int | None = None,
        name: str = "",
    ) -> None:
        members = _members(host, operation, ranks)
        if host.control is None:
            raise CommunicatorError(
                f"{operation} needs the coordinator of a cluster, which this communicator has not. "
                "Use `comm` in a %%spmd cell."
            )
        self._control = host.control
        self._recorder = host.recorder
        self._operation = operation
        self._rank = host.world_ranks[host.rank]
        self.ranks = tuple(host.world_ranks[rank] for rank in members)
        self._given_root = -1 if root is None else _root(host, operation, root, members)
        self.root = -1 if root is None else host.world_ranks[self._given_root]
        self._timeout_s = _timeout(operation, host.timeout_s if timeout_s is None else timeout_s)
        self._name = name
        self._group = host.group_label if len(members) == host.size else format_ranks(self.ranks)
        self._counts = _counts(host, self._control.cell_id)
        self._token = -1
        self.claim = ""
        """What it is called, as soon as it has a number: `broadcast_object(root=0) #3`."""

    @property
    def is_root(self) -> bool:
        """This rank is the root."""
        return self._rank == self.root

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._recorder is not None and self._token >= 0:
            self._recorder.end(self._token, kind is None)

    def meet(
        self, kind: str, frames: Sequence[Frame], frame_counts: Sequence[int] | None = None
    ) -> Brought:
        """Meet the others, once or several times in one call; see Control.meet."""
        is_first = not self.claim
        if is_first:
            self._begin(frames)
        try:
            return self._control.meet(
                _PURPOSE,
                kind,
                self.ranks,
                frames,
                claim=self.claim,
                site="" if self._recorder is None else self._recorder.site,
                root=self.root,
                frame_counts=frame_counts,
                timeout_s=self._timeout_s,
            )
        except UsageError:
            if is_first:
                self._counts[self.ranks] -= 1
            raise

    def _begin(self, frames: Sequence[Frame]) -> None:
        self._counts[self.ranks] += 1
        number = self._counts[self.ranks]
        shown = f"root={self._given_root}" if self.root >= 0 else ""
        shown = repr(self._name) if self._name else shown
        where = f" in group {self._group}" if self._group else ""
        written = _WRITTEN.get(self._operation, self._operation)
        self.claim = f"{written}({shown}) #{number}{where}"
        if self._recorder is not None:
            nbytes = sum(memoryview(frame).nbytes for frame in frames)
            signature = Signature(
                self._operation, root=self._given_root, nbytes=nbytes, group=self._group
            )
            self._token = self._recorder.begin(Call(signature, number))

    def unpack(self, brought: Brought, rank: int) -> Any:
        """Make the object that a rank has brought; one's own as a copy."""
        frames = brought[rank]
        if rank == self._rank:
            frames = [frames[0], *(bytearray(frame) for frame in frames[1:])]
        return unpack(f"object of rank {rank}", frames)


def _counts(host: Host, cell_id: str) -> Counter[tuple[int, ...]]:
    """Give the counts of this cell: a rank that missed a call is in step again in the next one."""
    if host.numbers is None or host.numbers.cell_id != cell_id:
        host.numbers = Numbers(cell_id)
    return host.numbers.counts


def _members(host: Host, operation: str, ranks: Any) -> list[int]:
    """Give who takes part, sorted, by rank in the communicator."""
    if ranks is None:
        running = host.participants
        return sorted(range(host.size) if running is None else running)
    if isinstance(ranks, str) or not isinstance(ranks, Iterable):
        raise TypeError(f"{operation} got ranks={ranks!r}. Accepted: ranks, for example [0, 2].")
    members = sorted(arguments.peer(operation, "ranks", rank, host.size) for rank in ranks)
    if len(set(members)) < len(members):
        raise UsageError(f"{operation} got ranks={members}. Accepted: each rank once.")
    if host.rank not in members:
        raise UsageError(
            f"{operation} got ranks={members}, which leave out rank {host.rank} that calls it. "
            f"Call it on {name_ranks(members)} only, or add the rank."
        )
    return members


def _root(host: Host, operation: str, root: int, members: Sequence[int]) -> int:
    root = arguments.peer(operation, "root", root, host.size)
    if root not in members:
        raise UsageError(
            f"{operation} got root={root}, which does not take part. Accepted: one of "
            f"{name_ranks(members)}."
        )
    return root


def _timeout(operation: str, timeout_s: float) -> float:
    if not timeout_s > 0:
        raise UsageError(f"{operation} got timeout_s={timeout_s!r}. Accepted: more than 0 s.")
    return float(timeout_s)
