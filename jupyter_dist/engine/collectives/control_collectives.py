"""Meetings as a rank sees them: it says what it brings, and waits for the others."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from jupyter_dist.collective.control import Brought
from jupyter_dist.engine.channel.waiting import Answer, Delivery, Wait, WaitingRoom
from jupyter_dist.errors import (
    CollectiveMismatch,
    CollectiveMissed,
    CollectiveTimeout,
    CommunicatorError,
    PeerFailed,
    UsageError,
)
from jupyter_dist.model.hosts.rank import name_rank, name_ranks
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.model.ranks.user_errors import is_of, name_error
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.collective_size import MEETING_BYTES, describe_too_large, sent_bytes
from jupyter_dist.protocol.messages import (
    AwaitValue,
    CollectiveCompleted,
    CollectiveFailed,
    JoinCollective,
    Message,
    PutValue,
    WithdrawCollective,
)
from jupyter_dist.protocol.objects import split_frames

COORDINATOR_GRACE_S = 10.0
"""The coordinator ends a meeting in time; one that says nothing for so long after that is stuck."""

Post = Callable[[Message, Sequence[Frame]], None]


class Cell(msgspec.Struct, eq=False):
    """The running cell, and how often its ranks have met."""

    cell_id: str
    ranks: Sequence[int]
    counts: defaultdict[tuple[str, tuple[int, ...]], int]


class ControlCollectives:
    """The way to the coordinator for communicators of this rank; see collective.control.Control.

    The link thread calls `on_answer`, `abort` and `expect_cell`; all else is for the thread that
    runs user code.
    """

    def __init__(self, rank: int, world_size: int, post: Post, held: HeldTime) -> None:
        self._rank = rank
        self._world_size = world_size
        self._post = post
        self._generation = 0
        self._cell: Cell | None = None
        self._output = WaitingRoom(held)
        self._aborted: tuple[int, str] | None = None
        """Who failed, and how: in the cell that runs or comes next, or while ranks join."""

    # --- the life of cells and generations ---------------------------------------------------

    @property
    def cell_id(self) -> str:
        """The running cell; empty outside."""
        cell = self._cell
        return "" if cell is None else cell.cell_id

    def enter_generation(self, generation: int, rank: int, world_size: int) -> None:
        """Put and get values of this generation from now on, as this rank of so many."""
        self._generation, self._rank, self._world_size = generation, rank, world_size

    def expect_cell(self) -> None:
        """Forget who has failed before: the next cell or generation has come, and waits."""
        self._aborted = None

    def enter_cell(self, cell_id: str, ranks: Sequence[int]) -> None:
        """Let ranks of this cell meet from now on."""
        self._cell = Cell(cell_id, ranks, defaultdict(int))

    def leave_cell(self) -> None:
        """Let nobody meet any more; a thread that still waits is told."""
        self._cell = None
        self._output.wake()

    # --- from the link thread ----------------------------------------------------------------

    def on_answer(self, answer: Answer, frames: list[Frame]) -> None:
        """Take in what the coordinator says."""
        self._output.deliver(answer, frames)

    def abort(self, failed_rank: int, reason: str) -> None:
        """Let who waits raise PeerFailed at once, and every later meeting of this cell too."""
        self._aborted = (failed_rank, reason)
        self._output.wake()

    # --- meetings ----------------------------------------------------------------------------

    def meet(  # noqa: PLR0913  (a meeting is all of this)
        self,
        purpose: str,
        kind: str,
        ranks: tuple[int, ...],
        frames: Sequence[Frame] = (),
        *,
        claim: str,
        agreement: str = "",
        site: str = "",
        root: int = -1,
        frame_counts: Sequence[int] | None = None,
        timeout_s: float,
    ) -> Brought:
        """Wait until all `ranks` are in their next meeting; see collective.control.Control."""
        cell = self._find_cell(claim, ranks)
        number = cell.counts[purpose, ranks] + 1
        attend = JoinCollective(
            rank=self._rank,
            cell_id=cell.cell_id,
            # Unique with its ranks, so that no late answer to another meeting is mistaken.
            topic=f"{purpose} {number} of {_list_in_order(ranks)}",
            ranks=None if ranks == tuple(sorted(cell.ranks)) else ranks,
            kind=kind,
            claim=claim,
            agreement=agreement,
            site=site,
            root=root,
            frame_counts=(len(frames),) if frame_counts is None else tuple(frame_counts),
            timeout_s=timeout_s,
        )
        _check_size(attend, len(ranks), frames)
        with self._output.enter((cell.cell_id, attend.topic), claim) as wait:
            cell.counts[purpose, ranks] = number
            answer, brought = self._attend(attend, frames, cell, wait)
        return self._take(attend, ranks, frames, answer, brought)

    def _find_cell(self, claim: str, ranks: tuple[int, ...]) -> Cell:
        """Return the running cell; raise when these ranks cannot meet in it."""
        cell = self._cell
        if cell is None:
            raise CommunicatorError(
                f"{claim} was called outside a cell. Call collectives while a %%spmd cell runs, "
                "and wait for threads that do so before the cell ends."
            )
        if self._rank not in ranks:
            raise UsageError(
                f"{claim} got ranks that leave out rank {self._rank}, which calls it. Call it on "
                f"{name_ranks(ranks)} only, or add the rank."
            )
        if absent := sorted(set(ranks).difference(cell.ranks)):
            raise UsageError(
                f"{claim} needs {name_ranks(absent)}, but this cell runs on "
                f"{name_ranks(cell.ranks)} of {self._world_size}. Leave them out of `ranks`, or "
                "run the cell on them as well."
            )
        if self._aborted is not None:
            raise PeerFailed(*self._aborted, name_rank(self._aborted[0]))
        return cell

    def _attend(
        self, attend: JoinCollective, frames: Sequence[Frame], cell: Cell, wait: Wait
    ) -> Delivery:
        """Go there and wait; say so when leaving early."""
        patience_s = attend.timeout_s + COORDINATOR_GRACE_S
        try:
            self._post(attend, frames)
            found = wait.take(patience_s, lambda: self._look_around(cell))
        except PeerFailed:
            raise  # everybody is told
        except BaseException as error:
            reason = _how_it_left(error, attend.claim)
            leave = WithdrawCollective(
                self._rank, attend.cell_id, attend.topic, attend.ranks, reason
            )
            self._post(leave, ())
            raise
        if found is None:
            raise CollectiveTimeout(
                f"{attend.claim} got no answer from the coordinator within {patience_s:g} s. "
                "See its log, or start a new cluster (%dist_stop, then %dist_start)."
            )
        return found

    def _take(
        self,
        attend: JoinCollective,
        ranks: Sequence[int],
        frames: Sequence[Frame],
        answer: Answer,
        brought: list[Frame],
    ) -> Brought:
        """Return what there is for this rank, or raise why the meeting failed."""
        if isinstance(answer, CollectiveFailed):
            raise _error(answer)
        assert isinstance(answer, CollectiveCompleted)
        pieces = split_frames(brought, answer.frame_counts)
        found: Brought = dict(zip(answer.ranks, pieces, strict=True))
        gathers = attend.kind == "gather" and attend.root == self._rank
        if attend.kind != "all_gather" and not gathers:
            return found
        found[self._rank] = list(frames)  # one's own stay here
        return {rank: found[rank] for rank in ranks}

    def _look_around(self, cell: Cell | None) -> None:
        """Raise what makes waiting in this cell useless."""
        if self._aborted is not None:
            raise PeerFailed(*self._aborted, name_rank(self._aborted[0]))
        if self._cell is not cell:
            raise CommunicatorError(
                "the cell ended while a thread of it was still inside a collective. "
                "Wait for your threads before the cell ends."
            )

    # --- values ------------------------------------------------------------------------------

    def put(self, key: str, value: bytes) -> None:
        """Keep a value until the generation ends; another one for the same key replaces it."""
        self._post(PutValue(self._rank, self._generation, key), [value])

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait until some rank has put this value; raises CollectiveTimeout, PeerFailed."""
        generation, cell = self._generation, self._cell
        with self._output.enter((str(generation), key), f"the wait for {key!r}") as wait:
            self._post(AwaitValue(self._rank, generation, key), ())
            found = wait.take(timeout_s, lambda: self._look_around(cell))
        if found is None:
            raise CollectiveTimeout(
                f"no rank has told {key!r} within {timeout_s:g} s. Give the ranks more time "
                "(comm.timeout_s), or see what they do with %dist_collectives."
            )
        return bytes(found[1][0])


