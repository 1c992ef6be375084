"""One gloo and its calls: how they begin, how long they may take, and what broke them."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np

from jupyter_dist.collective.breakage import Breakage, Broken
from jupyter_dist.collective.call import Array, Call, Signature
from jupyter_dist.collective.control import Control
from jupyter_dist.collective.gloo.pairs import Pairs, open_sockets, room_for
from jupyter_dist.collective.gloo.tensors import as_bytes, as_rows
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.transport import Message
from jupyter_dist.errors import CommunicatorError, PeerFailed, UsageError

SLICE_S = 0.2
"""The longest wait in one piece, so that Ctrl-C is always heard."""
_SLICE = timedelta(seconds=SLICE_S)
GRACE_S = 0.2
"""How long a peer that closed its connection has to say why."""
_MARGIN_S = 10.0
"""Gloo's own deadlines come so long after ours, and count only where ours cannot end a call."""

Begin = Callable[[Any], Any]
"""Begins a call of torch's ProcessGroupGloo and gives its Work."""
End = RuntimeError | None


class Link:
    """What binds this rank to the other members; a group of one has nothing to do.

    Only `abort` may be called while the owner is inside another method.
    """

    def __init__(self, group: Group, control: Control) -> None:
        self.me = group
        self.aborted: Breakage | None = None
        self._control = control
        self._pairs = Pairs()
        self._look_outside: Callable[[], None] = lambda: None
        self._gloo: Any = None
        self._waiting: threading.Thread | None = None
        self.allow(0.0)

    def allow(self, timeout_s: float) -> None:
        """Give the operation that comes next so long."""
        self.timeout_s = timeout_s
        self._ends_at = time.monotonic() + timeout_s

    # --- the beginning -----------------------------------------------------------------------

    def form(self, host: str, look_around: Callable[[], None]) -> None:
        """Meet the other members; `look_around` may raise. Raises UsageError, CommunicatorError."""
        try:
            from jupyter_dist.collective.gloo.forming import form
        except ImportError as error:
            raise UsageError(
                f"gloo comes with torch, which cannot be imported here ({error}). Install it "
                "(pip install torch), or start the cluster with --comm ring."
            ) from error
        before = open_sockets().keys()
        self._gloo = form(self.me, host, self._control, self.timeout_s, look_around)
        self._look_outside = look_around
        try:
            self._exchange_addresses(self._pairs.find(before, room_for(self.me.size)))
        except BaseException:
            self._drop_unfinished()
            raise
        finally:
            self._look_outside = lambda: None

    def _exchange_addresses(self, near: bytes) -> None:
        room = np.zeros(room_for(self.me.size), np.uint8)
        room[: len(near)] = np.frombuffer(near, np.uint8)
        stack = np.empty((self.me.size, room.size), np.uint8)

        def begin(gloo: Any) -> Any:
            return gloo.allgather([as_rows(stack)], [as_bytes(room)], self.options("Allgather"))

        try:
            self.do(Call(Signature("barrier", group=self.me.label), 0), begin)
        except Broken as broken:
            raise broken.breakage.error(self.me.world_rank) from None
        others = [i for i in range(self.me.size) if i != self.me.rank]
        members = self.me.members
        self._pairs.confirm({members[i]: stack[i].tobytes().rstrip(b"\0") for i in others})

    def _drop_unfinished(self) -> None:
        # Its destructor waits for the call inside, whose connections cannot be told from foreign
        # ones yet and so cannot be shut down.
        unfinished = [self._gloo]
        self._gloo = None
        threading.Thread(target=unfinished.clear, name="gloo", daemon=True).start()

    # --- calls -------------------------------------------------------------------------------

    def options(self, name: str, **settings: object) -> Any:
        """Make torch's options of an operation: `Broadcast` with its rootRank, for example."""
        from torch.distributed import distributed_c10d

        options = getattr(distributed_c10d, f"{name}Options")()
        options.timeout = timedelta(seconds=self.timeout_s + _MARGIN_S)
        for word, value in settings.items():
            setattr(options, word, value)
        return options

    def do(self, call: Call, begin: Begin, moved: Array | None = None) -> None:
        """Begin a collective and wait for its end; an array without elements needs none.

        Raises Broken.
        """
        self._check(call)
        if self.me.size == 1 or (moved is not None and not moved.size):
            return
        try:
            work = begin(self._gloo)
            try:
                while not work.is_completed():
                    with suppress(RuntimeError):  # the slice is over, or the call has failed
                        work.wait(_SLICE)
                    if not work.is_completed():
                        self._look_around(call)
                work.wait()
            finally:
                # An exception that is kept must not keep the connections.
                del work
        except RuntimeError as error:
            raise self._explain(error, call) from None

    def exchange(self, call: Call, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send and receive all of these at once; raises Broken.

        Waiting for a message cannot be cut into slices: after the first one gloo would give up all
        its connections. So a thread waits, and this one looks around.
        """
        self._check(call)
        end: queue.SimpleQueue[End] = queue.SimpleQueue()
        arguments = (self._begin_messages(call, sent, received), self.timeout_s + _MARGIN_S, end)
        self._waiting = threading.Thread(target=_wait_for_all, args=arguments, daemon=True)
        self._waiting.start()
        del arguments
        while True:
            with suppress(queue.Empty):
                error = end.get(timeout=SLICE_S)
                break
            self._look_around(call)
        self._waiting.join()
        if error is not None:
            raise self._explain(error, call)

    def _begin_messages(
        self, call: Call, sent: Sequence[Message], received: Sequence[Message]
    ) -> list[Any]:
        works = []
        try:
            for begin, messages in ((self._gloo.send, sent), (self._gloo.recv, received)):
                works += [
                    begin([as_bytes(array)], peer, message.sequence)
                    for message, array, peer in messages
                    if array.nbytes
                ]
        except RuntimeError as error:
            works.clear()
            raise self._explain(error, call) from None
        return works

    # --- the end -----------------------------------------------------------------------------

    def abort(self, breakage: Breakage) -> None:
        """From any thread: make the running call, if any, raise Broken at once."""
        self.aborted = self.aborted or breakage
        self._pairs.shut_down()

    def leave(self, breakage: Breakage) -> None:
        """Say over the control channel why this rank is gone, and let go of all who wait for it."""
        self._tell(breakage)
        self._pairs.shut_down()

    def close(self) -> None:
        """Release everything; calling it again changes nothing."""
        self._pairs.shut_down()
        if self._waiting is not None:
            self._waiting.join(_MARGIN_S)
        self._gloo = None
        self._pairs.close()

    # --- what went wrong ---------------------------------------------------------------------

    def _check(self, call: Call) -> None:
        if self.aborted is not None:
            raise Broken(self.aborted)
        if time.monotonic() > self._ends_at:
            text = f"waited {self.timeout_s:g} s for the other ranks in {call}"
            raise Broken(Breakage("timeout", self.me.world_rank, text))

    def _look_around(self, call: Call) -> None:
        """Raise Broken when it makes no sense to wait on; gloo sees only those it waits for."""
        self._check(call)
        self._look_outside()
        rank = self._pairs.closed_by()
        if rank >= 0:
            raise self._broken(_closed(rank, call))

    def _explain(self, error: RuntimeError, call: Call) -> Broken:
        """Give what broke the call, from what gloo says."""
        rank = self._pairs.rank_in(str(error))
        if rank >= 0:
            return self._broken(_closed(rank, call))
        # In front stands a line of gloo's source code.
        what = str(error).rpartition("] ")[2].splitlines()[0]
        return self._broken(Breakage("failed", -1, f"gloo could not do {call}: {what}"))

    def _broken(self, found: Breakage) -> Broken:
        """Give what really broke the call: what the coordinator or a peer knows of it."""
        if self.aborted is None:
            # Peers ask at once, and gloo makes us close connections that have done no harm.
            self._tell(found)
            found = self._follow(found)
        return Broken(self.aborted or found)

    def _follow(self, found: Breakage) -> Breakage:
        """Ask the suspect for its reason, then whom that one suspects; silence is a confession."""
        suspects = set(self.me.members) - {self.me.world_rank}
        while found.kind == "failed" and found.rank in suspects:
            suspects.remove(found.rank)
            try:
                told = self._control.get(self._reason_of(found.rank), GRACE_S)
            except PeerFailed as failed:
                return Breakage("failed", failed.rank, failed.reason)
            except CommunicatorError:
                break
            found = msgspec.json.decode(told, type=Breakage)
        return found

    def _tell(self, breakage: Breakage) -> None:
        if self.me.size > 1:
            self._control.put(self._reason_of(self.me.world_rank), msgspec.json.encode(breakage))

    def _reason_of(self, rank: int) -> str:
        label = f" {self.me.label}" if self.me.label else ""
        return f"gloo{label}: why rank {rank} left"


def _closed(rank: int, call: Call) -> Breakage:
    return Breakage("failed", rank, f"closed its connection during {call}")


def _wait_for_all(works: list[Any], timeout_s: float, end: "queue.SimpleQueue[End]") -> None:
    error = None
    limit = timedelta(seconds=timeout_s)
    try:
        while works:
            works[-1].wait(limit)
            works.pop()
    except RuntimeError as problem:
        error = problem.with_traceback(None)
    works.clear()
    end.put(error)
