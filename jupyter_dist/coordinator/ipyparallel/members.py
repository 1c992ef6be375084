"""Which ranks are engines of the cluster's ipyparallel controller, each with its rank as id."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Any

from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.roster import EngineRecord, HostRecord, Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.frameworks.ipyparallel.controller_messages import EVERYWHERE, LOOPBACK
from jupyter_dist.protocol.messages import (
    ControllerJoined,
    ControllerLeft,
    JoinController,
    LeaveController,
)
from jupyter_dist.text.lists import name_by_reason


class MemberState(StrEnum):
    """How far an engine is with the controller."""

    ASKED = "asked"
    JOINED = "joined"
    LEAVING = "leaving"
    OUT = "out"
    """It cannot join, or has left on its own; it is asked again only when a client wants that."""


@dataclass
class _Member:
    rank: int
    """Its id at the controller."""
    request_id: str
    standing: MemberState = MemberState.ASKED
    is_registered: bool = False
    """The controller has heard its heart, and shows it to clients."""
    problem: str = ""


class Members:
    """Asks engines to join and to leave, so that each id belongs to one of them at most."""

    def __init__(
        self,
        roster: Roster,
        rendezvous: Rendezvous,
        sender: Sender,
        unregister: Callable[[list[int]], None],
    ) -> None:
        self._roster, self._rendezvous, self._sender = roster, rendezvous, sender
        self._unregister = unregister
        """Has the controller forget engines that cannot leave on their own."""
        self._ids = count(1)
        self._members: dict[str, _Member] = {}
        """By the name of the engine: that stays when the rank changes."""
        self._forgotten: set[int] = set()
        """Ids that the controller was told to forget; nobody gets them before it has."""
        self._connection: dict[str, Any] = {}
        self._listens_at = ""

    def prepare(self) -> None:
        """Let engines know that there will be a controller soon."""
        for rank in self._roster.present_ranks():
            self._sender.to_engine(rank, JoinController("", b"", rank))

    def open(self, connection: dict[str, Any], listens_at: str) -> None:
        """Let engines join this controller from now on."""
        self._connection, self._listens_at = connection, listens_at

    def forget_all(self) -> None:
        """Note that there is no controller any more."""
        self._members.clear()
        self._forgotten.clear()
        self._connection = {}

    def try_again(self) -> None:
        """Ask also those once more that could not join."""
        for name, member in list(self._members.items()):
            if member.standing is MemberState.OUT:
                del self._members[name]

    @property
    def joined_ranks(self) -> list[int]:
        """Ranks that are engines of the controller at this moment."""
        return sorted(
            engine.info.rank for engine in self._roster.present() if self._is_there(engine)
        )

    @property
    def awaited_ranks(self) -> list[int]:
        """Ranks that may still join."""
        return [
            engine.info.rank
            for engine in self._roster.present()
            if self._standing_of(engine) is not MemberState.OUT and not self._is_there(engine)
        ]

    @property
    def problems(self) -> dict[int, str]:
        """Why ranks are no engines, of those that cannot become one."""
        return {
            engine.info.rank: self._members[engine.name].problem
            for engine in self._roster.present()
            if self._standing_of(engine) is MemberState.OUT
        }

    @property
    def has_any(self) -> bool:
        """Someone is, or may just become, an engine of the controller."""
        return any(member.standing is not MemberState.OUT for member in self._members.values())

    def tick(self) -> None:
        """See who has come, who is gone, and whose rank has changed."""
        present = {engine.name: engine for engine in self._roster.present()}
        gone = [name for name in self._members if name not in present]
        self._forget(self._members.pop(name).rank for name in gone)
        # Before all ranks have met, one may still run a task, whose answer needs its membership.
        for name, engine in present.items() if self._rendezvous.is_complete else ():
            member = self._members.get(name)
            if member is not None and member.rank != engine.info.rank:
                self._ask_to_leave(engine, member)
        held = {member.rank for member in self._members.values()} | self._forgotten
        for name, engine in present.items():
            # Who is new knows nothing of its rank's generation yet, and has no place in it.
            if name not in self._members and not engine.is_new and engine.info.rank not in held:
                self._ask_to_join(engine)

    def leave_all(self) -> None:
        """Ask all to leave."""
        for engine in self._roster.present():
            if (member := self._members.get(engine.name)) is not None:
                self._ask_to_leave(engine, member)

    def on_joined(self, message: ControllerJoined) -> None:
        """Take in that an engine has joined, or why not."""
        member = self._members.get(self._roster[message.rank].name)
        if member is None or member.request_id != message.request_id:
            return
        member.problem = message.problem
        member.standing = MemberState.OUT if message.problem else MemberState.JOINED

    def on_left(self, message: ControllerLeft) -> None:
        """Take in that an engine has left, as it was told or on its own."""
        name = self._roster[message.rank].name
        member = self._members.get(name)
        if member is None:
            return
        if member.standing is MemberState.LEAVING:
            if message.request_id in ("", member.request_id):
                del self._members[name]
        elif not message.request_id:
            self._forget([member.rank])
            member.standing = MemberState.OUT
            member.problem = message.reason or "left the controller on its own"

    def on_registered(self, rank: int) -> None:
        """Take in that the controller shows this engine to clients."""
        for member in self._members.values():
            member.is_registered = member.is_registered or member.rank == rank

    def on_unregistered(self, ranks: Iterable[int]) -> None:
        """Take in that the controller has forgotten these ids."""
        self._forgotten.difference_update(ranks)

    def _is_there(self, engine: EngineRecord) -> bool:
        is_joined = self._standing_of(engine) is MemberState.JOINED
        return is_joined and self._members[engine.name].is_registered

    def _standing_of(self, engine: EngineRecord) -> MemberState | None:
        member = self._members.get(engine.name)
        if member is None or member.rank != engine.info.rank:
            return None
        return member.standing

    def _forget(self, ranks: Iterable[int]) -> None:
        if forgotten := sorted(ranks):
            self._forgotten.update(forgotten)
            self._unregister(forgotten)

    def _ask_to_join(self, engine: EngineRecord) -> None:
        rank, host = engine.info.rank, self._roster.hosts[engine.info.host]
        member = self._members[engine.name] = _Member(rank, f"join-{next(self._ids)}")
        address, problem = find_way(host, self._listens_at)
        if problem:
            member.standing, member.problem = MemberState.OUT, problem
            return
        connection = {**self._connection, "interface": f"tcp://{address}"}
        request = JoinController(member.request_id, json.dumps(connection).encode(), rank)
        self._sender.to_engine(rank, request)

    def _ask_to_leave(self, engine: EngineRecord, member: _Member) -> None:
        if member.standing is MemberState.OUT:
            del self._members[engine.name]
        elif member.standing is not MemberState.LEAVING:
            member.standing, member.request_id = MemberState.LEAVING, f"leave-{next(self._ids)}"
            self._sender.to_engine(engine.info.rank, LeaveController(member.request_id))


# --- ways from hosts to the controller ---


def choose_address(hosts: Iterable[HostRecord]) -> tuple[str, str]:
    """Choose where the controller listens for the engines of these hosts; or say why it cannot."""
    found = {host.name: _find_home(host) for host in hosts}
    problems = {name: problem for name, (_home, problem) in found.items() if problem}
    if problems:
        return "", name_by_reason(problems)
    outside = {home for home, _problem in found.values()} - {LOOPBACK}
    return next(iter(outside), LOOPBACK) if len(outside) < 2 else EVERYWHERE, ""


def find_way(host: HostRecord, listens_at: str) -> tuple[str, str]:
    """Return the address at which a host reaches a controller that listens there, or why not."""
    home, problem = _find_home(host)
    if problem:
        return "", problem
    if listens_at in (EVERYWHERE, home):
        return home, ""
    if home == LOOPBACK:  # it is on this machine
        return listens_at, ""
    return "", (
        f"host {host.name} came home by {home}, where the ipyparallel controller does not listen; "
        "end it (%dist_ipyparallel --stop) and begin again"
    )


def _find_home(host: HostRecord) -> tuple[str, str]:
    """Return the address of this machine by which a host reaches it; or say why that is no use."""
    home = host.joined.home_address if host.joined is not None else ""
    if host.spec.tunnel:
        return "", (
            "reached through an ssh tunnel, which leads to the coordinator but not to an "
            "ipyparallel controller; start the cluster without --tunnel"
        )
    if ":" in home:
        return "", (
            f"came home by {home}, and ipyparallel speaks IPv4 only; start the cluster with "
            "--interface and an interface that has an IPv4 address"
        )
    return home or LOOPBACK, ""
