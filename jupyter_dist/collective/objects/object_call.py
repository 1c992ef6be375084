"""One object collective: who takes part, what it is called, and its way to the coordinator."""

from collections import Counter
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from jupyter_dist.collective.calls import arguments
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.control import Brought, Control
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.errors import CommunicatorError, UsageError
from jupyter_dist.model.hosts.rank import format_ranks, number_ranks
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.objects import unpack

_PURPOSE = "objects"
_WRITTEN = {"barrier_object": "barrier", "assert_equal_object": "assert_equal"}
"""What people write, where records say it otherwise."""


class Member:
    """This rank in a communicator, as its object collectives need it."""

    participants: frozenset[int] | None
    """Ranks of the communicator that run the cell; None means all."""
    timeout_s: float
    """How long to wait when the call does not say."""

    def __init__(
        self, group: Group, recorder: CollectiveRecorder | None, control: Control | None
    ) -> None:
        self.rank = group.rank
        self.size = group.size
        self.generation = group.generation
        self.world_ranks = group.members
        """Rank in the cluster of each rank of this communicator."""
        self.group_label = group.label
        """Empty for the communicator of all ranks; else its members in the cluster, as `0,2`."""
        self.recorder = recorder
        self.control = control
        self.counts: Counter[tuple[int, ...]] = Counter()
        """Its object collectives in that cell, for each combination of ranks."""
        self.counted_cell = ""


class ObjectCall:
    """Checks the arguments, numbers and records the call, meets the others.

    `ranks` and `root` are those of the cluster. Raises UsageError, TypeError or CommunicatorError
    before anything is sent; such a call does not count.
    """

    def __init__(
        self,
        member: Member,
        operation: str,
        ranks: Iterable[int] | None,
        timeout_s: float | None,
        *,
        root: int | None = None,
        name: str = "",
    ) -> None:
        members = _members(member, operation, ranks)
        if member.control is None:
            raise CommunicatorError(
                f"{operation} needs the coordinator of a cluster, which this communicator has not. "
                "Use `comm` in a %%spmd cell."
            )
        self._control = member.control
        self._recorder = member.recorder
        self._operation = operation
        self._rank = member.world_ranks[member.rank]
        self.ranks = tuple(member.world_ranks[rank] for rank in members)
        self._given_root = -1 if root is None else _root(member, operation, root, members)
        self.root = -1 if root is None else member.world_ranks[self._given_root]
        self._timeout_s = _timeout(operation, member.timeout_s if timeout_s is None else timeout_s)
        self._name = name
        self._group = (
            member.group_label if len(members) == member.size else format_ranks(self.ranks)
        )
        self._counts = _counts(member, self._control.cell_id)
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


def _counts(member: Member, cell_id: str) -> Counter[tuple[int, ...]]:
    """Return the counts of this cell: a rank that missed a call is in step again in the next."""
    if member.counted_cell != cell_id:
        member.counts, member.counted_cell = Counter(), cell_id
    return member.counts


def _members(member: Member, operation: str, ranks: Any) -> list[int]:
    """Return who takes part, sorted, by rank in the communicator."""
    if ranks is None:
        running = member.participants
        return sorted(range(member.size) if running is None else running)
    if isinstance(ranks, str) or not isinstance(ranks, Iterable):
        raise TypeError(f"{operation} got ranks={ranks!r}. Accepted: ranks, for example [0, 2].")
    members = sorted(arguments.peer(operation, "ranks", rank, member.size) for rank in ranks)
    if len(set(members)) < len(members):
        raise UsageError(f"{operation} got ranks={members}. Accepted: each rank once.")
    if member.rank not in members:
        raise UsageError(
            f"{operation} got ranks={members}, which leave out rank {member.rank} that calls it. "
            f"Call it on {number_ranks(members)} only, or add the rank."
        )
    return members


def _root(member: Member, operation: str, root: int, members: Sequence[int]) -> int:
    root = arguments.peer(operation, "root", root, member.size)
    if root not in members:
        raise UsageError(
            f"{operation} got root={root}, which does not take part. Accepted: one of "
            f"{number_ranks(members)}."
        )
    return root


def _timeout(operation: str, timeout_s: float) -> float:
    if not timeout_s > 0:
        raise UsageError(f"{operation} got timeout_s={timeout_s!r}. Accepted: more than 0 s.")
    return float(timeout_s)
