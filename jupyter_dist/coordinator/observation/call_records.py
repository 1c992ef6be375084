"""What ranks have recorded, on its way to clients: agents are asked, their answers gathered.

Nothing here waits for ranks: agents read the records of those that are stuck or lost as well.
"""

from dataclasses import dataclass, field

from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import CollectivesRead, ReadCollectives

PATIENCE_S = 5.0
"""Who has not answered after this time is named."""
_GONE = "its agent is gone"


@dataclass
class _Question:
    client: bytes
    request_id: str
    deadline_s: float
    waiting: set[str]
    problems: dict[str, str]
    pieces: dict[str, list[Frame]] = field(default_factory=dict)
    """What has come of each host, in order."""


class CallRecords:
    """Every question that is not answered yet."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster = roster
        self._sender = sender
        self._queries: dict[str, _Question] = {}
        """By the name that agents know: request ids are a client's own."""

    def on_request(self, client: bytes, request: ReadCollectives, now_s: float) -> None:
        """Ask every agent."""
        agents_id = f"{client.hex()}-{request.request_id}"
        command = pb.AgentCommand(
            read_records=pb.ReadRecords(request_id=agents_id, last=max(0, request.last))
        )
        hosts = list(self._roster.hosts)
        waiting = {host for host in hosts if self._sender.to_agent(host, command)}
        question = _Question(
            client,
            request.request_id,
            now_s + PATIENCE_S,
            waiting,
            {host: _GONE for host in hosts if host not in waiting},
        )
        self._queries[agents_id] = question
        self._answer_if_complete(agents_id)

    def on_event(self, host: str, event: pb.AgentEvent, now_s: float) -> None:
        """Take in a piece of an agent's answer; one that comes too late is dropped."""
        records = event.records
        question = self._queries.get(records.request_id)
        if question is None or host not in question.waiting:
            return
        question.pieces.setdefault(host, []).append(records.data)
        question.deadline_s = now_s + PATIENCE_S
        if records.is_last:
            question.waiting.discard(host)
            self._answer_if_complete(records.request_id)

    def on_gone(self, host: str) -> None:
        """Take in that an agent is gone: nobody waits for it."""
        for agents_id, question in list(self._queries.items()):
            if host in question.waiting:
                self._give_up(question, host, _GONE)
                self._answer_if_complete(agents_id)

    def tick(self, now_s: float) -> float:
        """Answer what agents have kept waiting for too long; return when that is due next."""
        for agents_id, question in list(self._queries.items()):
            if now_s >= question.deadline_s:
                for host in list(question.waiting):
                    late = f"its agent has not answered for {PATIENCE_S:g} s"
                    self._give_up(question, host, late)
                self._answer_if_complete(agents_id)
        return min((question.deadline_s for question in self._queries.values()), default=NEVER)

    @staticmethod
    def _give_up(question: _Question, host: str, problem: str) -> None:
        question.waiting.discard(host)
        question.pieces.pop(host, None)
        question.problems[host] = problem

    def _answer_if_complete(self, agents_id: str) -> None:
        question = self._queries[agents_id]
        if question.waiting:
            return
        del self._queries[agents_id]
        hosts = tuple(host for host in self._roster.hosts if host in question.pieces)
        pieces = [question.pieces[host] for host in hosts]
        counts = tuple(map(len, pieces))
        answer = CollectivesRead(question.request_id, hosts, counts, question.problems)
        frames = [frame for own in pieces for frame in own]
        self._sender.to_client(question.client, answer, frames)
