"""Code on its way to the hosts: passed on to their agents unread, and their answers gathered.

One sync at a time: the code directory is one, and a client that went away in the middle must not
be in the way of the next.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.transfer.code_manifest import CHUNK_BYTES
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    CodeCommitted,
    CodeLacking,
    CodeRequest,
    CodeTaken,
    CommitCode,
    SendCode,
    SyncCode,
)

_LARGEST_CHUNK_BYTES = 2 * CHUNK_BYTES - 4096
"""Of what gRPC takes, with the rest of its message."""
_GONE = "its agent is gone"


@dataclass
class _Step:
    """What several hosts do at once; `answer` tells the client when all have."""

    waiting: set[str]
    answer: Callable[[Mapping[str, str]], None]
    """Takes the hosts that could not, with the reason."""
    problems: dict[str, str] = field(default_factory=dict)

    def note(self, host: str, problem: str = "") -> None:
        """Note that a host has answered, or will not."""
        if host in self.waiting:
            self.waiting.discard(host)
            if problem:
                self.problems[host] = problem
            self.answer_if_done()

    def answer_if_done(self) -> None:
        """Tell the client, unless a host is still waited for."""
        if not self.waiting:
            self.answer(self.problems)


@dataclass
class _Sync:
    client: bytes
    request_id: str
    hosts: list[str]
    """Those that take part."""
    steps: dict[str | int, _Step] = field(default_factory=dict)
    """By what agents answer; for chunks that not every host has taken yet, by their numbers."""
    lacks: dict[str, bytes] = field(default_factory=dict)
    """What each host lacks, as its agent gives it."""
    settled: dict[str, pb.CodeCommitted] = field(default_factory=dict)

    @property
    def agents_id(self) -> str:
        """Name of the sync for the agents: request ids are a client's own."""
        return f"{self.client.hex()}-{self.request_id}"

    def begin(self, answered_by: str | int, step: _Step) -> None:
        """Wait for the hosts of a step; without any the client is told at once."""
        self.steps[answered_by] = step
        step.answer_if_done()


