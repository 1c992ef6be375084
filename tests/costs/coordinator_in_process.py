"""A whole coordinator in this process, with its real routers around sockets that only keep frames.

Agents, ranks and clients are what a test says; what they say goes through the dispatch and the
codecs that real sockets call. Time goes by only when a test says so.
"""

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from math import inf
from types import SimpleNamespace
from unittest import mock

import zmq

from jupyter_dist.control import frames, heartbeat
from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.keys import make_cluster_keys
from jupyter_dist.control.ledger import Ledger, read_stamp
from jupyter_dist.control.poller import Waker
from jupyter_dist.control.relay.engine_router import EngineRouter
from jupyter_dist.control.relay.envelope import Letter, is_relay, pack, unpack
from jupyter_dist.control.router import Router
from jupyter_dist.coordinator import coordinator as loop
from jupyter_dist.coordinator.agents.agent_sessions import HostsHeard
from jupyter_dist.coordinator.coordinator import Coordinator
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.protocol import codec
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.identity import line_identity
from jupyter_dist.protocol.messages import Message
from jupyter_dist.version import WIRE
from tests.costs.steps import uncounted

CLIENT = line_identity("client-1-00000000", 1)
RANKS_PER_HOST = 8


class Peer:
    """One peer of a router: it keeps a ledger, as a dealer with an identity does."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def say(self, message: Message, buffers: Sequence[bytes] = ()) -> list[bytes]:
        with uncounted():
            return self.ledger.enter(codec.encode(message, buffers))

    def hear(self, frames: Sequence[bytes]) -> None:
        with uncounted():
            stamp = read_stamp(bytes(frames[0]))
            assert stamp is not None
            self.ledger.take(stamp)


class KeepingSocket:
    """A ROUTER without a network: what is sent is counted, what comes is put in by tests."""

    def __init__(self, answer=None) -> None:
        self.arrived: deque[list[bytes]] = deque()
        self.peers: dict[bytes, Peer] = {}
        self.moved_bytes = 0
        self._answer = answer
        self._rest: deque[bytes] = deque()
        self._begun: list[bytes] = []
        self._letters: dict[bytes, tuple[list[Letter], list[bytes]]] = {}

    def setsockopt(self, *_option: object) -> None: ...

    @property
    def has_arrived(self) -> bool:
        """There is something to receive."""
        return bool(self._rest or self.arrived)

    def put(self, identity: bytes, message: Message, buffers: Sequence[bytes] = ()) -> None:
        """Let a peer say something."""
        peer = self.peers.setdefault(identity, Peer())
        self.arrived.append([identity, *peer.say(message, buffers)])

    def put_letter(
        self, relay: bytes, name: bytes, message: Message, buffers: Sequence[bytes] = ()
    ) -> None:
        """Let a relay say something of a rank, with what else it says of the same host's."""
        first, body, *own = self.peers.setdefault(name, Peer()).say(message, buffers)
        letters, others = self._letters.setdefault(relay, ([], []))
        letters.append(Letter([name], [first], body, len(own)))
        others.extend(own)

    def close_envelopes(self) -> None:
        """Let what relays say arrive, in one envelope of each."""
        with uncounted():
            self.arrived.extend(
                [relay, *pack(letters, buffers)]
                for relay, (letters, buffers) in self._letters.items()
            )
        self._letters.clear()

    def recv(self, flags: int, copy: bool) -> SimpleNamespace:
        assert not copy
        if not self._rest:
            self._rest = deque(self.arrived.popleft())
        frame = self._rest.popleft()
        self.moved_bytes += len(frame)
        return SimpleNamespace(bytes=frame, buffer=frame, more=len(self._rest) > 0)

    def recv_multipart(self, _flags: int = 0) -> list[bytes]:
        if not self.arrived:
            raise zmq.Again
        return self.arrived.popleft()

    def send(self, frame: bytes, flags: int, copy: bool) -> None:
        self._begun.append(frame)
        if not flags:
            frames, self._begun = self._begun, []
            self.send_multipart(frames)

    def send_multipart(self, frames: Sequence[bytes], *_flags: object) -> None:
        identity, *rest = frames
        self.moved_bytes += sum(memoryview(frame).nbytes for frame in rest)
        if self._answer is not None:
            self._answer(self, frames)
        elif is_relay(identity):
            with uncounted():
                self._hand_out(rest)
        elif identity in self.peers:
            self.peers[identity].hear(rest)

    def _hand_out(self, frames: Sequence[bytes]) -> None:
        head = [bytes(frame) for frame in frames[:2]]
        for letter, _ in unpack(head, list(frames[2:])):
            for name, first in zip(letter.names, letter.firsts, strict=True):
                if name in self.peers:
                    self.peers[name].hear([first, letter.body])

    def close(self, _linger_ms: int = 0) -> None: ...


class Agents:
    """The agents of all hosts; what they are told is counted."""

    def __init__(self) -> None:
        self.waker = Waker()
        self.arrived: deque[tuple[str, pb.AgentEvent | None]] = deque()
        self.told: list[tuple[str, pb.AgentCommand]] = []
        self.moved_bytes = 0
        self.is_telemetry_awaited = self.are_away = False
        """All connections are broken."""
        self.left: frozenset[str] = frozenset()

    def put(self, host: str, **event: object) -> None:
        """Let the agent of a host say something."""
        self.arrived.append((host, pb.AgentEvent(**event)))

    def receive(self) -> Iterator[tuple[str, pb.AgentEvent | None]]:
        while self.arrived:
            host, event = self.arrived.popleft()
            self.moved_bytes += event.ByteSize() if event is not None else 0
            yield host, event

    def send(self, host: str, command: pb.AgentCommand) -> bool:
        self.moved_bytes += command.ByteSize()
        self.told.append((host, command))
        if command.WhichOneof("command") == "stop":
            self.put(host, all_stopped=pb.AllStopped())
            self.waker.wake()
        return True

    def judge(self, _now_s: float, hosts_heard_s: HostsHeard) -> float:
        if self.are_away:
            hosts_heard_s()
        return inf

    def attends(self, _host: str) -> bool:
        return not self.are_away

    def why_gone(self, _host: str) -> str:
        return ""


