"""Who may do what: one process drives the cluster, others watch, or visit for one command."""

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
"""A driver whose process lives keeps its place so long: C code may hold its interpreter."""
ROLES = ("drive", "watch", "visit")
_FOR_EVERYBODY = (
    AskRanks
    | AwaitReady
    | Explain
    | FollowCell
    | ListCells
    | OutputSeen
    | ReadCollectives
    | ReplayOutput
    | ClaimRole
    | WatchTopology
    | WithdrawCell
)
"""What everybody may ask: it changes nothing, or only the client's own cell."""


@dataclass(frozen=True)
class _Member:
    pid: int
    who: str
    role: str


@dataclass
class _Driver:
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
        """Those who drive or watch: visitors come and go, and one process may send very many."""
        self._driver: _Driver | None = None

    def hear(self, line: bytes, now_s: float) -> None:
        """Note that a client is there."""
        member = self._members.get(client_of(line))
        if member is None or self._driver is None or member.role != "drive":
            return
        if member.pid == self._driver.pid:
            self._driver.heard_s = now_s

    def take_part(self, line: bytes, request: ClaimRole, now_s: float) -> None:
        """Let a client drive, watch or visit, or tell it who drives."""
        if request.role not in ROLES:
            problem = f"role {request.role!r} is unknown. Accepted: {', '.join(ROLES)}."
            self._sender.refuse(line, request.request_id, ErrorCode.USAGE_ERROR, problem)
            return
        other = self._find_other_driver(request.pid, now_s)
        if request.role == "drive" and other is not None and not request.is_taking_over:
            problem = (
                f"{self._name_driver(other)}. To look on: %dist_attach {self._cluster} --watch. "
                f"To take its place: %dist_attach {self._cluster} --take-over."
            )
            self._sender.refuse(line, request.request_id, ErrorCode.CLUSTER_IN_USE, problem)
            return
        self._forget_the_dead()
        member = _Member(request.pid, request.who, request.role)
        before = self._members.pop(client_of(line), None)
        if request.role != "visit":
            self._members[client_of(line)] = member
        if request.role == "drive":
            self._seat(member, now_s)
        elif self._leaves(before, member):
            self._driver = None
        driver = self._driver.who if self._driver and self._is_there(self._driver, now_s) else ""
        self._sender.to_client(line, RoleGranted(request.request_id, request.role, driver))

    def find_objection(self, line: bytes, message: FromClient, now_s: float) -> str:
        """Return why this client may not do that, with the way out; empty when it may."""
        member = self._members.get(client_of(line))
        if member is None or isinstance(message, _FOR_EVERYBODY):
            return ""
        other = self._find_other_driver(member.pid, now_s)
        if member.role == "watch":
            driven = f"; {self._name_driver(other)}" if other is not None else ""
            option = " --take-over" if other is not None else ""
            return (
                f"this client only watches cluster {self._cluster!r}{driven}. "
                f"To run cells: %dist_attach {self._cluster}{option}."
            )
        if other is not None:
            return (
                f"{self._name_driver(other)}, so this one watches. "
                f"%dist_attach {self._cluster} --take-over takes it back."
            )
        self._seat(member, now_s)  # whoever took the place has left it
        return ""

    def _seat(self, member: _Member, now_s: float) -> None:
        if self._driver is None or self._driver.pid != member.pid:
            self._driver = _Driver(member.pid, member.who, self._time_of_day(), now_s)
        self._driver.heard_s = now_s

    def _leaves(self, before: _Member | None, member: _Member) -> bool:
        """Return whether the driver's process gives its place up by taking this part."""
        if self._driver is None or self._driver.pid != member.pid:
            return False
        if member.role == "watch":
            return True
        drives_on = any(
            other.pid == member.pid and other.role == "drive" for other in self._members.values()
        )
        return before is not None and before.role == "drive" and not drives_on

    def _find_other_driver(self, pid: int, now_s: float) -> _Driver | None:
        """Return who drives, unless that is this process, or has left its place."""
        driver = self._driver
        if driver is None or driver.pid == pid or not self._is_there(driver, now_s):
            return None
        return driver

    def _is_there(self, driver: _Driver, now_s: float) -> bool:
        return now_s - driver.heard_s <= SILENCE_LIMIT_S and self._lives(driver.pid)

    def _name_driver(self, driver: _Driver) -> str:
        since = time.strftime("%H:%M", time.localtime(driver.since_s))
        who = f"{driver.who} (process {driver.pid})"
        return f"cluster {self._cluster!r} is driven by {who} since {since}"

    def _forget_the_dead(self) -> None:
        self._members = {
            client: member for client, member in self._members.items() if self._lives(member.pid)
        }
