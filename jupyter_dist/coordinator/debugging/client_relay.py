"""Debuggers of ranks: between each rank that has one, and the client that has asked for it."""

from dataclasses import dataclass

from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import EngineRecord, Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.identity import client_of
from jupyter_dist.protocol.messages import (
    CloseDap,
    DapEnded,
    DapLeft,
    DapSaid,
    DapSpoke,
    EndDap,
    FromDap,
    HearDap,
    OpenDap,
    StartDap,
    TellDap,
    ToEngine,
)

FromDapClient = OpenDap | TellDap | CloseDap
CLIENT_LEASE_S = 10.0
"""A client that has been silent for this time is gone: its ranks go on."""


@dataclass
class _Session:
    line: bytes
    request_id: str
    rank: int
    heard_s: float

    @property
    def name(self) -> str:
        return f"{self.line.decode(errors='replace')}/{self.request_id}"


class DebuggerRelay:
    """Has one client at most for each process of a rank."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster, self._sender = roster, sender
        self.sessions: dict[str, _Session] = {}
        """By the name of the engine."""

    # --- clients ---

    def hear(self, line: bytes, now_s: float) -> None:
        """Note that a client is there."""
        for session in self.sessions.values():
            if client_of(session.line) == client_of(line):
                session.heard_s = now_s

    def on_request(self, line: bytes, message: FromDapClient, now_s: float) -> None:
        """Load a debugger, hand it a message, or take it out again; it tells when it has gone."""
        found = self._find(line, message.request_id)
        if isinstance(message, OpenDap):
            self._open(line, message, now_s)
        elif found is not None:  # else DapEnded has told
            rank, session = found
            order: ToEngine = EndDap(session)
            if isinstance(message, TellDap):
                order = HearDap(session, message.content)
            self._sender.to_engine(rank, order)

    def _open(self, line: bytes, request: OpenDap, now_s: float) -> None:
        if problem := self._find_problem(request.rank):
            self._sender.refuse(line, request.request_id, ErrorCode.USAGE_ERROR, problem)
            return
        engine = self._roster[request.rank]
        session = _Session(line, request.request_id, request.rank, now_s)
        self.sessions[engine.name] = session
        self._sender.to_engine(request.rank, StartDap(session.name))

    def _find_problem(self, rank: int) -> str:
        if not 0 <= rank < self._roster.world_size:
            return f"rank {rank}: this cluster has ranks 0-{self._roster.world_size - 1}."
        engine = self._roster[rank]
        if not engine.is_present:
            return f"rank {rank} is not there: {engine.reason or engine.state.value}."
        other = self.sessions.get(engine.name)
        if other is not None:
            who = client_of(other.line).decode(errors="replace")
            return f"rank {rank} has a debugger already, of {who}: disconnect that one first."
        return ""

    def _find(self, line: bytes, request_id: str) -> tuple[int, str] | None:
        """Return the rank and the name of a session whose process is there."""
        for name, session in self.sessions.items():
            if (session.line, session.request_id) == (line, request_id):
                engine = self._roster.find(name)
                is_there = engine is not None and engine.is_present
                return (engine.info.rank, session.name) if engine and is_there else None
        return None

    # --- ranks ---

    def on_engine(self, engine: EngineRecord, message: FromDap) -> None:
        """Tell the client what its debugger says, or that it is gone."""
        session = self.sessions.get(engine.name)
        if session is None or session.name != message.session:
            return  # of a client that has gone
        if isinstance(message, DapSaid):
            spoke = DapSpoke(session.request_id, message.content)
            self._sender.to_client(session.line, spoke)
        elif isinstance(message, DapLeft):
            self._end(engine.name, message.problem)

    def tick(self, now_s: float) -> None:
        """Let go of ranks whose client is gone, and tell clients whose rank is gone."""
        for name, session in tuple(self.sessions.items()):
            engine = self._roster.find(name)
            if engine is None:
                self._end(name, f"rank {session.rank} was replaced by a new process")
            elif not engine.is_present:
                is_lost = engine.state is EngineState.LOST
                how = f"is lost: {engine.reason}" if is_lost else "has ended"
                self._end(name, f"rank {session.rank} {how}")
            elif now_s - session.heard_s > CLIENT_LEASE_S:
                del self.sessions[name]
                self._sender.to_engine(engine.info.rank, EndDap(session.name))

    def close_all(self) -> None:
        """Have all ranks go on: the cluster ends."""
        for name, session in self.sessions.items():
            engine = self._roster.find(name)
            if engine is not None and engine.is_present:
                self._sender.to_engine(engine.info.rank, EndDap(session.name))

    def _end(self, engine: str, reason: str) -> None:
        session = self.sessions.pop(engine)
        ended = DapEnded(session.request_id, session.rank, reason)
        self._sender.to_client(session.line, ended)
