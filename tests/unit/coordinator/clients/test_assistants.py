from types import SimpleNamespace
from typing import get_args

import pytest
from fakes.outbox import RecordingSender

from jupyter_dist.coordinator.clients.assistants import MOST_GRANTS, MOST_MEMBERS, Assistants
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.identity import line_identity
from jupyter_dist.protocol.messages import (
    ACTS,
    AnswerInput,
    AskRanks,
    Assist,
    ClaimRole,
    Command,
    CommsSeen,
    CompleteCode,
    Explain,
    FollowCell,
    FromClient,
    GiveGrant,
    GrantGiven,
    GrantsListed,
    HealRanks,
    InputShown,
    InspectName,
    InterruptCell,
    ListCells,
    ListGrants,
    ListNames,
    NameAxes,
    OutputSeen,
    PullObject,
    PushObjects,
    ReadStacks,
    Refused,
    ReplayOutput,
    RevokeGrants,
    RoleGranted,
    ShowValue,
    ShrinkCluster,
    StopCluster,
    SubmitCell,
    WatchTopology,
)

AGENT, PERSON = line_identity("agent", 1), line_identity("person", 1)
SAVE = Command("checkpoint.save", "", b"")
WANTED = {
    "run": SubmitCell("r", "x = 1", label=10_001),
    "interrupt": InterruptCell("i"),
    "heal": HealRanks("h"),
    "checkpoint": SubmitCell("c", "", command=SAVE),
}


class Desk(Assistants):
    """AI agents of a cluster, at a time that tests set."""

    def __init__(self):
        self.now_s = 1000.0
        outbox = RecordingSender()
        roster = SimpleNamespace(cluster="demo")
        super().__init__(roster, outbox, lambda: self.now_s)

    def answer(self, ask, line, request):
        self._sender.forget()
        ask(line, request, 0.0)
        [(to, answer, _)] = self._sender.clients
        assert to == line
        return answer

    def grant(self, *may, for_s=60.0):
        given = self.answer(self.give, PERSON, GiveGrant("g", may, for_s))
        assert isinstance(given, GrantGiven)
        return given

    def come(self, token="", who="AI agent x", line=AGENT, pid=7):
        return self.answer(self.take_part, line, Assist("a", pid, who, token))

    def may(self, message, line=AGENT):
        return not self.find_objection(line, message)


@pytest.fixture
def desk(capsys):
    return Desk()


def test_who_is_no_agent_is_not_asked_for_a_grant(desk):
    assert desk.may(StopCluster("s"), PERSON)


@pytest.mark.parametrize(
    "message",
    [
        Explain("e"),
        ListCells("l"),
        ListGrants("l"),
        ReplayOutput("o"),
        WatchTopology("w"),
        *(AskRanks("q", about) for about in (ListNames(), ReadStacks(), ShowValue("w"))),
    ],
    ids=lambda message: type(message).__name__,
)
def test_an_agent_may_look_without_a_grant(desk, message):
    assert isinstance(desk.come(), RoleGranted)
    assert desk.may(message)


@pytest.mark.parametrize("act", ACTS)
def test_what_is_granted_may_be_done_and_nothing_else(desk, act):
    desk.come()
    assert not desk.may(WANTED[act])
    desk.come(desk.grant(act).token)
    assert [each for each in ACTS if desk.may(WANTED[each])] == [act]


