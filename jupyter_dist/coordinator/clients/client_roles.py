"""Who may do what: one process owns a cluster, others observe it, or visit for one command."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.protocol.identity import client_of
from jupyter_dist.protocol.messages import (
    AnswerInput,
    AskRanks,
    AwaitReady,
    ClaimRole,
    CommsSeen,
    Explain,
    FollowCell,
    FromClient,
    InputShown,
    KernelRole,
    ListCells,
    LocateRanks,
    NoteAuto,
    OutputSeen,
    ReadCollectives,
    ReplayOutput,
    RoleGranted,
    ShowPresence,
    WatchTopology,
    WithdrawCell,
)

SILENCE_LIMIT_S = 15.0
"""An owner whose process lives keeps its place so long: C code may hold its interpreter."""
_FORGOTTEN_AFTER_S = 24 * 3600.0
"""A client on another machine is forgotten after this silence: its messages are kept as long."""
ROLES = ("own", "observe", "visit")
_QUESTIONS = AskRanks | Explain | ListCells | LocateRanks | ReadCollectives | ReplayOutput
_LOOKS = _QUESTIONS | AwaitReady | ShowPresence | WatchTopology
_OWN_CELL = AnswerInput | InputShown | OutputSeen | WithdrawCell
_FOR_EVERYBODY = _LOOKS | ClaimRole | CommsSeen | FollowCell | NoteAuto | _OWN_CELL
"""What everybody may ask: it changes nothing, or only the client's own cell."""


@dataclass
class _Member:
    process: tuple[str, int]
    """Its machine (empty: the coordinator's), and its number there."""
    who: str
    role: str
    kernel: str
    since_s: float
    """Time of day."""
    heard_s: float
    is_auto: bool = False


