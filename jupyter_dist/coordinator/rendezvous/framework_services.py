"""Helper processes of frameworks: one for all ranks that want the same in one generation."""

from dataclasses import dataclass
from itertools import count

import msgspec

from jupyter_dist.coordinator.rendezvous.store import Store
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import RequestService, ServiceFound, service_key

_KEPT_GENERATIONS = 2
"""Of each service: ranks may still have connections to the one before the present."""


@dataclass
class _Process:
    """One that was asked for; it is forgotten when it is known not to live."""

    host: str
    service: str
    generation: int
    key: str
    """Under which ranks look for its address."""
    ports: frozenset[int]
    """At which it was to listen, or listens."""
    is_up: bool = False


class FrameworkServices:
    """Has agents start and end them; their addresses become values."""

    def __init__(self, roster: Roster, values: Store, sender: Sender) -> None:
        self._roster = roster
        self._store = values
        self._sender = sender
        self._numbers = count(1)
        self._processes: dict[str, _Process] = {}
        """By the id of their request."""

    def on_want(self, message: RequestService) -> None:
        """Have it started, unless it is; a rank that was told of a failure may try again."""
        key = service_key(message.service, message.at_rank, message.bind)
        wanted = (message.generation, key)
        if any((each.generation, each.key) == wanted for each in self._processes.values()):
            return
        if not self._store.withdraw(message.generation, key, message.rank):
            return
        if not 0 <= message.at_rank < self._roster.world_size:
            what = f"there is no rank {message.at_rank} to start the {message.service} service at"
            self._fail(message.generation, key, what)
            return
        request_id = f"service-{next(self._numbers)}"
        host = self._roster[message.at_rank].info.host
        command = pb.StartService(
            request_id=request_id,
            service=message.service,
            bind=message.bind,
            world_size=self._roster.world_size,
        )
        ports = _read_ports(message.bind)
        self._end_old(message.service, message.generation)
        self._make_room(host, message.service, ports)
        if self._sender.to_agent(host, pb.AgentCommand(start_service=command)):
            process = _Process(host, message.service, message.generation, key, ports)
            self._processes[request_id] = process
        else:
            self._fail(message.generation, key, _gone(host, message.service))

    def on_event(self, host: str, event: pb.AgentEvent, _now_s: float) -> None:
        """Take in that one serves, or why it does not."""
        started = event.service_started
        process = self._processes.get(started.request_id)
        if process is None or process.host != host:
            return
        if not started.problem:
            process.is_up = True
            process.ports |= _read_ports(started.address)
            found = ServiceFound(started.address)
            self._store.tell(process.generation, process.key, msgspec.msgpack.encode(found))
            return
        del self._processes[started.request_id]
        if process.is_up:  # it ended later; who wants it again gets another one
            self._store.withdraw(process.generation, process.key)
        else:
            self._fail(process.generation, process.key, f"host {host}: {started.problem}")

    def on_gone(self, host: str) -> None:
        """Take in that an agent is gone, and its helper processes with it."""
        for request_id, process in list(self._processes.items()):
            if process.host == host:
                del self._processes[request_id]
                self._fail(process.generation, process.key, _gone(host, process.service))

    def _fail(self, generation: int, key: str, problem: str) -> None:
        found = ServiceFound("", problem)
        self._store.tell(generation, key, msgspec.msgpack.encode(found))

    def _end_old(self, service: str, generation: int) -> None:
        """End those of this name that are older than the one before this generation."""
        alike = {
            request_id: process
            for request_id, process in self._processes.items()
            if process.service == service
        }
        generations = sorted({generation, *(each.generation for each in alike.values())})
        kept = generations[-_KEPT_GENERATIONS:]
        for request_id, process in alike.items():
            if process.generation not in kept:
                self._end(request_id, process)

    def _make_room(self, host: str, service: str, ports: frozenset[int]) -> None:
        """End one of before that listens where the next one is to listen."""
        for request_id, process in list(self._processes.items()):
            if (process.host, process.service) == (host, service) and process.ports & ports:
                self._end(request_id, process)

    def _end(self, request_id: str, process: _Process) -> None:
        del self._processes[request_id]
        end = pb.EndService(request_id=request_id)
        self._sender.to_agent(process.host, pb.AgentCommand(end_service=end))


def _read_ports(address: str) -> frozenset[int]:
    """Return the port of an address, after which a `/` and more may follow; none for any port."""
    port = address.partition("/")[0].rpartition(":")[2]
    return frozenset({int(port)} - {0} if port.isdecimal() else ())


def _gone(host: str, service: str) -> str:
    return f"the agent of host {host} is gone, and with it the {service} service"
