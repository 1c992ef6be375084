import pytest

from jupyter_dist.coordinator.clients.code_sync import CodeSync
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.transfer.code_manifest import CHUNK_BYTES
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    CodeCommitted,
    CodeLacking,
    CodeTaken,
    CommitCode,
    Refused,
    SendCode,
    SyncCode,
)


class Desk:
    """The present sync on hosts a and b."""

    def __init__(self, cluster):
        self.sender = cluster.sender
        self.sender.hosts_with_agents = {"a", "b"}
        self.code_sync = CodeSync(cluster.roster, cluster.sender)

    def ask(self, request, *buffers, client=b"me"):
        self.code_sync.on_request(client, request, buffers, 0.0)

    def commands(self, kind):
        return self.sender.commanded(kind)

    def answer(self, host, client=b"me", **event):
        ((kind, facts),) = event.items()
        message = {
            "code_lacks": pb.CodeLacks,
            "code_taken": pb.CodeTaken,
            "code_committed": pb.CodeCommitted,
        }[kind](request_id=f"{client.hex()}-r1", **facts)
        self.code_sync.on_event(host, pb.AgentEvent(**{kind: message}), 0.0)

    def told(self, kind, client=b"me"):
        return self.sender.told(kind, client)


@pytest.fixture
def desk(cluster):
    return Desk(cluster)


@pytest.fixture
def compared(desk):
    """Both hosts have told what they lack."""
    desk.ask(SyncCode("r1"), b"manifest")
    for host in "ab":
        desk.answer(host, code_lacks={"indices": b"0"})
    desk.sender.commands.clear()
    return desk


@pytest.mark.parametrize(("rest", "is_last"), [(b"end", [False, True]), (b"", [True])])
def test_a_manifest_goes_to_every_agent_in_parts_that_grpc_takes(desk, rest, is_last):
    manifest = bytes(CHUNK_BYTES) + rest
    desk.ask(SyncCode("r1"), manifest)
    for name in "ab":
        parts = [part for host, part in desk.commands("code_manifest") if host == name]
        assert [part.is_last for part in parts] == is_last
        assert b"".join(part.data for part in parts) == manifest
        assert {part.request_id for part in parts} == {f"{b'me'.hex()}-r1"}


def test_the_client_is_told_when_every_host_has_compared(desk):
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("b", code_lacks={"indices": b"bits of b"})
    assert desk.told(CodeLacking) == []
    desk.answer("a", code_lacks={"indices": b"bits of a"})
    client, answer, frames = desk.sender.clients[-1]
    assert client == b"me"
    assert answer == CodeLacking("r1", ("a", "b"), {})
    assert frames == [b"bits of a", b"bits of b"]


def test_a_host_that_cannot_compare_is_named_with_its_reason(desk):
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("a", code_lacks={"problem": "disk full"})
    desk.answer("b", code_lacks={})
    (answer,) = desk.told(CodeLacking)
    assert answer.hosts == ("b",)
    assert answer.problems == {"a": "disk full"}


def test_nobody_waits_for_a_host_that_is_lost(desk):
    desk.sender.hosts_with_agents = {"b"}
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("b", code_lacks={})
    (answer,) = desk.told(CodeLacking)
    assert (answer.hosts, answer.absent) == (("b",), ("a",))
    desk.ask(CommitCode("r1"))
    desk.answer("b", code_committed={})
    assert desk.told(CodeCommitted) == [CodeCommitted("r1", 0, {}, {})]


def test_without_any_host_the_answer_comes_at_once(desk):
    desk.sender.hosts_with_agents = set()
    desk.ask(SyncCode("r1"), b"manifest")
    assert desk.told(CodeLacking) == [CodeLacking("r1", (), {}, ("a", "b"))]


def test_a_chunk_goes_only_where_it_is_lacking_and_is_answered_by_number(compared):
    compared.ask(SendCode("r1", 1, ("a", "b")), b"both")
    compared.ask(SendCode("r1", 2, ("b", "nowhere")), b"one")
    chunks = [(host, chunk.number, chunk.data) for host, chunk in compared.commands("code_chunk")]
    assert chunks == [("a", 1, b"both"), ("b", 1, b"both"), ("b", 2, b"one")]
    compared.answer("b", code_taken={"number": 1})
    assert compared.told(CodeTaken) == []
    compared.answer("b", code_taken={"number": 2})
    compared.answer("a", code_taken={"number": 1, "problem": "disk full"})
    first, second = compared.told(CodeTaken)
    assert (first.number, list(first.problems)) == (2, ["nowhere"])
    assert second == CodeTaken("r1", 1, {"a": "disk full"})


def test_settling_gathers_what_the_hosts_say(compared):
    compared.ask(CommitCode("r1"))
    assert {host: c.is_wanted for host, c in compared.commands("commit_code")} == {
        "a": True,
        "b": True,
    }
    compared.answer("b", code_committed={"removed": 2, "stale": ["m", "n"]})
    assert compared.told(CodeCommitted) == []
    compared.answer("a", code_committed={"removed": 1, "stale": ["m"], "problem": "read-only"})
    assert compared.told(CodeCommitted) == [
        CodeCommitted("r1", 2, {"m": ("b", "a"), "n": ("b",)}, {"a": "read-only"})
    ]
    compared.ask(CommitCode("r1"))
    assert compared.told(Refused)


def test_an_agent_that_goes_away_ends_every_wait_for_it(desk):
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("a", code_lacks={})
    desk.code_sync.on_gone("b")
    desk.ask(SendCode("r1", 1, ("a",)), b"data")
    desk.ask(CommitCode("r1"))
    desk.answer("b", code_committed={})
    for _ in range(2):
        desk.code_sync.on_gone("a")
    problems = [
        list(answer.problems)
        for kind in (CodeLacking, CodeTaken, CodeCommitted)
        for answer in desk.told(kind)
    ]
    assert problems == [["b"], ["a"], ["a"]]


def test_what_is_not_wanted_is_forgotten_without_an_answer(compared):
    compared.sender.forget()
    compared.ask(CommitCode("r1", is_wanted=False))
    assert [command.is_wanted for _, command in compared.commands("commit_code")] == [False, False]
    compared.code_sync.on_gone("a")
    assert compared.sender.clients == []


def test_a_sync_that_begins_ends_the_one_before_and_says_so(compared):
    compared.ask(SyncCode("r1"), b"other", client=b"you")
    (refused,) = compared.told(Refused)
    assert refused.request_id == "r1"
    compared.answer("a", code_lacks={})  # about the older one
    compared.answer("b", code_lacks={})
    assert compared.told(CodeLacking, b"you") == []
    compared.answer("a", client=b"you", code_lacks={})
    compared.answer("b", client=b"you", code_lacks={})
    assert len(compared.told(CodeLacking, b"you")) == 1


@pytest.mark.parametrize(
    ("request_", "buffers"),
    [
        (SyncCode("r2"), ()),
        (SyncCode("r2"), (b"",)),
        (SyncCode("r2"), (b"a", b"b")),
        (SendCode("r1", 1, ("a",)), ()),
        (SendCode("r1", 1, ("a",)), (bytes(4 << 20),)),
        (CommitCode("r1"), (b"a",)),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused_and_changes_nothing(compared, request_, buffers):
    compared.ask(request_, *buffers)
    assert [refused.code for refused in compared.told(Refused)] == [ErrorCode.USAGE_ERROR]
    assert compared.sender.commands == []
    compared.ask(SendCode("r1", 1, ("a",)), b"data")
    assert len(compared.commands("code_chunk")) == 1