@dataclass
class _Owner:
    member: _Member
    since_s: float
    """Time of day."""
    heard_s: float

    @property
    def process(self) -> tuple[str, int]:
        return self.member.process

    @property
    def who(self) -> str:
        return self.member.who


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
        self._last_owner: _Member | None = None
        """It may have left its place, as kernels do at their end."""

    def hear(self, line: bytes, now_s: float) -> None:
        """Note that a client is there."""
        member = self._members.get(client_of(line))
        if member is None:
            return
        member.heard_s = now_s
        if self._owner is None or member.role != "own":
            return
        if member.process == self._owner.process:
            self._owner.heard_s = now_s

    def take_part(self, line: bytes, request: ClaimRole, now_s: float) -> None:
        """Let a client own the cluster, observe or visit it, or tell it who owns it."""
        if request.role not in ROLES:
            problem = f"role {request.role!r} is unknown. Accepted: {', '.join(ROLES)}."
            self._sender.refuse(line, request.request_id, ErrorCode.USAGE_ERROR, problem)
            return
        other = self._find_other_owner((request.machine, request.pid), now_s)
        if request.role == "own" and other is not None and not request.is_taking_over:
            problem = (
                f"{self._name_owner(other)}. To look on: %dist_attach {self._cluster} --watch. "
                f"To take its place: %dist_attach {self._cluster} --take-over."
            )
            self._sender.refuse(line, request.request_id, ErrorCode.CLUSTER_IN_USE, problem)
            return
        self._forget_the_dead(now_s)
        now = self._time_of_day()
        process = request.machine, request.pid
        member = _Member(process, request.who, request.role, request.kernel, now, now_s)
        before = self._members.pop(client_of(line), None)
        if request.role != "visit":
            self._members[client_of(line)] = member
        if request.role == "own":
            self._seat(member, now_s)
        elif self._leaves(before, member):
            self._owner = None
        owner = self._owner.who if self._owner and self._is_there(self._owner, now_s) else ""
        granted = RoleGranted(request.request_id, request.role, owner, self._list_kernels(now_s))
        self._sender.to_client(line, granted)

    def note_auto(self, line: bytes, message: NoteAuto, _now_s: float) -> None:
        """Note whether all cells of this client's notebook run on the ranks."""
        if (member := self._members.get(client_of(line))) is not None:
            member.is_auto = message.is_on

    def _list_kernels(self, now_s: float) -> tuple[KernelRole, ...]:
        """Return what notebooks have to do with the cluster, each once.

        The last owner is among them when its process has ended, or is on another machine and
        silent: its notebook may be open still.
        """
        told: dict[str, KernelRole] = {}
        last = self._last_owner
        if last is not None and not self._may_live(last, now_s, SILENCE_LIMIT_S):
            told[last.kernel] = KernelRole(last.kernel, "owned", last.since_s)
        for member in self._members.values():
            if not self._may_live(member, now_s, SILENCE_LIMIT_S):
                continue
            is_owner = self._owner is not None and self._owner.process == member.process
            role = "own" if is_owner else "observe"  # as who was taken over does
            told[member.kernel] = KernelRole(member.kernel, role, member.since_s, member.is_auto)
        told.pop("", None)
        return tuple(told.values())

    def find_objection(self, line: bytes, message: FromClient, now_s: float) -> str:
        """Return why this client may not do that, with the way out; empty when it may."""
        member = self._members.get(client_of(line))
        if member is None or isinstance(message, _FOR_EVERYBODY):
            return ""
        other = self._find_other_owner(member.process, now_s)
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

    def is_owners(self, line: bytes) -> bool:
        """Return whether this line is of the owner's process, and runs cells."""
        member = self._members.get(client_of(line))
        if member is None or self._owner is None:
            return False
        return member.role == "own" and member.process == self._owner.process

    def _seat(self, member: _Member, now_s: float) -> None:
        if self._owner is None or self._owner.process != member.process:
            self._owner = _Owner(member, self._time_of_day(), now_s)
            self._last_owner = member
        self._owner.heard_s = now_s

    def _leaves(self, before: _Member | None, member: _Member) -> bool:
        """Return whether the owner's process gives its place up by taking this part."""
        if self._owner is None or self._owner.process != member.process:
            return False
        if member.role == "observe":
            return True
        owns_still = any(
            other.process == member.process and other.role == "own"
            for other in self._members.values()
        )
        return before is not None and before.role == "own" and not owns_still

    def _find_other_owner(self, process: tuple[str, int], now_s: float) -> _Owner | None:
        """Return who owns it, unless that is this process, or has left its place."""
        owner = self._owner
        if owner is None or owner.process == process or not self._is_there(owner, now_s):
            return None
        return owner

    @property
    def has_living_owner(self) -> bool:
        """The process of an owner that has not left its place lives, though it may be silent.

        Of one on another machine that is not known.
        """
        owner = self._owner
        if owner is None:
            return False
        machine, pid = owner.process
        return not machine and self._lives(pid)

    def _is_there(self, owner: _Owner, now_s: float) -> bool:
        machine, pid = owner.process
        return now_s - owner.heard_s <= SILENCE_LIMIT_S and (bool(machine) or self._lives(pid))

    def _name_owner(self, owner: _Owner) -> str:
        since = time.strftime("%H:%M", time.localtime(owner.since_s))
        machine, pid = owner.process
        where = f" on {machine.rpartition(' ')[2]}" if machine else ""
        who = f"{owner.who} (process {pid}{where})"
        return f"cluster {self._cluster!r} is owned by {who} since {since}"

    def _forget_the_dead(self, now_s: float) -> None:
        self._members = {
            client: member
            for client, member in self._members.items()
            if self._may_live(member, now_s, _FORGOTTEN_AFTER_S)
        }

    def _may_live(self, member: _Member, now_s: float, silence_limit_s: float) -> bool:
        """Return whether its process lives; that of another machine counts by its silence."""
        machine, pid = member.process
        return now_s - member.heard_s <= silence_limit_s if machine else self._lives(pid)
