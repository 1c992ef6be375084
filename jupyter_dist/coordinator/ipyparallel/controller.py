"""The ipyparallel controller of a cluster: started when a client wants it, kept until it ends."""

import json
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, assert_never

from jupyter_dist.coordinator.clients.client_registry import ClientRegistry
from jupyter_dist.coordinator.ipyparallel.controller_process import ControllerProcess
from jupyter_dist.coordinator.ipyparallel.members import Members, choose_address
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Handlers, Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.frameworks.ipyparallel.controller_messages import (
    Failed,
    Registered,
    Serving,
    Told,
    Unregistered,
)
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, parse_ports
from jupyter_dist.model.spec.shutdown_time import CONTROLLER_END_S
from jupyter_dist.protocol.identity import client_of
from jupyter_dist.protocol.messages import (
    ControllerEnded,
    ControllerJoined,
    ControllerLeft,
    ControllerReady,
    EndController,
    FromBridge,
    StartController,
    TaskBegan,
    TaskEnded,
)
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import fit

LOOK_INTERVAL_S = 0.1
"""How often its process is looked at, which tells through a pipe."""
LEAVE_TIMEOUT_S = 2.0
USER_LEASE_S = 15.0
"""A client that has not shown itself for so long uses the controller no more."""
_NOBODY_LEFT = "every rank is lost; %dist_heal replaces them"


class _Wish(NamedTuple):
    """A request that is not answered yet."""

    client: bytes
    request_id: str
    deadline_s: float


