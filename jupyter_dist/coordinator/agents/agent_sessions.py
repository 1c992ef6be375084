"""Which agents attend, and which are gone: a connection that broke is no proof of that."""

import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Protocol

from jupyter_dist.coordinator.agents.admission import NotAdmitted
from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.state.clock import NEVER, TICK_S
from jupyter_dist.launch.processes.process_life import (
    await_end,
    process_is_stopped,
    process_lives,
)
from jupyter_dist.probe.host_report import machine_id
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.conversation import Conversation

HostsHeard = Callable[[], Mapping[str, float]]
"""Tells when a rank of each host was heard last, in seconds; only asked where that counts."""
_EARLIER_S = 0.5
"""So long before the heartbeats of its ranks an agent is given up."""
_LOOK_INTERVAL_S = 0.9
"""At least, between two looks at the process of an agent: each round of heartbeats has one."""


class Stream(Protocol):
    """A connection of an agent."""

    def cancel(self) -> object:
        """Break it."""


class Session:
    """One agent: who it is, what was said, and since when its connection is broken."""

    def __init__(self, host: str, names: Sequence[bytes]) -> None:
        self.host = host
        self.names = frozenset(names)
        """Common names of its certificate."""
        self.secret = secrets.token_hex(16)
        self.conversation = Conversation(pb.AgentCommand)
        self.heard_s = monotonic()
        self.broken_s: float | None = None
        self.pid = 0
        """Of its process, where this machine can see that; else 0."""
        self.stream: Stream | None = None
        """The newest."""
        self.stopped_since_s: float | None = None
        """Since when its process was seen to stand still."""
        self.look_due_s = 0.0
        """When that is looked at next."""

    def find_process(self, joined: pb.Joined) -> None:
        """Remember the agent's process when it is one of this machine."""
        if joined.machine == machine_id() and _is_agent(joined.pid):
            self.pid = joined.pid


