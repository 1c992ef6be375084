import signal
from typing import get_args

import msgspec
import pytest
from fakes.coming_agents import ComingAgents
from fakes.recovery import make_recovery
from msgspec.structs import replace

from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.control.router import Received
from jupyter_dist.coordinator.cells.uploads import PATIENCE_S
from jupyter_dist.coordinator.clients.client_registry import ClientRegistry
from jupyter_dist.coordinator.clients.code_sync import CodeSync
from jupyter_dist.coordinator.clients.pictures import Pictures
from jupyter_dist.coordinator.clients.widget_relay import WidgetRelay
from jupyter_dist.coordinator.ipyparallel.controller import IpyparallelController
from jupyter_dist.coordinator.observation.call_records import CallRecords
from jupyter_dist.coordinator.preemption.preemption import Preemption
from jupyter_dist.coordinator.requests import Parts, Requests
from jupyter_dist.errors import ErrorCode, VersionMismatch
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import (
    AnswerInput,
    AskInput,
    AskPerson,
    Assist,
    CellEvents,
    CellFollowed,
    CellInterruptSent,
    CellOutput,
    CellResult,
    CellsListed,
    ClaimRole,
    FileUnreachable,
    FollowCell,
    FromClient,
    GiveGrant,
    GrantGiven,
    InputAnswered,
    InputShown,
    InterruptCell,
    ListCells,
    ObjectsPushed,
    ObjectsStored,
    Output,
    OutputReplayed,
    OutputSeen,
    PushObjects,
    RanksOk,
    Refused,
    ReplayOutput,
    RoleGranted,
    RunCell,
    SendPiece,
    StopCluster,
    StoreObjects,
    SubmitCell,
    WithdrawCell,
    WithdrawInput,
)
from jupyter_dist.protocol.unreadable import Unreadable


@pytest.fixture
def desk(cluster):
    """The desk; `ask(message, client, buffers)` hands a request in and lets the fence work."""
    make_recovery(cluster)
    client_registry = ClientRegistry(
        cluster.roster, cluster.rendezvous, cluster.sender, 1.0, ComingAgents()
    )
    code_sync = CodeSync(cluster.roster, cluster.sender)
    recording = CallRecords(cluster.roster, cluster.sender)
    pictures = Pictures(cluster.rendezvous, cluster.sender, lambda *_: Topology(cluster="demo"))
    cluster.client_registry = client_registry
    cluster.requests = Requests(
        Parts(
            cell=cluster.parts,
            scheduler=cluster.scheduler,
            client_registry=client_registry,
            code_sync=code_sync,
            recording=recording,
            losses=cluster.losses,
            recovery=cluster.recovery,
            parallel=IpyparallelController(
                cluster.roster, cluster.rendezvous, cluster.sender, cluster.spec, client_registry
            ),
            pictures=pictures,
            widgets=WidgetRelay(cluster.roster, cluster.sender),
            preemption=Preemption(cluster.parts, cluster.scheduler, None),
        )
    )

    def ask(message, client=b"me", buffers=(), problem=None):
        received = Received(client, message, list(buffers), problem)
        cluster.requests.on_request(received, 1.0)
        cluster.scheduler.advance(1.0)

    cluster.ask = ask
    return cluster


def test_every_message_of_a_client_is_handled(desk):
    requests = desk.requests
    assert requests._handlers.keys() | requests._framed.keys() == set(get_args(FromClient))


def test_a_cell_goes_to_every_rank_it_names(desk):
    desk.ask(SubmitCell("r1", "x = 1", (1, 2)))
    assert sorted(desk.sender.sent_to_ranks(RunCell)) == [1, 2]
    desk.scheduler.advance(2.0)
    assert desk.sender.told(CellEvents)[0].ranks == (1, 2)


def test_an_agent_acts_only_by_a_grant_and_its_cell_bears_its_name(desk):
    desk.ask(Assist("a1", 7, "AI agent x"), b"agent")
    desk.ask(SubmitCell("r1", "x = 1"), b"agent")
    assert desk.sender.told(Refused, b"agent")[0].code == ErrorCode.NOT_ALLOWED
    assert desk.sender.sent_to_ranks(RunCell) == {}
    desk.ask(GiveGrant("g1", ("run",), 60.0))
    [given] = desk.sender.told(GrantGiven)
    desk.ask(Assist("a2", 7, "AI agent x", given.token), b"agent")
    desk.ask(SubmitCell("r2", "x = 1", label=10_001), b"agent")
    assert len(desk.sender.sent_to_ranks(RunCell)) == 4
    desk.ask(ListCells("l1"))
    [kept] = desk.sender.told(CellsListed)[0].cells
    assert (kept.label, kept.by) == ("In[10001]", "AI agent x")