@pytest.mark.parametrize(
    "message",
    [
        StopCluster("s"),
        ShrinkCluster("s"),
        ClaimRole("c", 7, "x", is_taking_over=True),
        NameAxes("n"),
        PushObjects("p", ("x",), (1,)),
        GiveGrant("g", ("run",), 9.0),
        RevokeGrants("r"),
        FollowCell("f", can_answer=True),
        AskRanks("q", InspectName("w")),
        AskRanks("q", CompleteCode("w.", 2)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_some_things_no_grant_is_for(desk, message):
    desk.come(desk.grant(*ACTS).token)
    assert not desk.may(message)


NOT_ANSWERED = (
    OutputSeen("c", 1),
    InputShown("c", 0, 1, 7),
    AnswerInput("c", 0, 1),
    CommsSeen(1),
)
"""Messages without a request id: a refusal of them would belong to nothing."""


def test_what_cannot_be_answered_is_not_refused(desk):
    asked = {kind for kind in get_args(FromClient) if "request_id" not in kind.__struct_fields__}
    assert {type(each) for each in NOT_ANSWERED} == asked
    desk.come()
    assert all(desk.may(each) for each in NOT_ANSWERED)


def test_a_pull_is_evaluated_and_wants_the_grant_for_running(desk):
    desk.come(desk.grant("interrupt").token)
    assert not desk.may(PullObject("p", "w"))
    desk.come(desk.grant("run").token)
    assert desk.may(PullObject("p", "w"))


def test_a_grant_ends_by_its_time_also_for_who_is_connected(desk):
    desk.come(desk.grant("run", for_s=60.0).token)
    desk.now_s += 59.9
    assert desk.may(WANTED["run"])
    desk.now_s += 0.1
    assert not desk.may(WANTED["run"])
    assert desk.answer(desk.list_grants, PERSON, ListGrants("l")).grants == ()


def test_a_grant_is_taken_back_by_its_number_or_with_all(desk):
    first, second, third = (desk.grant("run") for _ in range(3))
    desk.come(second.token)
    gone = desk.answer(desk.revoke, PERSON, RevokeGrants("r", 2))
    assert isinstance(gone, GrantsListed)
    assert gone.grants == (second.grant,)
    assert not desk.may(WANTED["run"])
    assert desk.answer(desk.revoke, PERSON, RevokeGrants("r", 2)).code == ErrorCode.USAGE_ERROR
    assert desk.answer(desk.revoke, PERSON, RevokeGrants("r")).grants == (first.grant, third.grant)
    assert desk.answer(desk.revoke, PERSON, RevokeGrants("r")).grants == ()


@pytest.mark.parametrize("token", ["nonsense", "x" * 10_000, "\x00", "\udcff", "ä"])
def test_a_token_that_is_none_is_refused_and_leaves_an_agent(desk, token):
    desk.grant("run")
    refused = desk.come(token)
    assert (type(refused), refused.code) == (Refused, ErrorCode.NOT_ALLOWED)
    assert desk.may(Explain("e"))
    assert not desk.may(WANTED["run"])


def test_the_token_of_another_cluster_is_refused(desk):
    other = Desk()
    assert desk.come(other.grant("run").token).code == ErrorCode.NOT_ALLOWED


@pytest.mark.parametrize(
    ("may", "for_s"),
    [((), 60.0), (("stop",), 60.0), (("run", ""), 60.0), (("run",), 0.0), (("run",), 1e9)],
)
def test_a_grant_that_cannot_be_meant_is_refused(desk, may, for_s):
    refused = desk.answer(desk.give, PERSON, GiveGrant("g", may, for_s))
    assert (type(refused), refused.code) == (Refused, ErrorCode.USAGE_ERROR)


def test_so_many_grants_hold_at_once(desk):
    for _ in range(MOST_GRANTS):
        desk.grant("run", for_s=1.0)
    full = desk.answer(desk.give, PERSON, GiveGrant("g", ("run",), 60.0))
    assert full.code == ErrorCode.USAGE_ERROR
    desk.now_s += 1.0
    assert desk.grant("run").grant.number == MOST_GRANTS + 1


def test_what_an_agent_has_done_is_counted_and_logged_with_its_name(desk, capsys):
    given = desk.grant("run", "heal")
    desk.come(given.token, "AI\x1b[31m agent\n x")
    assert desk.may(WANTED["run"])
    assert desk.may(WANTED["heal"])
    [told] = desk.answer(desk.list_grants, PERSON, ListGrants("l")).grants
    assert (told.acts, told.last) == (2, "heal by AI[31m agent x")
    log = capsys.readouterr().err
    assert "run In[10001]" in log
    assert given.token not in log
    assert "\x1b" not in log


class Cell:
    def __init__(self):
        self.by = ""
        self.told = []
        self.tell = self.told.append


def test_a_persons_next_cell_tells_once_what_agents_did(desk):
    desk.come(desk.grant("run").token)
    of_agent, first, second = Cell(), Cell(), Cell()
    desk.find_objection(AGENT, WANTED["run"])
    desk.introduce(AGENT, of_agent)
    assert (of_agent.by, of_agent.told) == ("AI agent x", [])
    desk.introduce(PERSON, first)
    desk.introduce(PERSON, second)
    [note] = first.told
    assert note.startswith("AI agent x at ")
    assert note.endswith(": run In[10001]")
    assert (first.by, second.told) == ("", [])


def test_who_is_silent_longest_is_forgotten_and_who_is_connected_never(desk):
    desk.come(line=line_identity("stays", 1))
    for number in range(3 * MOST_MEMBERS):
        desk.come(line=line_identity(f"call-{number}", 1))
        assert desk.may(Explain("e"), line_identity("stays", 2))
    assert len(desk.members) == MOST_MEMBERS
    assert not desk.may(WANTED["run"], line_identity("stays", 3))