def _list_in_order(ranks: tuple[int, ...]) -> str:
    """Return a short text that no other ranks have, nor the same ones in another order."""
    if ranks == tuple(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks))


def _check_size(attend: JoinCollective, size: int, frames: Sequence[Frame]) -> None:
    """Raise UsageError when what this rank brings is too large already."""
    nbytes = sum(memoryview(frame).nbytes for frame in frames)
    to_send = sent_bytes(attend.kind, nbytes, size, attend.rank, attend.root)
    if to_send > MEETING_BYTES:
        raise UsageError(describe_too_large(attend.claim, to_send))


def _how_it_left(error: BaseException, claim: str) -> str:
    if is_of(error, KeyboardInterrupt):
        return f"was interrupted during {claim}"
    return f"left {claim} with {name_error(error)}"


def _error(failed: CollectiveFailed) -> CommunicatorError | UsageError:
    """Return the exception for a meeting that could not take place."""
    ranks, text = failed.ranks, failed.text
    match failed.kind:
        case "mismatch":
            who = (name_ranks(ranks), name_ranks(failed.others))
            return CollectiveMismatch(ranks[0], text, failed.others[0], failed.others_text, who)
        case "timeout":
            return CollectiveTimeout(
                f"{name_ranks(ranks)} {text}. Give them more time (timeout_s), or see what they do "
                "with %dist_collectives."
            )
        case "absent":
            return CollectiveMissed(ranks, f"{name_ranks(ranks)} {text}")
        case "refused":
            return UsageError(text)
        case _:
            return PeerFailed(ranks[0], text, name_ranks(ranks[:1]))