def test_interrupting_reaches_only_ranks_that_run_something(desk):
    desk.ask(InterruptCell("i0"))
    desk.roster.start_task(2, "apply train", 0.0)
    desk.ask(InterruptCell("i1"))
    desk.roster.end_task(2)
    desk.ask(SubmitCell("r1", "x = 1", (0, 3)))
    desk.ask(InterruptCell("i2", (1, 3)))
    assert [sent.ranks for sent in desk.sender.told(CellInterruptSent)] == [(), (2,), (3,)]
    assert ((3,), signal.SIGINT, "i2") in desk.sender.signals


def test_a_waiting_cell_that_is_withdrawn_never_runs(desk):
    desk.ask(SubmitCell("r1", "x = 1"), client=b"one")
    desk.ask(SubmitCell("r2", "y = 1"), client=b"two")
    desk.ask(WithdrawCell("r2"), client=b"two")
    [refused] = desk.sender.told(Refused, b"two")
    assert refused.request_id == "r2"
    assert desk.sender.signals == [], "the other client's cell is left in peace"


def test_withdrawing_a_running_cell_interrupts_it(desk):
    desk.ask(SubmitCell("r1", "x = 1"))
    desk.ask(WithdrawCell("r1"), client=b"someone else")
    assert desk.sender.signals == []
    desk.ask(WithdrawCell("r1"))
    assert desk.sender.signals == [((0, 1, 2, 3), signal.SIGINT, "r1")]


def test_a_small_push_goes_to_each_rank_and_a_large_one_once_to_each_host(desk):
    desk.ask(PushObjects("p1", ("x",), (1,)), buffers=[b"small"])
    assert sorted(desk.sender.sent_to_ranks(StoreObjects)) == [0, 1, 2, 3]
    assert desk.sender.commands == []
    for rank in range(4):
        desk.roster[rank].end_work()
        desk.scheduler.current.on_answer(ObjectsStored(rank, "transfer-1"), [])
    desk.scheduler.advance(1.0)
    assert desk.sender.told(ObjectsPushed)[0].problems == {}
    desk.sender.forget()
    desk.ask(PushObjects("p2", ("x",), (2,)), buffers=[b"pickle", bytes(2 << 20)])
    placed = desk.sender.commanded("place_chunk")
    assert {host for host, _ in placed} == {"a", "b"}
    assert desk.sender.sent_to_ranks(StoreObjects) == {}, "they wait for their host"


def test_a_push_whose_file_cannot_be_relied_on_is_to_be_sent(desk):
    file = MemoryFile.make()
    file.write([b"12345"])
    asked = PushObjects("p1", ("x",), (1,), sizes=(5,), file=file.name)
    desk.ask(asked)
    file.freeze()
    desk.ask(replace(asked, request_id="p2", sizes=(6,)))
    desk.ask(replace(asked, request_id="p3", file="1/2/gone"))
    assert [m.request_id for m in desk.sender.told(FileUnreachable)] == ["p1", "p2", "p3"]
    assert desk.scheduler.current is None
    desk.ask(replace(asked, request_id="p4"))
    assert desk.scheduler.transfer.request_id == "p4"
    desk.ask(replace(asked, request_id="p5", sizes=()), buffers=[b"12345"])
    assert [m.request_id for m in desk.sender.told(Refused)] == ["p5"]


def test_a_push_that_stops_in_the_middle_is_let_go_although_nobody_pushes_again(desk):
    desk.ask(PushObjects("p1", ("x",), (1,), sizes=(8,)))
    desk.ask(SendPiece("p1", 1), buffers=[b"1234"])
    desk.requests.tick(PATIENCE_S)
    assert desk.requests._uploads._uploads
    desk.requests.tick(PATIENCE_S + 2.0)
    assert not desk.requests._uploads._uploads
    desk.ask(SendPiece("p1", 2), buffers=[b"5678"])
    assert desk.sender.told(Refused)


UNREADABLE = Unreadable(
    msgspec.msgpack.encode({"type": "SubmitCell", "request_id": "r7", "code": 5}),
    "Expected `str`, got `int`",
)