class CodeSync:
    """The present sync, if there is one. Nothing here waits for ranks."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster = roster
        self._sender = sender
        self._sync: _Sync | None = None

    # --- what the client asks for ---

    def on_request(
        self, client: bytes, request: CodeRequest, buffers: Sequence[Frame], _now_s: float
    ) -> None:
        """Pass a step of a sync on to the agents."""
        if problem := _find_mistake(request, buffers):
            self._sender.refuse(client, request.request_id, ErrorCode.USAGE_ERROR, problem)
            return
        if isinstance(request, SyncCode):
            self._begin(client, request, bytes(buffers[0]))
            return
        sync = self._sync
        if sync is None or (sync.client, sync.request_id) != (client, request.request_id):
            self._refuse(client, request.request_id)
        elif isinstance(request, SendCode):
            self._pass_on(sync, request, bytes(buffers[0]))
        else:
            self._settle(sync, request)

    def _begin(self, client: bytes, request: SyncCode, manifest: bytes) -> None:
        if self._sync is not None:
            self._refuse(self._sync.client, self._sync.request_id)
        names = list(self._roster.hosts)
        sync = _Sync(client, request.request_id, names)
        for start in range(0, len(manifest), CHUNK_BYTES):
            end = start + CHUNK_BYTES
            part = pb.CodeManifest(
                request_id=sync.agents_id,
                data=manifest[start:end],
                is_last=end >= len(manifest),
            )
            sync.hosts = self._send_to(sync.hosts, pb.AgentCommand(code_manifest=part))
        absent = tuple(name for name in names if name not in sync.hosts)
        self._sync = sync
        step = _Step(set(sync.hosts), partial(self._answer_lacking, sync, absent))
        sync.begin("code_lacks", step)

    def _pass_on(self, sync: _Sync, request: SendCode, data: bytes) -> None:
        chunk = pb.CodeChunk(request_id=sync.agents_id, number=request.number, data=data)
        known = [host for host in request.hosts if host in sync.hosts]
        reached = self._send_to(known, pb.AgentCommand(code_chunk=chunk))
        gone = {host: _GONE for host in request.hosts if host not in reached}
        step = _Step(set(reached), partial(self._answer_taken, sync, request.number), gone)
        sync.begin(request.number, step)

    def _settle(self, sync: _Sync, request: CommitCode) -> None:
        command = pb.CommitCode(request_id=sync.agents_id, is_wanted=request.is_wanted)
        reached = self._send_to(sync.hosts, pb.AgentCommand(commit_code=command))
        if not request.is_wanted:
            self._sync = None
            return
        gone = {host: _GONE for host in sync.hosts if host not in reached}
        step = _Step(set(reached), partial(self._answer_settled, sync), gone)
        sync.begin("code_committed", step)

    def _send_to(self, hosts: Sequence[str], command: pb.AgentCommand) -> list[str]:
        """Send to these hosts' agents; give the hosts that have one."""
        return [host for host in hosts if self._sender.to_agent(host, command)]

    def _refuse(self, client: bytes, request_id: str) -> None:
        reason = "another sync of this cluster has begun meanwhile. Sync again when it has ended."
        self._sender.refuse(client, request_id, ErrorCode.DIST_ERROR, reason)

    # --- what agents answer ---

    def on_event(self, host: str, event: pb.AgentEvent, _now_s: float) -> None:
        """Take in an agent's answer; one about an older sync is dropped."""
        sync, kind = self._sync, event.WhichOneof("event") or ""
        answer: pb.CodeLacks | pb.CodeTaken | pb.CodeCommitted = getattr(event, kind)
        if sync is None or answer.request_id != sync.agents_id:
            return
        answered: str | int = kind
        if isinstance(answer, pb.CodeTaken):
            answered = answer.number
        elif isinstance(answer, pb.CodeLacks):
            sync.lacks[host] = answer.indices
        else:
            sync.settled[host] = answer
        if (step := sync.steps.get(answered)) is not None:
            step.note(host, answer.problem)

    def on_gone(self, host: str) -> None:
        """Take in that an agent is gone: nothing waits for it."""
        for step in list(self._sync.steps.values()) if self._sync is not None else ():
            step.note(host, _GONE)

    # --- what the client is told ---

    def _answer_lacking(
        self, sync: _Sync, absent: tuple[str, ...], problems: Mapping[str, str]
    ) -> None:
        hosts = tuple(host for host in sync.hosts if host not in problems)
        answer = CodeLacking(sync.request_id, hosts, dict(problems), absent)
        self._sender.to_client(sync.client, answer, [sync.lacks[host] for host in hosts])

    def _answer_taken(self, sync: _Sync, number: int, problems: Mapping[str, str]) -> None:
        del sync.steps[number]
        answer = CodeTaken(sync.request_id, number, dict(problems))
        self._sender.to_client(sync.client, answer)

    def _answer_settled(self, sync: _Sync, problems: Mapping[str, str]) -> None:
        stale: dict[str, tuple[str, ...]] = {}
        for host, settled in sync.settled.items():
            for module in settled.stale:
                stale[module] = (*stale.get(module, ()), host)
        removed = max((settled.removed for settled in sync.settled.values()), default=0)
        answer = CodeCommitted(sync.request_id, removed, stale, dict(problems))
        self._sender.to_client(sync.client, answer)
        self._sync = None


def _find_mistake(request: CodeRequest, buffers: Sequence[Frame]) -> str:
    """Return why a request cannot be meant; our own clients check before they send."""
    expected = 0 if isinstance(request, CommitCode) else 1
    if len(buffers) != expected:
        return f"{expected} frames were expected, {len(buffers)} came."
    size = memoryview(buffers[0]).nbytes if buffers else 0
    if not size and expected:
        return "an empty frame came."
    if isinstance(request, SendCode) and size > _LARGEST_CHUNK_BYTES:
        return f"a chunk of {size} bytes came; accepted are {_LARGEST_CHUNK_BYTES}."
    return ""