class Arrivals:
    """Agents that have all been started."""

    job = None
    began_s = 0.0

    def describe_waiting(self, hosts: Sequence[str]) -> str:
        return f"waiting for {len(hosts)} hosts"

    def approach(self, _host: str) -> None: ...

    def problem(self, _missing: Sequence[str], _now_s: float) -> str:
        return ""

    def log_tail(self, _left: Sequence[str]) -> str:
        return ""


class InProcess:
    """One cluster of so many ranks on hosts of eight, and its clock."""

    def __init__(self, ranks: int) -> None:
        self.ranks = range(ranks)
        self.hosts = [f"h{number:04}" for number in range(ranks // RANKS_PER_HOST)]
        specs = tuple(HostSpec(name, slots=RANKS_PER_HOST, launcher="ssh") for name in self.hosts)
        spec = ClusterSpec(name="growth", hosts=specs, communicator="ring")
        keys = make_cluster_keys()
        self.engines, self.clients = KeepingSocket(), KeepingSocket()
        # The first two frames are an engine's echo, and a relay's word that all have answered.
        self.beats = KeepingSocket(answer=lambda socket, frames: socket.arrived.append(frames[:2]))
        self.agents = Agents()
        engines = EngineRouter(_Context(self.engines), "engines", keys.server)
        clients = Router(_Context(self.clients), "clients", keys.server, codec.from_client())
        monitor = HeartbeatMonitor(_Context(self.beats), "beats", keys.server, engines.relays)
        self.now_s = 1000.0
        self.coordinator = Coordinator(
            spec, engines, clients, monitor, self.agents, Arrivals(), keys.for_engine()
        )
        self._sources = (engines, clients, self.agents.waker)
        self._relays = engines.relays
        self.engine_names = [str(rank) for rank in self.ranks]
        """Of the engine that each rank has now."""

    @property
    def moved_bytes(self) -> int:
        """Bytes that engines, clients and agents have sent and been sent so far."""
        return sum(
            each.moved_bytes for each in (self.engines, self.clients, self.beats, self.agents)
        )

    def host_of(self, rank: int) -> str:
        return self.hosts[rank // RANKS_PER_HOST]

    def say(self, rank: int, message: Message, buffers: Sequence[bytes] = ()) -> None:
        """Let a rank say something, by its host's relay; it arrives with the next `take`."""
        name = self.engine_names[rank].encode()
        self.engines.put_letter(self._relays[name], name, message, buffers)

    def ask(self, message: Message, buffers: Sequence[bytes] = ()) -> None:
        """Let the client ask something."""
        self.clients.put(CLIENT, message, buffers)

    def take(self) -> None:
        """Let the loop take in all that has arrived, as often as it wakes for that."""
        self.engines.close_envelopes()
        while self.engines.arrived or self.clients.arrived:
            self.coordinator._take(self._sources, self.now_s)
        self.coordinator._take(self._sources, self.now_s)

    def advance(self, later_s: float = 0.0) -> None:
        """Let the fence go on, after some time."""
        self.now_s += later_s
        self.coordinator._scheduler.advance(self.now_s)

    def tick(self, later_s: float = 0.0) -> None:
        """Let the loop's tick come, after some time: of more than a second with heartbeats."""
        self.now_s += later_s
        # Else a round of them falls into one event or another, by how long all before took.
        self.coordinator._heartbeats.due_s = self.now_s if later_s > 1.0 else inf
        self.coordinator._tick(self.now_s, inf)

    def join_hosts(self) -> None:
        """Let the agent of each host say what that has."""
        for number, host in enumerate(self.hosts):
            address = f"10.0.{number // 250}.{number % 250 + 1}"
            interface = pb.Interface(
                name="eth0", address=address, prefix_length=16, speed_mbps=10_000
            )
            joined = pb.Joined(
                host=host,
                machine=f"machine-{number}",
                wire=WIRE,
                cpu_count=64,
                memory_total_bytes=1 << 40,
                interfaces=[interface],
                local_address=address,
                home_address="10.0.9.9",
            )
            self.agents.put(host, joined=joined)

    def close(self) -> None:
        self.agents.waker.close()


class _Context:
    """A context of ZeroMQ with one socket."""

    def __init__(self, socket: KeepingSocket) -> None:
        self._socket = socket

    def socket(self, _kind: int) -> KeepingSocket:
        return self._socket


def _find_ready(
    sockets: Sequence[tuple[KeepingSocket, int]], _within_ms: int
) -> list[KeepingSocket]:
    return [socket for socket, _events in sockets if socket.has_arrived]


@contextlib.contextmanager
def in_process(ranks: int) -> Iterator[InProcess]:
    """Return a cluster whose coordinator goes by the cluster's clock."""
    cluster = InProcess(ranks)

    def clock() -> float:
        return cluster.now_s

    with (
        mock.patch.object(frames, "zmq_poll", _find_ready),
        mock.patch.object(frames, "send_frame", KeepingSocket.send),
        mock.patch.object(heartbeat, "monotonic", clock),
        mock.patch.object(loop, "monotonic", clock),
    ):
        try:
            yield cluster
        finally:
            cluster.close()
