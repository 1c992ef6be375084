"""Code on its way to the hosts: passed on to their agents unread, and their answers gathered.

One sync at a time: the code directory is one, and a client that went away in the middle must not
be in the way of the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.model.manifest import CHUNK_BYTES
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    CodeLacking,
    CodeSettled,
    CodeTaken,
    Refused,
    SendCode,
    SettleCode,
    SyncCode,
)

CODE_EVENTS = frozenset({"code_lacks", "code_taken", "code_settled"})
_LARGEST_CHUNK_BYTES = 2 * CHUNK_BYTES - 4096
"""Of what gRPC takes, with the rest of its message."""
_GONE = "its agent is gone"


@dataclass
class _Step:
    """What several hosts do at once."""

    waiting: set[str]
    problems: dict[str, str] = field(default_factory=dict)


@dataclass
class _Sync:
    client: bytes
    request_id: str
    hosts: list[str]
    """Those that take part."""
    absent: tuple[str, ...]
    comparing: _Step
    lacks: dict[str, pb.CodeLacks] = field(default_factory=dict)
    chunks: dict[int, _Step] = field(default_factory=dict)
    """Those that not every host has taken yet, by number."""
    settling: _Step | None = None
    settled: dict[str, pb.CodeSettled] = field(default_factory=dict)

    @property
    def agents_id(self) -> str:
        """Name of the sync for the agents: request ids are a client's own."""
        return f"{self.client.hex()}-{self.request_id}"


