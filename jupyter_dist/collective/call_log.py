"""The calls of one communicator: their numbers, their records, and what a bad end does."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.calls.call import Call, Signature, shape_text
from jupyter_dist.collective.calls.dtypes import dtype_code
from jupyter_dist.collective.control import Control
from jupyter_dist.collective.group import Group, Scope
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.errors import CommunicatorError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.records import SYMMETRIC
from jupyter_dist.model.ranks.user_errors import name_error

_OTHER_THREAD_PATIENCE_S = 1.0
_MOST_SIGNATURES = 4096


class CallLog:
    """Keeps the order of one communicator until a call breaks it.

    `fall_apart` is called once with what broke it, to let go of peers.
    """

    def __init__(
        self,
        group: Group,
        scope: Scope,
        recorder: CollectiveRecorder | None,
        control: Control | None,
        fall_apart: Callable[[Breakage], None],
    ) -> None:
        self.group = group
        self.scope = scope
        self.recorder = recorder
        self.control = control
        self.sequence = 0
        self._fall_apart = fall_apart
        self._sent_to: dict[int, int] = defaultdict(int)
        self._received_from: dict[int, int] = defaultdict(int)
        self._failure: Breakage | CommunicatorError | None = None
        self._ordered: Breakage | None = None
        self._tied: CallLog | None = None
        # Not a plain lock: Ctrl-C may come just before it is released, and then its owner would
        # have locked itself out.
        self._inside = threading.RLock()
        self._failing = threading.Lock()
        self._signatures: dict[tuple[Any, ...], Signature] = {}

    @property
    def participants(self) -> frozenset[int] | None:
        """Ranks of this communicator that run the current cell; None means all."""
        running = self.scope.participants
        if running is None:
            return None
        members = enumerate(self.group.members)
        return frozenset(rank for rank, world_rank in members if world_rank in running)

    # --- what is called ----------------------------------------------------------------------

    def sign(
        self, operation: str, array: Any = None, reduction: str = "", root: int = -1
    ) -> Signature:
        """Return the signature of a call, the same object for the same call; any array library."""
        if array is None:
            key: tuple[Any, ...] = (operation, reduction, root)
        else:
            key = (operation, array.dtype, array.shape, reduction, root)
        signature = self._signatures.get(key)
        if signature is None:
            signature = self._write(operation, array, reduction, root)
            if len(self._signatures) >= _MOST_SIGNATURES:
                self._signatures.clear()
            self._signatures[key] = signature
        return signature

    def _write(self, operation: str, array: Any, reduction: str, root: int) -> Signature:
        label = self.group.label
        if array is None:
            return Signature(operation, reduction=reduction, root=root, group=label)
        dtype, shape = dtype_code(array.dtype), shape_text(array.shape)
        return Signature(operation, dtype, shape, reduction, root, array.nbytes, label)

    def number(self, signature: Signature) -> Call:
        """Return a collective its number; raise CommunicatorError when it cannot take place."""
        if self._failure is not None or self.scope.participants is not None:
            self.check_possible(signature.operation)
        self.sequence += 1
        return Call(signature, self.sequence)

    def number_sent(self, signature: Signature, dest: int) -> Call:
        """Return a message its number among those to that rank."""
        self._sent_to[dest] += 1
        return Call(signature, self._sent_to[dest])

    def number_received(self, signature: Signature, source: int) -> Call:
        """Return a message its number among those from that rank."""
        self._received_from[source] += 1
        return Call(signature, self._received_from[source])

    # --- how it goes -------------------------------------------------------------------------

    @contextmanager
    def turn(self, operation: str) -> Iterator[None]:
        """Let one thread at a time number its calls and carry them out.

        Raises CommunicatorError, with nothing numbered, when it is broken or another thread stays.
        """
        self.enter(operation)
        try:
            yield
        finally:
            self.leave()

    def enter(self, operation: str) -> None:
        """Begin a turn, which `leave` ends whatever happens."""
        # Asked first without a deadline, which costs several times as much.
        has_turn = self._inside.acquire(False) or self._inside.acquire(
            timeout=_OTHER_THREAD_PATIENCE_S
        )
        if not has_turn:
            raise CommunicatorError(
                f"{operation} was called while another thread is inside a collective. "
                "Call collectives from one thread."
            )
        if self._failure is not None:
            self._inside.release()
            self.check_intact()

    def leave(self) -> None:
        """End a turn."""
        self._inside.release()
        if self._ordered is not None:
            self.break_if_idle(self._ordered)

    def carry_out(
        self, call: Call, action: Callable[[], None], *, is_message: bool = False
    ) -> None:
        """Record a call, compare it if that is wanted, do it; raise what broke it.

        Only within a `turn`.
        """
        recorder = self.recorder
        token, is_ok = -1, False
        try:
            if recorder is not None:
                token = recorder.begin(call)
            if self.scope.is_checked and not is_message:
                self.compare(call)
            action()
            is_ok = True
        except BaseException as error:
            told = self.blame(error, call)
            if told is not None:
                raise told from None
            raise
        finally:
            if recorder is not None and token >= 0:
                recorder.end(token, is_ok)

    def blame(self, error: BaseException, call: Call) -> CommunicatorError | None:
        """Break it for what ended a call; give what to raise instead, if that is something else."""
        if isinstance(error, Broken):
            told = error.breakage
        else:
            told = Breakage("left", self.group.world_rank, _how_it_left(error, call))
        self._break_for(error if isinstance(error, CommunicatorError) else told, told)
        if self._tied is not None:
            self._tied.break_if_idle(told)
        return told.error(self.group.world_rank) if isinstance(error, Broken) else None

    def compare(self, call: Call) -> None:
        """Agree with all members on this call; raises CollectiveMismatch on all if they differ."""
        if self.control is None or self.group.size == 1:
            return
        site = self.recorder.site if self.recorder is not None else ""
        self.control.meet(
            # Not by its label: that a rank went another way than the others shall show at once.
            "check",
            "barrier",
            self.group.members,
            claim=str(call),
            # Two equal calls on different lines are most likely two calls in different order.
            agreement=site if call.operation in SYMMETRIC else "",
            site=site,
            timeout_s=self.scope.timeout_s,
        )

    def break_(self, breakage: Breakage) -> CommunicatorError:
        """Take note that the communicator is broken; give the error that this rank raises."""
        self._break_for(breakage, breakage)
        return breakage.error(self.group.world_rank)

    def _break_for(self, failure: Breakage | CommunicatorError, told: Breakage) -> None:
        # The main thread may fail at a call while another one breaks it without a turn.
        with self._failing:
            is_first = self._failure is None
            if is_first:
                self._failure = failure
        if is_first:
            self._fall_apart(told)

    def tie(self, other: "CallLog") -> None:
        """Let a call that breaks one break the other: they are two ways between the same ranks."""
        self._tied = other
        other._tied = self  # noqa: SLF001  (of the same kind)

    def break_within(self, breakage: Breakage, patience_s: float) -> None:
        """From any thread: break it when the call that is inside has ended, or else anyway."""
        self._ordered = self._ordered or breakage
        has_turn = self._inside.acquire(timeout=patience_s)
        try:
            self.break_(self._ordered)
        finally:
            if has_turn:
                self._inside.release()

    def try_enter(self) -> bool:
        """From any thread: begin a turn if nobody has it; then `leave` must follow."""
        return self._inside.acquire(blocking=False)

    def break_if_idle(self, breakage: Breakage) -> None:
        """From any thread: break it, at the latest when the call that is inside has ended."""
        self._ordered = self._ordered or breakage
        if self._inside.acquire(blocking=False):
            try:
                self.break_(self._ordered)
            finally:
                self._inside.release()

    def forget(self) -> None:
        """Take no more calls: the communicator is closed."""
        if self._failure is None:
            text = "closed its communicator"
            self._failure = Breakage("left", self.group.world_rank, text)

    def check_intact(self) -> None:
        """Raise the error of what broke the communicator, if anything has."""
        failure = self._failure
        if failure is None:
            return
        raise (
            failure
            if isinstance(failure, CommunicatorError)
            else failure.error(self.group.world_rank)
        )

    # --- who takes part ----------------------------------------------------------------------

    def check_possible(self, operation: str) -> None:
        """Raise CommunicatorError when a collective cannot take place now."""
        self.check_intact()
        participants = self.participants
        if participants is not None and len(participants) < self.group.size:
            else_too = "" if self._is_in_task else ", or use send and recv"
            raise CommunicatorError(
                f"{self.where_it_runs}; {operation} needs all {self.group.size} ranks"
                f"{self._whose()}. {self._run_it_on} all of them{else_too}."
            )

    def check_taking_part(self, operation: str, peers: Iterable[int]) -> None:
        """Raise CommunicatorError when one of these peers does not run the cell."""
        participants = self.participants
        absent = [] if participants is None else sorted(set(peers) - participants)
        if absent:
            members = self.group.members
            raise CommunicatorError(
                f"{self.where_it_runs}; {operation} cannot reach "
                f"{name_ranks(members[peer] for peer in absent)}. {self._run_it_on} all ranks that "
                "take part."
            )

    @property
    def _is_in_task(self) -> bool:
        return self.recorder is not None and self.recorder.is_in_task

    @property
    def where_it_runs(self) -> str:
        """What runs now, and on which ranks of the cluster, where that is not on all of them."""
        work = "task of ipyparallel" if self._is_in_task else "cell"
        return f"this {work} runs on {name_ranks(self.scope.participants or ())} only"

    @property
    def _run_it_on(self) -> str:
        return "Call it in a cell on" if self._is_in_task else "Run the cell on"

    def _whose(self) -> str:
        return f" of group {self.group.label}" if self.group.label else ""


def _how_it_left(error: BaseException, call: Call) -> str:
    if isinstance(error, KeyboardInterrupt):
        return f"was interrupted during {call}"
    if isinstance(error, CommunicatorError):
        return f"left {call}: {error}"
    return f"left {call} with {name_error(error)}"
