import pytest

from jupyter_dist.coordinator.syncing import Syncing
from jupyter_dist.model.manifest import CHUNK_BYTES
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    CodeLacking,
    CodeSettled,
    CodeTaken,
    Refused,
    SendCode,
    SettleCode,
    SyncCode,
)


class Desk:
    """The present sync on hosts a and b; `sent` has what their agents were told."""

    def __init__(self, cluster):
        self.outbox = cluster.outbox
        self.attending = {"a", "b"}
        self.sent = []
        self.syncing = Syncing(cluster.roster, cluster.outbox, self._to_agent)

    def _to_agent(self, host, command):
        if host in self.attending:
            self.sent.append((host, command))
        return host in self.attending

    def ask(self, request, *buffers, client=b"me"):
        self.syncing.on_request(client, request, buffers)

    def commands(self, kind):
        return [
            (host, getattr(command, kind))
            for host, command in self.sent
            if command.WhichOneof("command") == kind
        ]

    def answer(self, host, client=b"me", **event):
        ((kind, facts),) = event.items()
        message = {
            "code_lacks": pb.CodeLacks,
            "code_taken": pb.CodeTaken,
            "code_settled": pb.CodeSettled,
        }[kind](request_id=f"{client.hex()}-r1", **facts)
        self.syncing.on_event(host, pb.AgentEvent(**{kind: message}))

    def told(self, kind, client=b"me"):
        return self.outbox.told(kind, client)


@pytest.fixture
def desk(cluster):
    return Desk(cluster)


@pytest.fixture
def compared(desk):
    """Both hosts have told what they lack."""
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("a", code_lacks={"indices": b"0"})
    desk.answer("b", code_lacks={"indices": b"1"})
    desk.sent.clear()
    return desk


def test_a_manifest_goes_to_every_agent_in_parts_that_grpc_takes(desk):
    manifest = bytes(CHUNK_BYTES) + b"end"
    desk.ask(SyncCode("r1"), manifest)
    for name in "ab":
        parts = [part for host, part in desk.commands("code_manifest") if host == name]
        assert [part.is_last for part in parts] == [False, True]
        assert b"".join(part.data for part in parts) == manifest
        assert {part.request_id for part in parts} == {f"{b'me'.hex()}-r1"}


def test_a_manifest_that_just_fills_one_part_is_whole_with_it(desk):
    desk.ask(SyncCode("r1"), bytes(CHUNK_BYTES))
    assert [part.is_last for _, part in desk.commands("code_manifest")] == [True, True]


def test_the_client_is_told_when_every_host_has_compared(desk):
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("b", code_lacks={"indices": b"bits of b", "incoming_dir": "/b", "rsync": "/r"})
    assert desk.told(CodeLacking) == []
    desk.answer("a", code_lacks={"indices": b"bits of a", "incoming_dir": "/a"})
    client, answer, frames = desk.outbox.clients[-1]
    assert client == b"me"
    assert answer == CodeLacking("r1", ("a", "b"), ("/a", "/b"), ("", "/r"), {})
    assert frames == [b"bits of a", b"bits of b"]


def test_a_host_that_cannot_compare_is_named_with_its_reason(desk):
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("a", code_lacks={"problem": "No space left on device"})
    desk.answer("b", code_lacks={})
    (answer,) = desk.told(CodeLacking)
    assert answer.hosts == ("b",)
    assert answer.problems == {"a": "No space left on device"}


def test_nobody_waits_for_a_host_that_is_lost(desk):
    desk.attending = {"b"}
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("b", code_lacks={})
    (answer,) = desk.told(CodeLacking)
    assert (answer.hosts, answer.absent) == (("b",), ("a",))
    desk.ask(SettleCode("r1"))
    desk.answer("b", code_settled={})
    assert desk.told(CodeSettled) == [CodeSettled("r1", 0, {}, {})]


