import pytest

from jupyter_dist.coordinator.observation.call_records import PATIENCE_S, CallRecords
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import CollectivesRead, ReadCollectives


class Desk:
    """The questions of clients about hosts a and b; `sent` has what agents were told."""

    def __init__(self, cluster):
        self.sender = cluster.sender
        self.sender.hosts_with_agents = {"a", "b"}
        self.now_s = 100.0
        self.recording = CallRecords(cluster.roster, cluster.sender)

    @property
    def sent(self):
        return self.sender.commanded("read_records")

    def ask(self, request_id="r1", last=0, client=b"me"):
        self.recording.on_request(client, ReadCollectives(request_id, last), self.now_s)

    def answer(self, host, data, request_id="r1", client=b"me", is_last=True):
        agents_id = f"{client.hex()}-{request_id}"
        records = pb.Records(request_id=agents_id, data=data, is_last=is_last)
        self.recording.on_event(host, pb.AgentEvent(records=records), self.now_s)

    def wait(self, seconds):
        self.now_s += seconds
        self.recording.tick(self.now_s)

    @property
    def told(self):
        return self.sender.clients


@pytest.fixture
def desk(cluster):
    return Desk(cluster)


def test_every_agent_is_asked_for_as_many_calls_as_the_client_wants(desk):
    desk.ask(last=20)
    assert [(host, command.last) for host, command in desk.sent] == [("a", 20), ("b", 20)]
    assert {command.request_id for _, command in desk.sent} == {f"{b'me'.hex()}-r1"}


def test_the_client_is_told_when_every_host_has_answered(desk):
    desk.ask()
    desk.answer("b", b"of b")
    desk.answer("b", b"more than its last word")
    assert desk.told == []
    desk.answer("a", b"of ", is_last=False)
    assert desk.told == []
    desk.answer("a", b"a")
    answer = CollectivesRead("r1", ("a", "b"), (2, 1), {})
    assert desk.told == [(b"me", answer, [b"of ", b"a", b"of b"])]


def test_several_questions_are_answered_each_by_its_own(desk):
    desk.ask()
    desk.ask("r2")
    desk.ask(client=b"you")
    for host in "ab":
        desk.answer(host, b"yours", client=b"you")
    assert [(to, message.request_id) for to, message, _ in desk.told] == [(b"you", "r1")]
    for host in "ab":
        desk.answer(host, b"second", "r2")
    assert desk.told[-1][1].request_id == "r2"
    assert desk.told[-1][2] == [b"second", b"second"]


def test_a_host_without_agent_is_named_and_not_waited_for(desk):
    desk.sender.hosts_with_agents = {"b"}
    desk.ask()
    desk.answer("b", b"of b")
    desk.sender.hosts_with_agents = set()
    desk.ask()
    (_, first, _), (_, second, frames) = desk.told
    assert (first.hosts, list(first.problems)) == (("b",), ["a"])
    assert (second.hosts, list(second.problems), frames) == ((), ["a", "b"], [])


def test_an_agent_that_goes_away_ends_the_wait_and_what_it_began_to_say_is_dropped(desk):
    desk.ask()
    desk.answer("a", b"half", is_last=False)
    desk.answer("b", b"of b")
    desk.recording.on_gone("a")
    desk.recording.on_gone("a")
    ((_, answer, frames),) = desk.told
    assert (answer.hosts, list(answer.problems), frames) == (("b",), ["a"], [b"of b"])


def test_an_agent_that_keeps_silent_is_named_after_some_seconds(desk):
    desk.ask()
    desk.answer("b", b"of b")
    desk.wait(PATIENCE_S - 0.1)
    assert desk.told == []
    desk.wait(0.2)
    ((_, answer, frames),) = desk.told
    assert (answer.hosts, frames) == (("b",), [b"of b"])
    assert answer.problems["a"].endswith(" 5 s")


def test_an_agent_that_has_much_to_say_is_heard_to_the_end(desk):
    desk.ask()
    desk.answer("b", b"of b")
    for _ in range(4):
        desk.wait(PATIENCE_S - 1)
        desk.answer("a", b"piece", is_last=False)
    desk.answer("a", b"end")
    ((_, answer, _),) = desk.told
    assert (answer.frame_counts, answer.problems) == ((5, 1), {})


def test_what_comes_too_late_is_dropped(desk):
    desk.ask()
    desk.wait(PATIENCE_S)
    assert len(desk.told) == 1
    desk.answer("a", b"late")
    desk.answer("a", b"to nobody", request_id="r9")
    desk.recording.on_gone("a")
    desk.wait(99)
    assert len(desk.told) == 1