class IpyparallelController:
    """Has every rank that is there be an engine of one controller, as long as anybody wants it."""

    def __init__(
        self,
        roster: Roster,
        rendezvous: Rendezvous,
        sender: Sender,
        spec: ClusterSpec,
        client_registry: ClientRegistry,
        start: Callable[[str, Sequence[int], int], ControllerProcess] = ControllerProcess,
    ) -> None:
        self._roster, self._sender, self._spec = roster, sender, spec
        self._client_registry, self._start_process = client_registry, start
        self._process: ControllerProcess | None = None
        self._members = Members(roster, rendezvous, sender, self._unregister)
        self._client_connection: dict[str, Any] = {}
        self._served_s = 0.0
        self._registration_s = 0.0
        """From its first moment until all ranks were registered for the first time; 0: not yet."""
        self._wishes: list[_Wish] = []
        self._end_wishes: list[_Wish] = []
        self._users: list[bytes] = []
        """Clients that have been given the connection, once for each time."""
        self._heard_s: dict[bytes, float] = {}
        """When each of them has shown itself last."""
        self._leaving_until_s = 0.0
        """It is being ended: engines have so long to leave; 0: it is not."""
        self._ending_until_s = 0.0

    def hear(self, client: bytes, now_s: float) -> None:
        """Note that a client is there."""
        if (user := client_of(client)) in self._users:
            self._heard_s[user] = now_s

    def on_engine(self, message: FromBridge, now_s: float) -> None:
        """Take in what an engine says of the controller and its tasks."""
        match message:
            case ControllerJoined():
                self._members.on_joined(message)
            case ControllerLeft():
                self._members.on_left(message)
            case TaskBegan():
                self._roster.start_task(message.rank, message.label, now_s - message.running_s)
            case TaskEnded():
                if cell_id := self._roster.end_task(message.rank):
                    owed = f"owed-{message.rank}-{cell_id}"
                    self._sender.send_signal([message.rank], signal.SIGINT, owed, cell_id)
            case _:
                assert_never(message)

    def tick(self, now_s: float) -> float:
        """Look after the process, the engines and those who wait; return when to look again."""
        if self._process is None:
            return NEVER
        process = self._process
        for told in process.hear():
            self._on_told(told, now_s)
        if not process.is_running:
            self._on_process_gone(process, now_s)
        elif self._leaving_until_s:
            self._go_on_ending(now_s)
        elif self._client_connection:
            self._members.tick()
        self._answer(now_s)
        return now_s + LOOK_INTERVAL_S

    def close(self) -> None:
        """End the controller with the cluster; its clients are told."""
        if self._process is not None:
            self._process.end()
            self._process.close(CONTROLLER_END_S)
            self._process = None

    # --- beginning ---

    def handlers(self) -> Handlers:
        """Return what takes which message."""
        return {StartController: self.on_start, EndController: self.on_end}

    def on_start(self, client: bytes, message: StartController, now_s: float) -> None:
        """Take in that a client wants the controller; it is answered once all ranks have joined."""
        if not self._client_registry.has_been_ready:
            self._refuse(client, message.request_id, "the cluster is not ready yet")
            return
        if not self._roster.present_ranks():
            self._refuse(client, message.request_id, _NOBODY_LEFT)
            return
        if self._process is not None and not self._process.is_running:
            self.tick(now_s)  # its end concerns those who wait already, not who asks for the next
        self._wishes.append(_Wish(client, message.request_id, now_s + message.timeout_s))
        self._members.try_again()
        if self._process is None:
            self._begin()

    def _begin(self) -> None:
        present = [self._roster[rank] for rank in self._roster.present_ranks()]
        hosts = {engine.info.host: self._roster.hosts[engine.info.host] for engine in present}
        self._address, problem = choose_address(hosts.values())
        if problem:
            self._refuse_all(f"not all hosts can reach a controller: {problem}")
            return
        ports = parse_ports(self._spec.ports) if self._spec.ports else ()
        try:
            self._process = self._start_process(self._address, ports, len(present))
        except OSError as error:
            self._refuse_all(f"its process cannot be started: {error}")
        else:
            self._members.prepare()

    def _on_told(self, told: Told, now_s: float) -> None:
        match told:
            case Serving():
                assert self._process is not None
                self._client_connection = {
                    **told.client,
                    "pid": self._process.pid,
                    "address": self._address,
                }
                self._members.open(told.engine, self._address)
                self._served_s = now_s
            case Registered():
                self._members.on_registered(told.rank)
            case Unregistered():
                self._members.on_unregistered(told.ranks)
            case Failed():
                self._refuse_all(told.problem)  # it ends on its own then
            case _:
                assert_never(told)

    def _answer(self, now_s: float) -> None:
        """Tell those who wait that all ranks have joined, or who has not and why."""
        if not self._wishes or self._leaving_until_s:
            return
        awaited, problems = self._members.awaited_ranks, self._members.problems
        has_ranks = bool(self._roster.present_ranks())
        if self._client_connection and has_ranks and not awaited and not problems:
            self._registration_s = self._registration_s or now_s - self._served_s
            facts = {**self._client_connection, "registration_s": self._registration_s}
            connection = json.dumps(facts).encode()
            ranks = tuple(self._members.joined_ranks)
            for wish in self._wishes:
                self._users.append(client_of(wish.client))
                self.hear(wish.client, now_s)
                ready = ControllerReady(wish.request_id, connection, ranks)
                self._sender.to_client(wish.client, ready)
            self._wishes.clear()
            return
        is_hopeless = not has_ranks or (problems and not awaited)
        given_up = [wish for wish in self._wishes if is_hopeless or wish.deadline_s <= now_s]
        if not given_up:
            return
        reason = _explain(awaited, problems) if self._client_connection else "it does not answer"
        reason = reason if has_ranks else _NOBODY_LEFT
        self._refuse_all(reason, given_up)
        if not self._wishes and not self._users:
            self._end(now_s)

    # --- ending ---

    def on_end(self, client: bytes, message: EndController, now_s: float) -> None:
        """Take in that a client wants the controller no longer."""
        with suppress(ValueError):
            self._users.remove(client_of(client))
        self._users = [user for user in self._users if now_s - self._heard_s[user] < USER_LEASE_S]
        is_wanted = message.is_left_to_others and (self._users or self._wishes)
        if self._process is None or is_wanted:
            self._sender.to_client(client, ControllerEnded(message.request_id, was_running=False))
            return
        self._end_wishes.append(_Wish(client, message.request_id, now_s))
        self._end(now_s)

    def _end(self, now_s: float) -> None:
        if not self._leaving_until_s:
            self._users.clear()
            self._leaving_until_s = now_s + LEAVE_TIMEOUT_S
            self._members.leave_all()

    def _go_on_ending(self, now_s: float) -> None:
        assert self._process is not None
        if self._ending_until_s:
            if now_s > self._ending_until_s:
                self._process.close()
        elif now_s > self._leaving_until_s or not self._members.has_any:
            self._ending_until_s = now_s + CONTROLLER_END_S
            self._process.end()

    def _on_process_gone(self, process: ControllerProcess, now_s: float) -> None:
        """Take in that the process has ended, as it was told or not."""
        if not self._leaving_until_s:
            self._members.leave_all()
            self._refuse_all(process.explain())
        process.close()
        self._process = None
        self._client_connection = {}
        self._registration_s = 0.0
        self._members.forget_all()
        self._users.clear()
        self._leaving_until_s = self._ending_until_s = 0.0
        for wish in self._end_wishes:
            ended = ControllerEnded(wish.request_id, was_running=True)
            self._sender.to_client(wish.client, ended)
        self._end_wishes.clear()
        late = [wish for wish in self._wishes if wish.deadline_s <= now_s]
        self._refuse_all("the one before did not end in time", late)
        if self._wishes:  # someone has asked for one while this one ended
            self._begin()

    def _unregister(self, ranks: list[int]) -> None:
        if self._process is not None:
            self._process.unregister(ranks)

    def _refuse_all(self, reason: str, wishes: Sequence[_Wish] | None = None) -> None:
        """Refuse these wishes, or all."""
        refused = self._wishes if wishes is None else wishes
        self._wishes = [wish for wish in self._wishes if wish not in refused]
        for wish in refused:
            self._refuse(wish.client, wish.request_id, reason)

    def _refuse(self, client: bytes, request_id: str, reason: str) -> None:
        text = f"there is no ipyparallel controller: {reason}"
        self._sender.refuse(client, request_id, ErrorCode.FRAMEWORK_ERROR, text)


def _explain(awaited: Sequence[int], problems: dict[int, str]) -> str:
    """Return who is no engine of the controller, and why."""
    by_problem = group_pairs((problem, rank) for rank, problem in sorted(problems.items()))
    told = [f"{name_ranks(ranks)}: {problem}" for problem, ranks in by_problem.items()]
    if awaited:
        verb = fit(awaited, "has", "have")
        told.append(
            f"{name_ranks(awaited)} {verb} not joined in time (is the rank stuck, or just being "
            "replaced? %dist_status shows it)"
        )
    return "; ".join(told)