def test_without_any_host_the_answer_comes_at_once(desk):
    desk.attending = set()
    desk.ask(SyncCode("r1"), b"manifest")
    assert desk.told(CodeLacking) == [CodeLacking("r1", (), (), (), {}, ("a", "b"))]


def test_a_chunk_goes_only_where_it_is_lacking_and_is_answered_by_number(compared):
    compared.ask(SendCode("r1", 1, ("a", "b")), b"both")
    compared.ask(SendCode("r1", 2, ("b",)), b"one")
    chunks = [(host, chunk.number, chunk.data) for host, chunk in compared.commands("code_chunk")]
    assert chunks == [("a", 1, b"both"), ("b", 1, b"both"), ("b", 2, b"one")]
    compared.answer("b", code_taken={"number": 1})
    assert compared.told(CodeTaken) == []
    compared.answer("b", code_taken={"number": 2})
    compared.answer("a", code_taken={"number": 1, "problem": "disk full"})
    assert compared.told(CodeTaken) == [
        CodeTaken("r1", 2, {}),
        CodeTaken("r1", 1, {"a": "disk full"}),
    ]


def test_a_host_that_nobody_knows_is_a_problem_not_a_wait(compared):
    compared.ask(SendCode("r1", 1, ("a", "nowhere")), b"data")
    compared.answer("a", code_taken={"number": 1})
    (answer,) = compared.told(CodeTaken)
    assert list(answer.problems) == ["nowhere"]


def test_settling_gathers_what_the_hosts_say(compared):
    compared.ask(SettleCode("r1"))
    assert [(host, c.is_wanted) for host, c in compared.commands("settle_code")] == [
        ("a", True),
        ("b", True),
    ]
    compared.answer("b", code_settled={"removed": 2, "stale": ["m", "n"]})
    assert compared.told(CodeSettled) == []
    compared.answer("a", code_settled={"removed": 1, "stale": ["m"], "problem": "read-only"})
    assert compared.told(CodeSettled) == [
        CodeSettled("r1", 2, {"m": ("b", "a"), "n": ("b",)}, {"a": "read-only"})
    ]
    compared.ask(SettleCode("r1"))
    assert "has begun meanwhile" in compared.told(Refused)[0].reason


def test_an_agent_that_goes_away_ends_every_wait_for_it(desk):
    desk.ask(SyncCode("r1"), b"manifest")
    desk.answer("a", code_lacks={})
    desk.syncing.on_gone("b")
    (lacking,) = desk.told(CodeLacking)
    assert lacking.problems == {"b": "its agent is gone"}
    desk.ask(SendCode("r1", 1, ("a",)), b"data")
    desk.ask(SettleCode("r1"))
    desk.answer("b", code_settled={})
    desk.syncing.on_gone("a")
    desk.syncing.on_gone("a")
    assert desk.told(CodeTaken)[0].problems == {"a": "its agent is gone"}
    assert desk.told(CodeSettled)[0].problems == {"a": "its agent is gone"}


def test_what_is_not_wanted_is_forgotten_without_an_answer(compared):
    compared.outbox.forget()
    compared.ask(SettleCode("r1", is_wanted=False))
    assert [command.is_wanted for _, command in compared.commands("settle_code")] == [False, False]
    compared.syncing.on_gone("a")
    assert compared.outbox.clients == []


def test_a_sync_that_begins_ends_the_one_before_and_says_so(compared):
    compared.ask(SyncCode("r1"), b"other", client=b"you")
    (refused,) = compared.told(Refused)
    assert refused.request_id == "r1"
    assert "another sync of this cluster has begun" in refused.reason
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
        (SettleCode("r1"), (b"a",)),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused_and_changes_nothing(compared, request_, buffers):
    compared.ask(request_, *buffers)
    assert [refused.error for refused in compared.told(Refused)] == ["UsageError"]
    assert compared.sent == []
    compared.ask(SendCode("r1", 1, ("a",)), b"data")
    assert len(compared.commands("code_chunk")) == 1
