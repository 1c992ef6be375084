"""A client's line to the coordinator: ask, wait in slices, notice when nobody is there."""

import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from time import monotonic, sleep
from typing import Any, TypeVar

from jupyter_dist.cluster.connection.patience import Patience
from jupyter_dist.control.dealer import AnswersLost, Dealer
from jupyter_dist.control.unix_sockets import can_dial
from jupyter_dist.errors import (
    CellRefused,
    ClusterGone,
    ClusterInUse,
    ClusterUnreachable,
    DistError,
    ErrorCode,
    FrameworkError,
    HealFailed,
    NotAllowed,
    StartFailed,
    UsageError,
    WireError,
)
from jupyter_dist.launch.files.connection_file import ConnectionInfo, path_of
from jupyter_dist.launch.processes.open_files import check_room
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.launch.proxy.last_word import LastWord
from jupyter_dist.protocol.codec import Frame, to_client
from jupyter_dist.protocol.credentials import Credentials
from jupyter_dist.protocol.messages import Message, Refused, ToClient

SLICE_S = 0.1
_END_SLICE_S = 0.02
"""An end is looked for so often: who waits for one waits for nothing else."""
CLOSE_PATIENCE_S = 2.0
SILENCE_LIMIT_S = 10.0
"""Seconds without an answer after which a coordinator counts as gone, unless it has no core."""
_REFUSALS: dict[ErrorCode, type[DistError]] = {
    kind.code: kind
    for kind in (
        CellRefused,
        HealFailed,
        ClusterInUse,
        NotAllowed,
        FrameworkError,
        StartFailed,
        UsageError,
    )
}
Answer = TypeVar("Answer", bound=Message)


