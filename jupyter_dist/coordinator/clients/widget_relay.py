"""Comms of ranks, widgets mostly: between the ranks and the notebook that shows them.

The owner's kernel asks for them when it shows the first widget. Earlier messages are kept until
then, within bounds; no other client gets any.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import EngineRecord, Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    CommAnswered,
    CommArrived,
    CommHandled,
    CommReceived,
    CommsEnded,
    CommsSeen,
    CommsSettled,
    FollowComms,
    FromWidgets,
    SendComm,
    SettleComms,
)

KEPT_BYTES = 16 << 20
"""Of what is said before anyone asks for it."""
UNSEEN_BYTES = 128 << 20
"""A follower that is so far behind gets nothing more."""
TAKEN_OVER = "another notebook runs the cells of this cluster now; it shows its own widgets"
_BEHIND = "this notebook did not take in what widgets said: make them again when it does"


@dataclass
class _Follower:
    line: bytes
    request_id: str
    unseen_bytes: int = 0


class WidgetRelay:
    """Has one follower at most: a line of the owner."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster, self._sender = roster, sender
        self._follower: _Follower | None = None
        self._kept: deque[tuple[CommArrived, Sequence[Frame]]] = deque()
        self._kept_bytes = 0
        self._ranks: dict[str, int] = {}
        """The engines that have comms, with the rank of each."""

    @property
    def follower(self) -> bytes:
        """The line to which comms are told; empty: there is none."""
        return self._follower.line if self._follower is not None else b""

    # --- ranks ---

    def on_engine(self, engine: EngineRecord, message: FromWidgets, buffers: list[Frame]) -> None:
        """Take in what a rank says to the page, or that it has done with what the page said."""
        name, rank = engine.name, engine.info.rank
        if isinstance(message, CommHandled):
            if self._follower is not None:
                answer = (name, rank, message.comm_id, message.number, message.outputs)
                self._sender.to_client(self.follower, CommAnswered(self._request_id, *answer))
            return
        self._ranks[name] = rank
        arrived = CommArrived("", name, rank, message.comm_id, message.kind, message.content)
        if self._follower is None:
            self._keep(arrived, buffers)
        else:
            self._tell(self._follower, arrived, buffers)

    def tick(self) -> None:
        """Tell of the ranks whose process is no more, with all widgets that it had."""
        for name in tuple(self._ranks):
            engine = self._roster.find(name)
            if engine is not None and engine.is_present:
                self._ranks[name] = engine.info.rank
                continue
            rank = self._ranks.pop(name)
            reason = f"rank {rank} was replaced by a new process"
            if engine is not None:
                is_lost = engine.state is EngineState.LOST
                reason = f"rank {rank} {f'is lost: {engine.reason}' if is_lost else 'has ended'}"
            if self._follower is not None:
                ended = CommsEnded(self._request_id, name, rank, reason)
                self._sender.to_client(self.follower, ended)

    def _keep(self, arrived: CommArrived, buffers: Sequence[Frame]) -> None:
        self._kept.append((arrived, buffers))
        self._kept_bytes += _size(arrived, buffers)
        while self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= _size(*self._kept.popleft())

    def _tell(self, to: _Follower, arrived: CommArrived, buffers: Sequence[Frame]) -> None:
        to.unseen_bytes += _size(arrived, buffers)
        if to.unseen_bytes > UNSEEN_BYTES:
            self.let_go(_BEHIND)
            return
        self._sender.to_client(to.line, replace(arrived, request_id=to.request_id), buffers)

    @property
    def _request_id(self) -> str:
        return self._follower.request_id if self._follower is not None else ""

    # --- clients ---

    def on_request(
        self, line: bytes, message: FollowComms | CommsSeen | SettleComms, _now_s: float
    ) -> None:
        """Take in what a line wants, or has taken in."""
        match message:
            case FollowComms():
                self.follow(line, message)
            case CommsSeen():
                self.on_seen(line, message)
            case SettleComms():  # what this line has sent before went on when it came
                self._sender.to_client(line, CommsSettled(message.request_id))

    def follow(self, line: bytes, request: FollowComms) -> None:
        """Tell this line from now on, and what was said before; who was told before is let go."""
        self.let_go(TAKEN_OVER)
        self._follower = _Follower(line, request.request_id)
        kept, self._kept, self._kept_bytes = self._kept, deque(), 0
        for arrived, buffers in kept:
            self._tell(self._follower, arrived, buffers)

    def on_seen(self, line: bytes, message: CommsSeen) -> None:
        """Take in how much the follower has taken in."""
        if self._follower is not None and line == self._follower.line:
            self._follower.unseen_bytes -= message.seen_bytes

    def send(self, line: bytes, message: SendComm, buffers: list[Frame], _now_s: float) -> None:
        """Hand a message of the page to the process that has the comm."""
        if line != self.follower:
            problem = "only who shows the widgets of ranks may speak to them."
            self._sender.refuse(line, message.request_id, ErrorCode.USAGE_ERROR, problem)
            return
        engine = self._roster.find(message.engine)
        if engine is None or not engine.is_present:
            return  # CommsEnded tells
        received = CommReceived(message.comm_id, message.number, message.kind, message.content)
        self._sender.to_engine(engine.info.rank, received, buffers)

    def let_go(self, reason: str) -> None:
        """Tell the follower, if there is one, nothing more but why."""
        if self._follower is not None:
            ended = CommsEnded(self._request_id, "", -1, reason)
            self._sender.to_client(self.follower, ended)
            self._follower = None


def _size(arrived: CommArrived, buffers: Sequence[Frame]) -> int:
    return len(arrived.content) + sum(memoryview(buffer).nbytes for buffer in buffers)