@pytest.mark.parametrize(
    ("problem", "request_id", "code", "words"),
    [
        (
            VersionMismatch("jupyter-dist/4", "jupyter-dist/9"),
            "",
            ErrorCode.VERSION_MISMATCH,
            "jupyter-dist/9",
        ),
        (UNREADABLE, "r7", ErrorCode.MALFORMED_MESSAGE, "Expected `str`"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_to_who_waits_for_its_answer(
    desk, problem, request_id, code, words
):
    desk.ask(None, problem=problem)
    [refused] = desk.sender.told(Refused)
    assert (refused.request_id, refused.code) == (request_id, code)
    assert words in refused.reason


def test_what_the_last_cell_said_can_be_asked_for(desk):
    desk.ask(SubmitCell("r1", "x = 1"))
    desk.ask(ReplayOutput("again"), client=b"late")
    [replayed] = desk.sender.told(OutputReplayed, b"late")
    assert replayed.cell.is_running
    assert replayed.cell.code == "x = 1"


def test_who_asked_for_the_end_is_remembered_to_be_answered_last(desk):
    desk.ask(StopCluster("s1"))
    assert desk.requests.stop_request == (b"me", "s1")
    assert desk.sender.told(object) == []


def test_a_cell_can_be_followed_beyond_its_end(desk):
    desk.ask(SubmitCell("r1", "x = 1", (0,)))
    said = CellOutput(0, "cell-1", (Output("stdout", "x" * (12 << 20)),))
    desk.scheduler.current.on_message(said, [], 1.0)
    desk.ask(FollowCell("f1"), client=b"late")
    [followed] = desk.sender.told(CellFollowed, b"late")
    assert followed.cell.label == "In[0]"
    desk.scheduler.current.on_message(CellResult(0, "cell-1", "ok", 1.0), [], 1.0)
    desk.roster[0].end_work()
    desk.scheduler.advance(2.0)
    assert desk.scheduler.current is None
    while not (last := desk.sender.told(CellEvents, b"late")[-1]).is_last:
        desk.ask(OutputSeen("cell-1", last.size_bytes), client=b"late")
    assert last.events[-1] == RanksOk((0,), (1.0,))


def test_what_a_follower_has_read_is_not_taken_for_what_the_sender_has(desk):
    desk.ask(SubmitCell("r1", "x = 1", (0,)))
    said = CellOutput(0, "cell-1", (Output("stdout", "x" * (9 << 20)),))
    desk.scheduler.current.on_message(said, [], 1.0)
    desk.scheduler.advance(2.0)
    assert desk.sender.told(CellEvents, b"me")
    desk.ask(OutputSeen("cell-1", 100 << 20), client=b"late")
    desk.sender.forget()
    desk.scheduler.current.on_message(said, [], 2.0)
    desk.scheduler.advance(3.0)
    assert desk.sender.told(CellEvents, b"me") == [], "it is held back: nothing was read"


def test_a_watcher_is_refused_what_changes_something(desk):
    desk.ask(ClaimRole("t1", 1, "someone", "observe"), client=b"a.1")
    [part] = desk.sender.told(RoleGranted, b"a.1")
    assert (part.role, part.owner) == ("observe", "")
    desk.ask(SubmitCell("r1", "x = 1"), client=b"a.2")
    [refused] = desk.sender.told(Refused, b"a.2")
    assert (refused.request_id, refused.code) == ("r1", ErrorCode.CLUSTER_IN_USE)
    assert desk.scheduler.current is None
    desk.ask(ListCells("l1"), client=b"a.2")
    assert desk.sender.told(CellsListed, b"a.2")[0].cells == ()


def test_what_ranks_ask_goes_to_who_follows_and_can_answer(desk):
    desk.ask(SubmitCell("r1", "x = 1"))
    desk.scheduler.on_question(AskInput(2, "cell-1", 1, "name? "))
    desk.ask(FollowCell("f1"), client=b"looks")
    desk.ask(FollowCell("f2", can_answer=True), client=b"late")
    assert [desk.sender.told(AskPerson, who) != [] for who in (b"me", b"looks", b"late")] == [
        True,
        False,
        True,
    ]
    desk.ask(InputShown("cell-1", 2, 1, 7), client=b"late")
    desk.ask(AnswerInput("cell-9", 2, 1, "no"), client=b"late")
    desk.ask(AnswerInput("cell-1", 2, 1, "no"), client=b"me")
    desk.ask(AnswerInput("cell-1", 2, 1, "Ada"), client=b"late")
    assert desk.sender.sent_to_ranks(InputAnswered) == {2: [InputAnswered(1, "Ada")]}


def test_a_rank_that_asks_without_a_cell_is_refused(desk):
    desk.scheduler.on_question(AskInput(2, "cell-1", 4, "name? "))
    desk.scheduler.on_question(WithdrawInput(2, "cell-1", 4))
    [(answer,)] = desk.sender.sent_to_ranks(InputAnswered).values()
    assert (answer.number, answer.problem) == (4, "its cell has ended")


def test_who_leaves_can_have_the_cluster_kept(desk):
    for keeps_cluster in (False, True):
        desk.ask(ClaimRole("t1", 1, "program a.py", "visit", keeps_cluster=keeps_cluster))
        assert desk.client_registry.is_gone(100.0) is not keeps_cluster
    assert desk.client_registry.is_gone(1000.0)
