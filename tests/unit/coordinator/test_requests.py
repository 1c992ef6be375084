import signal

import pytest

from jupyter_dist.control.router import Received
from jupyter_dist.coordinator.audience import Audience
from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.recording import Recording
from jupyter_dist.coordinator.requests import Requests
from jupyter_dist.coordinator.syncing import Syncing
from jupyter_dist.errors import VersionMismatch
from jupyter_dist.model.topology import Topology
from jupyter_dist.protocol.messages import (
    CellAdmitted,
    CellInterruptSent,
    InterruptCell,
    ObjectsPushed,
    ObjectsStored,
    OutputReplayed,
    PushObjects,
    Refused,
    ReplayOutput,
    RunCell,
    StopCluster,
    StoreObjects,
    SubmitCell,
    WithdrawCell,
)


@pytest.fixture
def desk(cluster):
    """The desk; `ask(message, client, buffers)` hands a request in and lets the fence work."""
    cluster.fence = Fence(cluster.roster, cluster.rendezvous, cluster.outbox)
    audience = Audience(cluster.roster, cluster.rendezvous, cluster.outbox, 900.0, ", ".join)
    syncing = Syncing(cluster.roster, cluster.outbox, lambda _host, _command: False)
    recording = Recording(cluster.roster, cluster.outbox, lambda _host, _command: False)
    cluster.requests = Requests(
        cluster.roster,
        cluster.rendezvous,
        cluster.fence,
        audience,
        cluster.outbox,
        syncing,
        recording,
    )

    def ask(message, client=b"me", buffers=(), problem=None):
        received = Received(client, message, list(buffers), problem)
        cluster.requests.on_request(received, lambda *_: Topology(cluster="demo"), 1.0)
        cluster.fence.advance(1.0)

    cluster.ask = ask
    return cluster


def test_a_cell_goes_to_every_rank_it_names(desk):
    desk.ask(SubmitCell("r1", "x = 1", (1, 2)))
    assert sorted(desk.outbox.sent_to_ranks(RunCell)) == [1, 2]
    desk.fence.advance(2.0)
    assert desk.outbox.told(CellAdmitted)[0].ranks == (1, 2)


def test_interrupting_reaches_only_ranks_that_run_something(desk):
    desk.ask(InterruptCell("i0"))
    assert desk.outbox.told(CellInterruptSent)[0].ranks == ()
    desk.ask(SubmitCell("r1", "x = 1", (0, 3)))
    desk.ask(InterruptCell("i1", (1, 3)))
    assert desk.outbox.told(CellInterruptSent)[1].ranks == (3,)
    assert ((3,), signal.SIGINT, "i1") in desk.outbox.signals


def test_a_waiting_cell_that_is_withdrawn_never_runs(desk):
    desk.ask(SubmitCell("r1", "x = 1"), client=b"one")
    desk.ask(SubmitCell("r2", "y = 1"), client=b"two")
    desk.ask(WithdrawCell("r2"), client=b"two")
    [refused] = desk.outbox.told(Refused, b"two")
    assert "no rank ran it" in refused.reason
    assert desk.outbox.signals == [], "the other client's cell is left in peace"


def test_withdrawing_a_running_cell_interrupts_it(desk):
    desk.ask(SubmitCell("r1", "x = 1"))
    desk.ask(WithdrawCell("r1"), client=b"somebody else")
    assert desk.outbox.signals == []
    desk.ask(WithdrawCell("r1"))
    assert desk.outbox.signals == [((0, 1, 2, 3), signal.SIGINT, "r1")]


def test_a_small_push_goes_to_each_rank_and_a_large_one_once_to_each_host(desk):
    desk.ask(PushObjects("p1", ("x",), (1,)), buffers=[b"small"])
    assert sorted(desk.outbox.sent_to_ranks(StoreObjects)) == [0, 1, 2, 3]
    assert desk.outbox.placed == []
    for rank in range(4):
        desk.roster.end_work(rank)
        desk.fence.current.on_answer(ObjectsStored(rank, "p1"), [])
    desk.fence.advance(1.0)
    assert desk.outbox.told(ObjectsPushed)[0].problems == {}
    desk.outbox.forget()
    desk.ask(PushObjects("p2", ("x",), (2,)), buffers=[b"pickle", bytes(2 << 20)])
    assert [host for host, _ in desk.outbox.placed] == ["a", "b"]
    assert desk.outbox.sent_to_ranks(StoreObjects) == {}, "they wait for their host"


def test_a_request_that_cannot_be_read_is_refused_with_the_reason(desk):
    desk.ask(None, problem=VersionMismatch("jupyter-dist/1", "jupyter-dist/9"))
    [refused] = desk.outbox.told(Refused)
    assert refused.error == "VersionMismatch"
    assert "jupyter-dist/9" in refused.reason


def test_what_the_last_cell_said_can_be_asked_for(desk):
    desk.ask(SubmitCell("r1", "x = 1"))
    desk.ask(ReplayOutput("again"), client=b"late")
    [replayed] = desk.outbox.told(OutputReplayed, b"late")
    assert replayed.is_running
    assert replayed.code == "x = 1"


def test_who_asked_for_the_end_is_remembered_to_be_answered_last(desk):
    desk.ask(StopCluster("s1"))
    assert desk.requests.stop_request == (b"me", "s1")
    assert desk.outbox.told(object) == []