class Connection:
    """One authenticated connection; held by one thread at a time through its lock."""

    def __init__(self, info: ConnectionInfo, identity: bytes = b"") -> None:
        self.lock = threading.RLock()
        self.shares_memory = True
        """The coordinator has not said that it cannot open this process's files in memory."""
        self._info = info
        self._pid = os.getpid()
        self._patience = Patience(info.coordinator_pid)
        check_room(DistError)
        try:
            self._dealer: Dealer[ToClient] = Dealer(*_way_to(info), to_client(), identity)
        except WireError as problem:
            path = path_of(info)
            raise WireError(f"{problem}. Is {str(path)!r} damaged? Remove it then.") from problem
        self._numbers = count(1)
        self._is_closed = False
        self.is_far = bool(info.coordinator_host)
        """The coordinator is on another machine, and a process here stands for it."""
        self._last_word = LastWord(info.log_path) if self.is_far else None

    @property
    def pollable(self) -> Any:
        """What a Poller waits for."""
        return self._dealer.pollable

    def new_request_id(self) -> str:
        """Return an id that no other request on this line has."""
        return f"request-{next(self._numbers)}"

    def send(self, message: Message, buffers: Sequence[Frame] = ()) -> None:
        """Send a message."""
        check_not_forked(self._pid, self._info.name)
        try:
            self._dealer.send(message, buffers)
        except (UnicodeEncodeError, OverflowError) as problem:
            raise UsageError(
                f"this cannot be sent to cluster {self._info.name!r}: {problem}. Texts must be "
                "Unicode without lone surrogates, and numbers fit into 64 bits."
            ) from None

    def receive(
        self, timeout_s: float = SLICE_S, *, waits_out_breaks: bool = False
    ) -> Iterator[tuple[ToClient, list[Frame]]]:
        """Yield what arrives within one slice.

        Raises ClusterGone when its coordinator is gone, ClusterUnreachable when its machine is out
        of reach (unless its caller waits that out), and AnswersLost after a break for which
        the coordinator could not keep what it had to say.
        """
        self._check_not_closed()
        if self._dealer.wait(timeout_s):
            yield from self._dealer.receive()
        else:
            self._check_alive(waits_out_breaks)

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise ClusterGone(self._info.name, "it was stopped meanwhile, or detached from")

    def _check_alive(self, waits_out_breaks: bool) -> None:
        silence_s = self._dealer.silence_s()
        if silence_s and not process_lives(self._info.coordinator_pid):
            if self._dealer.wait(0):
                return  # its last words have come meanwhile
            raise self._ended()
        if self._patience.count(silence_s) <= SILENCE_LIMIT_S:
            return
        if not self.is_far:
            raise ClusterGone(
                self._info.name, f"its coordinator does not answer for {silence_s:.0f} s"
            )
        if not waits_out_breaks:
            raise self._unreachable()

    def _ended(self) -> ClusterGone:
        if self._last_word is None:
            return ClusterGone(self._info.name, "its coordinator has ended")
        if word := self._last_word.read():
            return ClusterGone(self._info.name, word)
        from jupyter_dist.cluster.connection.unreachable import out_of_sight

        return out_of_sight(self._info)

    def _unreachable(self) -> ClusterUnreachable:
        from jupyter_dist.cluster.connection.unreachable import unreachable

        return unreachable(self._info)

    def describe_break(self) -> str:
        """Return why the machine of the coordinator is out of reach; empty while it is not."""
        if not self.is_far or not self._dealer.silence_s():
            return ""
        from jupyter_dist.cluster.connection.unreachable import describe_break

        return describe_break(self._info)

    def ask(
        self,
        request: Message,
        answer_type: type[Answer],
        buffers: Sequence[Frame] = (),
        timeout_s: float = math.inf,
        on_other: Callable[[ToClient], None] | None = None,
    ) -> tuple[Answer, list[Frame]]:
        """Send a request and wait for its answer.

        Raises what a refusal names, and ClusterGone when the time is over.
        """
        check_not_forked(self._pid, self._info.name)  # a fork may have copied a lock that is held
        deadline_s = monotonic() + timeout_s
        request_id: str = request.request_id  # type: ignore[attr-defined]
        with self.lock:
            self._check_not_closed()
            self.send(request, buffers)
            while monotonic() < deadline_s:
                for message, frames in self.receive():
                    if getattr(message, "request_id", None) not in (request_id, ""):
                        continue  # "": a refusal of something that could not be read
                    if isinstance(message, answer_type):
                        return message, frames
                    raise_refusal(message)
                    if on_other is not None:
                        on_other(message)
        if self.describe_break():
            raise self._unreachable()
        raise ClusterGone(
            self._info.name, f"its coordinator lives but has not answered for {timeout_s:g} s"
        )

    def wait_for_end(self, timeout_s: float) -> bool:
        """Wait until the coordinator's process is gone, at most so long; tells whether it is."""
        deadline_s = monotonic() + timeout_s
        while (lives := process_lives(self._info.coordinator_pid)) and monotonic() < deadline_s:
            try:
                with self.lock:
                    for _ in self.receive(_END_SLICE_S):
                        continue
            except AnswersLost:
                continue
            except (ClusterGone, ClusterUnreachable):
                sleep(_END_SLICE_S)  # closed, or silent: the process may end yet
        return not lives

    def close(self) -> None:
        """Close the connection; a thread that waits for an answer raises ClusterGone first."""
        self._is_closed = True
        if self._pid != os.getpid():
            return  # it is the parent's
        if self._last_word is not None:
            self._last_word.close()
        if self.lock.acquire(timeout=CLOSE_PATIENCE_S):
            try:
                if process_lives(self._info.coordinator_pid):
                    self._dealer.close()
                else:
                    self._dealer.close(linger_ms=0)  # what is still to be sent has nowhere to go
            finally:
                self.lock.release()


def _way_to(info: ConnectionInfo) -> tuple[str, Credentials | None]:
    """Return the address to dial, and the keys that are wanted there."""
    if info.clients_path and can_dial(info.clients_path):
        return f"ipc://{info.clients_path}", None
    return info.clients_address, info.credentials


def check_not_forked(pid: int, cluster: str) -> None:
    """Raise UsageError in a copy by fork of the process that has connected."""
    if os.getpid() != pid:
        raise UsageError(
            f"process {pid} has connected to cluster {cluster!r}, and this one ({os.getpid()}) is "
            "a copy of it made by fork, which cannot use its connection. Connect from here: "
            f"Cluster.visit({cluster!r})."
        )


def raise_refusal(message: ToClient) -> None:
    """Raise the error that a refusal names; do nothing for other messages."""
    if isinstance(message, Refused):
        if message.code in (ErrorCode.VERSION_MISMATCH, ErrorCode.MALFORMED_MESSAGE):
            raise WireError(message.reason)
        raise _REFUSALS.get(message.code, DistError)(message.reason)
