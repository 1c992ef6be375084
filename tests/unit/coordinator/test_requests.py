import signal
from typing import get_args

import msgspec
import pytest
from fakes.coming_agents import ComingAgents
from fakes.recovery import make_recovery

from jupyter_dist.control.router import Received
from jupyter_dist.coordinator.cells.uploads import PATIENCE_S
from jupyter_dist.coordinator.clients.client_registry import ClientRegistry
from jupyter_dist.coordinator.clients.code_sync import CodeSync
from jupyter_dist.coordinator.ipyparallel.controller import IpyparallelController
from jupyter_dist.coordinator.observation.call_records import CallRecords
from jupyter_dist.coordinator.requests import Parts, Requests
from jupyter_dist.errors import ErrorCode, VersionMismatch
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import (
    CellAdmitted,
    CellEvents,
    CellFollowed,
    CellInterruptSent,
    CellOutput,
    CellResult,
    CellsListed,
    ClaimRole,
    FollowCell,
    FromClient,
    InterruptCell,
    ListCells,
    ObjectsPushed,
    ObjectsStored,
    Output,
    OutputReplayed,
    OutputSeen,
    PushObjects,
    RankFinished,
    Refused,
    ReplayOutput,
    RoleGranted,
    RunCell,
    SendPiece,
    StopCluster,
    StoreObjects,
    SubmitCell,
    WithdrawCell,
)
from jupyter_dist.protocol.unreadable import Unreadable


@pytest.fixture
def desk(cluster):
    """The desk; `ask(message, client, buffers)` hands a request in and lets the fence work."""
    make_recovery(cluster)
    client_registry = ClientRegistry(
        cluster.roster, cluster.rendezvous, cluster.sender, 900.0, ComingAgents()
    )
    code_sync = CodeSync(cluster.roster, cluster.sender)
    recording = CallRecords(cluster.roster, cluster.sender)
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
            describe=lambda *_: Topology(cluster="demo"),
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
    assert desk.sender.told(CellAdmitted)[0].ranks == (1, 2)


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
    assert desk.sender.placed == []
    for rank in range(4):
        desk.roster.end_work(rank)
        desk.scheduler.current.on_answer(ObjectsStored(rank, "transfer-1"), [])
    desk.scheduler.advance(1.0)
    assert desk.sender.told(ObjectsPushed)[0].problems == {}
    desk.sender.forget()
    desk.ask(PushObjects("p2", ("x",), (2,)), buffers=[b"pickle", bytes(2 << 20)])
    assert [host for host, _ in desk.sender.placed] == ["a", "b"]
    assert desk.sender.sent_to_ranks(StoreObjects) == {}, "they wait for their host"


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
            VersionMismatch("jupyter-dist/2", "jupyter-dist/9"),
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
    desk.roster.end_work(0)
    desk.scheduler.advance(2.0)
    assert desk.scheduler.current is None
    while not (last := desk.sender.told(CellEvents, b"late")[-1]).is_last:
        desk.ask(OutputSeen("cell-1", last.size_bytes), client=b"late")
    assert last.events[-1] == RankFinished(0, "ok", 1.0)


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
