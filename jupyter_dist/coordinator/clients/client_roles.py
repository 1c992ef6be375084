"""Who may do what: one process owns a cluster, others observe it, or visit for one command."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.protocol.identity import client_of
from jupyter_dist.protocol.messages import (
    AskRanks,
    AwaitReady,
    ClaimRole,
    Explain,
    FollowCell,
    FromClient,
    ListCells,
    OutputSeen,
    ReadCollectives,
    ReplayOutput,
    RoleGranted,
    WatchTopology,
    WithdrawCell,
)

SILENCE_LIMIT_S = 15.0
"""An owner whose process lives keeps its place so long: C code may hold its interpreter."""
ROLES = ("own", "observe", "visit")
_LOOKS = AskRanks | AwaitReady | Explain | ListCells | ReadCollectives | ReplayOutput
_FOR_EVERYBODY = _LOOKS | ClaimRole | FollowCell | OutputSeen | WatchTopology | WithdrawCell
"""What everybody may ask: it changes nothing, or only the client's own cell."""


@dataclass(frozen=True)
class _Member:
    pid: int
    who: str
    role: str


@dataclass
class _Owner:
    pid: int
    who: str
    since_s: float
    """Time of day."""
    heard_s: float


class ClientRoles:
    """The roles of the clients; one that has said nothing about it is a visitor."""

    def __init__(
        self,
        cluster: str,
        sender: Sender,
        lives: Callable[[int], bool] = process_lives,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._sender = sender
        self._lives = lives
        self._time_of_day = time_of_day
        self._members: dict[bytes, _Member] = {}
        """The owner and observers: visitors come and go, and one process may send very many."""
        self._owner: _Owner | None = None

    def hear(self, line: bytes, now_s: float) -> None:
        """Note that a client is there."""
        member = self._members.get(client_of(line))
        if member is None or self._owner is None or member.role != "own":
            return
        if member.pid == self._owner.pid:
            self._owner.heard_s = now_s

    def take_part(self, line: bytes, request: ClaimRole, now_s: float) -> None:
        """Let a client own the cluster, observe or visit it, or tell it who owns it."""
        if request.role not in ROLES:
            problem = f"role {request.role!r} is unknown. Accepted: {', '.join(ROLES)}."
            self._sender.refuse(line, request.request_id, ErrorCode.USAGE_ERROR, problem)
            return
        other = self._find_other_owner(request.pid, now_s)
        if request.role == "own" and other is not None and not request.is_taking_over:
            problem = (
                f"{self._name_owner(other)}. To look on: %dist_attach {self._cluster} --watch. "
                f"To take its place: %dist_attach {self._cluster} --take-over."
            )
            self._sender.refuse(line, request.request_id, ErrorCode.CLUSTER_IN_USE, problem)
            return
        self._forget_the_dead()
        member = _Member(request.pid, request.who, request.role)
        before = self._members.pop(client_of(line), None)
        if request.role != "visit":
            self._members[client_of(line)] = member
        if request.role == "own":
            self._seat(member, now_s)
        elif self._leaves(before, member):
            self._owner = None
        owner = self._owner.who if self._owner and self._is_there(self._owner, now_s) else ""
        self._sender.to_client(line, RoleGranted(request.request_id, request.role, owner))

    def find_objection(self, line: bytes, message: FromClient, now_s: float) -> str:
        """Return why this client may not do that, with the way out; empty when it may."""
        member = self._members.get(client_of(line))
        if member is None or isinstance(message, _FOR_EVERYBODY):
            return ""
        other = self._find_other_owner(member.pid, now_s)
        if member.role == "observe":
            owned = f"; {self._name_owner(other)}" if other is not None else ""
            option = " --take-over" if other is not None else ""
            return (
                f"this client only observes cluster {self._cluster!r}{owned}. "
                f"To run cells: %dist_attach {self._cluster}{option}."
            )
        if other is not None:
            return (
                f"{self._name_owner(other)}, so this one only observes. "
                f"%dist_attach {self._cluster} --take-over takes it back."
            )
        self._seat(member, now_s)  # whoever took the place has left it
        return ""

    def _seat(self, member: _Member, now_s: float) -> None:
        if self._owner is None or self._owner.pid != member.pid:
            self._owner = _Owner(member.pid, member.who, self._time_of_day(), now_s)
        self._owner.heard_s = now_s

    def _leaves(self, before: _Member | None, member: _Member) -> bool:
        """Return whether the owner's process gives its place up by taking this part."""
        if self._owner is None or self._owner.pid != member.pid:
            return False
        if member.role == "observe":
            return True
        owns_still = any(
            other.pid == member.pid and other.role == "own" for other in self._members.values()
        )
        return before is not None and before.role == "own" and not owns_still

    def _find_other_owner(self, pid: int, now_s: float) -> _Owner | None:
        """Return who owns it, unless that is this process, or has left its place."""
        owner = self._owner
        if owner is None or owner.pid == pid or not self._is_there(owner, now_s):
            return None
        return owner

    def _is_there(self, owner: _Owner, now_s: float) -> bool:
        return now_s - owner.heard_s <= SILENCE_LIMIT_S and self._lives(owner.pid)

    def _name_owner(self, owner: _Owner) -> str:
        since = time.strftime("%H:%M", time.localtime(owner.since_s))
        who = f"{owner.who} (process {owner.pid})"
        return f"cluster {self._cluster!r} is owned by {who} since {since}"

    def _forget_the_dead(self) -> None:
        self._members = {
            client: member for client, member in self._members.items() if self._lives(member.pid)
        }