class Syncing:
    """The present sync, if there is one. Nothing here waits for ranks."""

    def __init__(
        self, roster: Roster, outbox: Outbox, to_agent: Callable[[str, pb.AgentCommand], bool]
    ) -> None:
        self._roster = roster
        self._outbox = outbox
        self._to_agent = to_agent
        self._sync: _Sync | None = None

    # --- what the client asks for ---

    def on_request(
        self, client: bytes, request: SyncCode | SendCode | SettleCode, buffers: Sequence[Frame]
    ) -> None:
        """Pass a step of a sync on to the agents."""
        if problem := _find_mistake(request, buffers):
            self._outbox.to_client(client, Refused(request.request_id, "UsageError", problem))
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
        sync = _Sync(client, request.request_id, names, (), _Step(set()))
        for start in range(0, len(manifest), CHUNK_BYTES):
            end = start + CHUNK_BYTES
            part = pb.CodeManifest(
                request_id=sync.agents_id,
                data=manifest[start:end],
                is_last=end >= len(manifest),
            )
            sync.hosts = self._send_to(sync.hosts, pb.AgentCommand(code_manifest=part))
        sync.absent = tuple(name for name in names if name not in sync.hosts)
        sync.comparing.waiting = set(sync.hosts)
        self._sync = sync
        self._answer_lacking(sync)

    def _pass_on(self, sync: _Sync, request: SendCode, data: bytes) -> None:
        chunk = pb.CodeChunk(request_id=sync.agents_id, number=request.number, data=data)
        known = [host for host in request.hosts if host in sync.hosts]
        reached = self._send_to(known, pb.AgentCommand(code_chunk=chunk))
        step = _Step(set(reached))
        step.problems = {host: _GONE for host in request.hosts if host not in reached}
        sync.chunks[request.number] = step
        self._answer_taken(sync, request.number)

    def _settle(self, sync: _Sync, request: SettleCode) -> None:
        command = pb.SettleCode(request_id=sync.agents_id, is_wanted=request.is_wanted)
        reached = self._send_to(sync.hosts, pb.AgentCommand(settle_code=command))
        if not request.is_wanted:
            self._sync = None
            return
        sync.settling = _Step(set(reached))
        sync.settling.problems = {host: _GONE for host in sync.hosts if host not in reached}
        self._answer_settled(sync)

    def _send_to(self, hosts: Sequence[str], command: pb.AgentCommand) -> list[str]:
        """Send to these hosts' agents; give the hosts that have one."""
        return [host for host in hosts if self._to_agent(host, command)]

    def _refuse(self, client: bytes, request_id: str) -> None:
        reason = "another sync of this cluster has begun meanwhile. Sync again when it has ended."
        self._outbox.to_client(client, Refused(request_id, "DistError", reason))

    # --- what agents answer ---

    def on_event(self, host: str, event: pb.AgentEvent) -> None:
        """Take in an agent's answer; one about an older sync is dropped."""
        sync = self._sync
        if sync is None:
            return
        match event.WhichOneof("event"):
            case "code_lacks" if event.code_lacks.request_id == sync.agents_id:
                sync.lacks[host] = event.code_lacks
                _note(sync.comparing, host, event.code_lacks.problem)
                self._answer_lacking(sync)
            case "code_taken" if event.code_taken.request_id == sync.agents_id:
                taken = event.code_taken
                if taken.number in sync.chunks:
                    _note(sync.chunks[taken.number], host, taken.problem)
                    self._answer_taken(sync, taken.number)
            case "code_settled" if event.code_settled.request_id == sync.agents_id:
                sync.settled[host] = event.code_settled
                if sync.settling is not None:
                    _note(sync.settling, host, event.code_settled.problem)
                    self._answer_settled(sync)

    def on_gone(self, host: str) -> None:
        """Take in that an agent is gone: nobody waits for it."""
        sync = self._sync
        if sync is None or host not in sync.hosts:
            return
        if host in sync.comparing.waiting:
            _note(sync.comparing, host, _GONE)
            self._answer_lacking(sync)
        for number, step in list(sync.chunks.items()):
            if host in step.waiting:
                _note(step, host, _GONE)
                self._answer_taken(sync, number)
        if sync.settling is not None and host in sync.settling.waiting:
            _note(sync.settling, host, _GONE)
            self._answer_settled(sync)

    # --- what the client is told ---

    def _answer_lacking(self, sync: _Sync) -> None:
        if sync.comparing.waiting:
            return
        problems = sync.comparing.problems
        hosts = [host for host in sync.hosts if host not in problems]
        lacks = [sync.lacks[host] for host in hosts]
        answer = CodeLacking(
            sync.request_id,
            tuple(hosts),
            tuple(each.incoming_dir for each in lacks),
            tuple(each.rsync for each in lacks),
            problems,
            sync.absent,
        )
        self._outbox.to_client(sync.client, answer, [each.indices for each in lacks])

    def _answer_taken(self, sync: _Sync, number: int) -> None:
        if not sync.chunks[number].waiting:
            step = sync.chunks.pop(number)
            answer = CodeTaken(sync.request_id, number, step.problems)
            self._outbox.to_client(sync.client, answer)

    def _answer_settled(self, sync: _Sync) -> None:
        if sync.settling is None or sync.settling.waiting:
            return
        stale: dict[str, tuple[str, ...]] = {}
        for host, settled in sync.settled.items():
            for module in settled.stale:
                stale[module] = (*stale.get(module, ()), host)
        removed = max((settled.removed for settled in sync.settled.values()), default=0)
        answer = CodeSettled(sync.request_id, removed, stale, sync.settling.problems)
        self._outbox.to_client(sync.client, answer)
        self._sync = None


def _note(step: _Step, host: str, problem: str) -> None:
    """Note that a host has answered."""
    step.waiting.discard(host)
    if problem:
        step.problems[host] = problem


def _find_mistake(request: SyncCode | SendCode | SettleCode, buffers: Sequence[Frame]) -> str:
    """Say why a request cannot be meant; our own clients check before they send."""
    expected = 0 if isinstance(request, SettleCode) else 1
    if len(buffers) != expected:
        return f"{expected} frames were expected, {len(buffers)} came."
    size = memoryview(buffers[0]).nbytes if buffers else 0
    if not size and expected:
        return "an empty frame came."
    if isinstance(request, SendCode) and size > _LARGEST_CHUNK_BYTES:
        return f"a chunk of {size} bytes came; accepted are {_LARGEST_CHUNK_BYTES}."
    return ""