class Sessions:
    """Every agent that was admitted and is not gone; from threads of streams and the loop."""

    def __init__(
        self,
        put: Callable[[str, pb.AgentEvent | None], None],
        witness: Arrivals,
        lost_after_s: float,
        silence_s: float,
        stopped_s: float = math.inf,
    ) -> None:
        """Give agents up after `lost_after_s`; a stream has broken after `silence_s` at most.

        Streams whose ends do not ping each other are broken from here, where the process of an
        agent on this machine has been stopped for `stopped_s`.
        """
        self._put = put
        self._witness = witness
        self._lost_after_s, self._silence_s, self._stopped_s = lost_after_s, silence_s, stopped_s
        self._lock = threading.RLock()
        self._sessions: dict[str, Session] = {}
        self._leaving: list[int] = []
        """Processes of agents on this machine that have said their last."""
        self._left: set[str] = set()
        """Hosts whose agents have done so."""
        self.why_gone: dict[str, str] = {}
        """How it is known of hosts that their agents are gone; not of those that were seen to."""

    def open(self, host: str, names: Sequence[bytes]) -> Session:
        """Begin with a new agent; one that the host had before is of no use any more."""
        session = Session(host, names)
        with self._lock:
            before = self._sessions.get(host)
            if before is not None:
                before.conversation.end()
            self._sessions[host] = session
            self.why_gone.pop(host, None)
            self._left.discard(host)
        admitted = pb.Admitted(host=host, session=session.secret)
        session.conversation.say(pb.AgentCommand(admitted=admitted))
        return session

    def find(self, secret: str, names: Sequence[bytes]) -> Session:
        """Return the session that goes on.

        Raises NotAdmitted when it was given up, or belongs to another certificate.
        """
        with self._lock:
            for session in self._sessions.values():
                is_named = secrets.compare_digest(session.secret, secret)
                if is_named and session.names == frozenset(names):
                    return session
        raise NotAdmitted("this agent was given up, and its ranks with it")

    def connect(self, session: Session, first: pb.AgentEvent, stream: Stream) -> int:
        """Let a session go on over a new stream; return the number of the connection."""
        connection = session.conversation.connect()
        with self._lock:
            session.broken_s = session.stopped_since_s = None
            session.stream = stream
        self.take(session, connection, first)
        return connection

    def take(self, session: Session, connection: int, event: pb.AgentEvent) -> None:
        """Take in what has come over a connection, unless it came before."""
        with self._lock:  # one after the other, also where two streams meet
            if event.WhichOneof("event") == "joined":
                session.find_process(event.joined)
            if not session.conversation.take(connection, event):
                return
            session.heard_s = monotonic()
            if self._sessions.get(session.host) is not session:
                return  # the host has another agent by now
            if event.WhichOneof("event") is not None:
                self._put(session.host, event)
            if event.is_last:
                self._leaving.append(session.pid)
                self._left.add(session.host)
                self._finish(session)

    def on_break(self, session: Session, connection: int, now_s: float) -> None:
        """Take in that a stream has ended; the agent may come back over another one."""
        with self._lock:
            if session.conversation.disconnect(connection):
                session.broken_s = now_s

    def judge(self, now_s: float, hosts_heard_s: HostsHeard) -> float:
        """Tell of agents that are gone: known to have ended, or away for too long.

        `hosts_heard_s` tells when a rank of each host was heard last: while an agent has nothing
        to say, only that shows when a break of the network began. Returns when to look again: soon,
        as long as a connection is broken.
        """
        due_s = NEVER
        with self._lock:
            if self._stopped_s < math.inf:
                looks_s = [self._look_at(each, now_s) for each in self._sessions.values()]
                due_s = min(looks_s, default=NEVER)
            away = [each for each in self._sessions.values() if each.broken_s is not None]
            heard_s = hosts_heard_s() if away else {}
            for session in away:
                away_since_s = self._away_since_s(session, heard_s.get(session.host, 0.0))
                if self._has_ended(session):
                    self._finish(session)
                elif now_s >= away_since_s + max(0.0, self._lost_after_s - _EARLIER_S):
                    away_s = now_s - away_since_s
                    self._finish(session, f"not heard for {away_s:.1f} s")
                else:
                    due_s = min(due_s, now_s + TICK_S)
        return due_s

    def _look_at(self, session: Session, now_s: float) -> float:
        """Break the stream of a process that stands still: its kernel takes in what is sent.

        Return when that is to be looked at again, where it stands still.
        """
        if session.stream is None or session.broken_s is not None or not session.pid:
            return NEVER
        if now_s >= session.look_due_s:
            session.look_due_s = now_s + _LOOK_INTERVAL_S
            if not process_is_stopped(session.pid):
                session.stopped_since_s = None
            elif session.stopped_since_s is None:
                session.stopped_since_s = now_s
                session.look_due_s = now_s + self._stopped_s
            else:
                session.stream.cancel()
        return NEVER if session.stopped_since_s is None else session.look_due_s

    def _away_since_s(self, session: Session, ranks_heard_s: float) -> float:
        assert session.broken_s is not None
        heard_s = min(ranks_heard_s, session.broken_s)
        return max(session.heard_s, heard_s, session.broken_s - self._silence_s)

    def _has_ended(self, session: Session) -> bool:
        if session.pid:
            return not process_lives(session.pid)
        return self._witness.has_ended(session.host)

    def _finish(self, session: Session, why: str = "") -> None:
        session.conversation.end()
        if self._sessions.get(session.host) is session:
            del self._sessions[session.host]
            if why:
                self.why_gone[session.host] = why
            self._put(session.host, None)

    @property
    def left(self) -> frozenset[str]:
        """Hosts whose agents have said their last, also where the loop has just heard it."""
        with self._lock:
            return frozenset(self._left)

    def attends(self, host: str) -> bool:
        """Return whether the agent of a host is connected."""
        with self._lock:
            session = self._sessions.get(host)
            return session is not None and session.broken_s is None

    def say(self, host: str, command: pb.AgentCommand) -> bool:
        """Send a command; returns False when there is no agent to have it."""
        with self._lock:
            session = self._sessions.get(host)
        if session is None:
            return False
        session.conversation.say(command)
        return True

    def await_ends(self, timeout_s: float) -> None:
        """Wait until the processes of agents that have said their last have ended.

        Only those of this machine are known; nothing is done to one that does not end.
        """
        with self._lock:  # who has just said it is on the list then
            leaving = tuple(self._leaving)
        deadline_s = monotonic() + timeout_s
        for pid in leaving:
            await_end(pid, deadline_s - monotonic())

    def end(self) -> None:
        """End all streams, when what was said has been sent."""
        with self._lock:
            for session in self._sessions.values():
                session.conversation.end()


def _is_agent(pid: int) -> bool:
    """Return whether this is a process of jupyter-dist: in a container numbers mean others."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"jupyter_dist" in file.read()
    except OSError:
        return False
