from types import SimpleNamespace

import pytest

from jupyter_dist.coordinator.cells import CellRun
from jupyter_dist.coordinator.fence import PATIENCE_S, REGROUP_TIMEOUT_S, Fence
from jupyter_dist.coordinator.transfer_watch import NAME_AFTER_S
from jupyter_dist.coordinator.transfers import Transfer
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.model.verdict import Verdict
from jupyter_dist.protocol.messages import (
    CellWaiting,
    Hello,
    PullObject,
    Refused,
    Regroup,
    SubmitCell,
)


class Job:
    """Work that ends when it is told to."""

    def __init__(self, cluster, name="job", ranks=(0, 1, 2, 3), client=b"me"):
        self.client = client
        self.request_id = name
        self.ranks = ranks
        self.is_over = False
        self.started_s = None
        self._cluster = cluster

    def start(self, now_s):
        self.started_s = now_s
        for rank in self.ranks:
            self._cluster.roster.start_work(rank, "In[7]", now_s)

    def on_lost(self, rank, reason): ...

    def tick(self, now_s): ...

    def finish(self):
        self.is_over = True
        for rank in self.ranks:
            self._cluster.roster.end_work(rank)


@pytest.fixture
def fence(cluster):
    return Fence(cluster.roster, cluster.rendezvous, cluster.outbox)


@pytest.fixture
def job(cluster):
    return lambda *args, **more: Job(cluster, *args, **more)


def test_work_starts_at_once_when_everyone_is_idle(fence, job):
    work = job()
    fence.submit(work, 5.0)
    fence.advance(5.0)
    assert fence.current is work
    assert work.started_s == 5.0


def test_work_is_admitted_in_the_order_it_came(fence, job):
    first, second, third = job("1", (0,)), job("2", (1,)), job("3", (0,))
    for work in (first, second, third):
        fence.submit(work, 0.0)
    fence.advance(0.0)
    assert [work.started_s for work in (first, second, third)] == [0.0, None, None]
    first.finish()
    fence.advance(1.0)
    assert fence.current is second
    assert third.started_s is None


def test_a_rank_that_still_runs_its_cell_keeps_the_fence_closed(fence, job, cluster):
    """The cell is over for its client (a time limit), but a rank is deaf."""
    deaf, following = job("1"), job("2", (0,))
    fence.submit(deaf, 0.0)
    fence.advance(0.0)
    for rank in (0, 1, 3):
        cluster.roster.end_work(rank)
    deaf.is_over = True
    fence.submit(following, 1.0)
    fence.advance(1.0)
    fence.advance(1.0 + PATIENCE_S)
    assert following.started_s is None
    (waiting,) = cluster.outbox.told(CellWaiting)
    assert waiting.request_id == "2"
    assert waiting.reason.startswith(
        "waits: rank 2 is still busy with In[7] (deaf to the interrupt; "
        "%dist_heal --ranks 2 replaces it"
    )
    assert fence.deaf_ranks == (2,)
    assert fence.judge() == Verdict("hang", fence.describe_deaf())
    assert fence.judge().text.startswith("rank 2 is still busy with In[7]")
    cluster.roster.end_work(2)
    fence.advance(2.0)
    assert following.started_s == 2.0
    assert fence.deaf_ranks == ()
    assert fence.judge() == Verdict()


def test_a_short_wait_is_not_worth_a_word(fence, job, cluster):
    fence.submit(job("1"), 0.0)
    fence.advance(0.0)
    fence.submit(job("2"), 1.0)
    fence.advance(1.0 + PATIENCE_S * 0.9)
    assert cluster.outbox.told(CellWaiting) == []


def test_the_same_reason_is_told_once_to_each_who_waits(fence, job, cluster):
    fence.submit(job("1"), 0.0)
    fence.advance(0.0)
    fence.submit(job("2"), 0.0)
    fence.advance(1.0)
    fence.advance(2.0)
    fence.submit(job("3", client=b"other"), 3.0)
    fence.advance(4.0)
    told = [(to, message.request_id) for to, message, _ in cluster.outbox.clients]
    assert told == [(b"me", "2"), (b"other", "3")]
    assert cluster.outbox.told(CellWaiting)[0].reason.endswith("(%dist_interrupt stops it)")


def test_a_broken_communicator_is_formed_anew_before_the_next_work(fence, job, cluster):
    cluster.rendezvous.is_broken = True
    work = job()
    fence.submit(work, 0.0)
    fence.advance(0.0)
    assert sorted(cluster.outbox.sent_to_ranks(Regroup)) == [0, 1, 2, 3]
    assert work.started_s is None
    fence.advance(1.0)
    assert "joining generation 2" in cluster.outbox.told(CellWaiting)[0].reason
    cluster.join()
    fence.advance(2.0)
    assert work.started_s == 2.0


def test_regrouping_waits_until_the_last_rank_is_idle(fence, job, cluster):
    work = job()
    fence.submit(work, 0.0)
    fence.advance(0.0)
    cluster.rendezvous.is_broken = True
    work.is_over = True
    cluster.roster.end_work(0)
    fence.advance(1.0)
    assert cluster.outbox.sent_to_ranks(Regroup) == {}
    work.finish()
    fence.advance(2.0)
    assert len(cluster.outbox.sent_to_ranks(Regroup)) == 4


def test_an_interrupt_under_way_cannot_hit_the_next_cell(fence, job):
    fence.signals_under_way.add("limit-cell-1@a")
    work = job()
    fence.submit(work, 0.0)
    fence.advance(0.0)
    assert work.started_s is None
    fence.signals_under_way.clear()
    fence.advance(1.0)
    assert work.started_s == 1.0


def test_work_for_a_lost_rank_is_refused_with_a_way_out(fence, job, cluster):
    cluster.lose(2, "killed by SIGKILL")
    work = job()
    fence.submit(work, 0.0)
    fence.advance(0.0)
    assert work.started_s is None
    (refused,) = cluster.outbox.told(Refused)
    assert refused.error == "CellRefused"
    assert "rank 2 of this cluster is lost (rank 2: killed by SIGKILL)" in refused.reason
    assert "--ranks 0-1,3" in refused.reason


def test_the_others_of_a_lost_rank_still_take_work(fence, job, cluster):
    cluster.lose(2)
    work = job(ranks=(0, 1, 3))
    fence.submit(work, 0.0)
    fence.advance(0.0)
    assert work.started_s == 0.0
    assert cluster.outbox.told(Refused) == []


def test_when_every_rank_is_lost_no_others_are_offered(fence, job, cluster):
    for rank in range(4):
        cluster.lose(rank)
    fence.submit(job(), 0.0)
    (refused,) = cluster.outbox.told(Refused)
    assert "--ranks" not in refused.reason
    assert "%dist_shrink" not in refused.reason
    assert "%dist_heal replaces them." in refused.reason


def test_queued_work_is_refused_when_its_rank_is_lost_meanwhile(fence, job, cluster):
    running, doomed, fine = job("1", (0,)), job("2", (3,)), job("3", (1,))
    for work in (running, doomed, fine):
        fence.submit(work, 0.0)
    fence.advance(0.0)
    cluster.lose(3)
    running.finish()
    fence.advance(1.0)
    assert [message.request_id for message in cluster.outbox.told(Refused)] == ["2"]
    assert fence.current is fine


def test_a_loss_while_regrouping_leaves_the_fence_open_for_the_others(fence, job, cluster):
    cluster.rendezvous.is_broken = True
    fence.advance(0.0)
    cluster.lose(1)
    work = job(ranks=(0, 2, 3))
    fence.submit(work, 1.0)
    fence.advance(1.0)
    assert work.started_s == 1.0
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0, 2, 3]
    work.finish()
    following = job("2", ranks=(0, 2, 3))
    fence.submit(following, 2 * REGROUP_TIMEOUT_S)
    fence.advance(2 * REGROUP_TIMEOUT_S)
    assert following.started_s == 2 * REGROUP_TIMEOUT_S, "they wait for that generation no more"


def test_ranks_are_told_to_meet_anew_also_within_tasks_of_ipyparallel(fence, job, cluster):
    cluster.rendezvous.is_broken = True
    cluster.roster.start_task(2, "apply train", 0.0)
    work = job()
    fence.submit(work, 0.0)
    fence.advance(0.0)
    assert sorted(cluster.outbox.sent_to_ranks(Regroup)) == [0, 1, 2, 3]
    for rank in (0, 1, 3):
        cluster.rendezvous.on_hello(Hello(rank, 2, 100 + rank, f"peer-{rank}"))
    fence.advance(PATIENCE_S)
    (waiting,) = cluster.outbox.told(CellWaiting)
    assert waiting.reason == (
        "waits: all ranks must meet anew first, and rank 2 runs a task of ipyparallel "
        "(apply train); %dist_interrupt ends it"
    )
    cluster.roster.end_task(2)
    cluster.join(2)
    cluster.join()
    fence.advance(1.1)
    assert work.started_s == 1.1


def test_under_tasks_that_never_cease_a_cell_waits_for_one_of_each_rank(fence, job, cluster):
    cluster.rendezvous.is_broken = True
    for rank in range(4):
        cluster.roster.start_task(rank, "apply first", 0.0)
    work = job()
    fence.submit(work, 0.0)
    fence.advance(0.0)
    for rank in range(4):
        cluster.roster.end_task(rank)
        cluster.rendezvous.on_hello(Hello(rank, 2, 100 + rank, f"peer-{rank}"))
        cluster.roster.start_task((rank + 1) % 4, "apply next", 1.0)
        fence.advance(1.0)
    cluster.join()
    fence.advance(2.0)
    assert work.started_s == 2.0


def test_a_rank_that_runs_a_task_is_not_too_late_for_its_generation(fence, job, cluster):
    cluster.rendezvous.is_broken = True
    fence.submit(job(), 0.0)
    fence.advance(0.0)
    cluster.join(0, 1, 3)
    cluster.roster.start_task(2, "apply train", 0.0)
    fence.advance(REGROUP_TIMEOUT_S)
    fence.advance(2 * REGROUP_TIMEOUT_S - 1)
    assert cluster.rendezvous.problem == ""
    cluster.roster.end_task(2)
    fence.advance(3 * REGROUP_TIMEOUT_S - 2)
    assert cluster.outbox.told(Refused) == [], "it has as much time as any from then on"
    fence.advance(3 * REGROUP_TIMEOUT_S)
    (refused,) = cluster.outbox.told(Refused)
    assert "rank 2 has not joined it" in refused.reason


def test_a_task_keeps_no_cell_from_ranks_that_need_not_meet(fence, job, cluster):
    cluster.roster.start_task(0, "apply train", 0.0)
    whole = job("1")
    fence.submit(whole, 0.0)
    fence.advance(0.0)
    assert whole.started_s == 0.0, "it waits on the rank, behind the task"
    whole.finish()
    cluster.lose(3)
    others = job("2", (0, 1))
    fence.submit(others, 1.0)
    fence.advance(1.0)
    assert others.started_s == 1.0


def test_a_repair_begins_also_while_a_rank_runs_a_task(fence, job, cluster):
    cluster.lose(3)
    cluster.roster.start_task(0, "execute", 0.0)
    repair = job("heal", ())
    fence.submit(repair, 1.0)
    fence.advance(1.0)
    assert repair.started_s == 1.0


def test_a_rank_that_has_not_begun_a_cell_that_is_over_is_not_called_deaf(fence, job, cluster):
    cluster.roster.start_task(2, "apply train", 0.0)
    over = job("1")
    fence.submit(over, 0.0)
    fence.advance(0.0)
    for rank in (0, 1, 3):
        cluster.roster.end_work(rank)
    over.is_over = True
    fence.submit(job("2"), 1.0)
    fence.advance(1.0)
    fence.advance(1.0 + PATIENCE_S)
    assert fence.deaf_ranks == ()
    (waiting,) = cluster.outbox.told(CellWaiting)
    assert waiting.reason == (
        "waits: rank 2 runs a task of ipyparallel before the last cell; %dist_interrupt ends it"
    )


def test_work_of_a_client_can_be_withdrawn_until_it_starts(fence, job, cluster):
    running, first, second = job("1"), job("2"), job("2", client=b"other")
    for work in (running, first, second):
        fence.submit(work, 0.0)
    fence.advance(0.0)
    assert fence.all_work == (running, first, second)
    assert fence.withdraw(b"other", "2") is True
    assert [(m.request_id, m.error) for m in cluster.outbox.told(Refused, b"other")] == [
        ("2", "CellRefused")
    ]
    assert fence.withdraw(b"other", "2") is False
    assert fence.withdraw(b"me", "1") is False, "it runs"
    assert fence.all_work == (running, first)
    running.finish()
    fence.advance(1.0)
    assert fence.current is first


def test_without_work_there_is_none(fence):
    assert fence.all_work == ()
    assert fence.cell is None
    assert fence.transfer is None
    assert fence.judge() == Verdict()


def test_all_that_waits_can_be_refused_at_once(fence, job, cluster):
    running = job("1")
    for work in (running, job("2"), job("3", client=b"other")):
        fence.submit(work, 0.0)
        fence.advance(0.0)
    fence.refuse_all("the cluster stops")
    told = [(to, m.request_id, m.error, m.reason) for to, m, _ in cluster.outbox.clients]
    assert told == [
        (b"me", "2", "CellRefused", "the cluster stops"),
        (b"other", "3", "CellRefused", "the cluster stops"),
    ]
    assert fence.all_work == (running,)


def test_what_is_put_first_begins_its_own_wait(fence, job, cluster):
    fence.submit(job("1"), 0.0)
    fence.advance(0.0)
    fence.put_first(job("2"), 10.0)
    fence.advance(10.0 + PATIENCE_S * 0.9)
    assert cluster.outbox.told(CellWaiting) == []
    fence.put_first(job("3"), 10.0 + PATIENCE_S)
    fence.advance(10.0 + PATIENCE_S)
    assert [m.request_id for m in cluster.outbox.told(CellWaiting)] == ["3", "2"]


def test_a_transfer_that_has_something_to_say_is_why_others_wait(fence, job, cluster):
    request = PullObject("p", "model", (0,))
    transfer = Transfer(b"me", request, [], "t1", cluster.parts)
    transfer.start(0.0)
    fence.current = transfer
    assert fence.transfer is transfer
    assert fence.judge() == Verdict()
    fence.submit(job("2"), 0.0)
    fence.advance(NAME_AFTER_S)
    (waiting,) = (m for m in cluster.outbox.told(CellWaiting) if m.request_id == "2")
    assert transfer.note
    assert waiting.reason == f"waits: {transfer.label}: {transfer.note}"
    assert fence.judge() == Verdict("", f"{transfer.label}: {transfer.note}")


def test_the_verdict_is_that_of_the_cell_also_within_a_repair(fence, cluster):
    cell = CellRun(b"me", SubmitCell("r1", "pass"), "cell-1", cluster.parts)
    cell.verdict = Verdict("hang", "rank 1 waits for rank 0")
    for current in (cell, SimpleNamespace(cell=cell)):
        fence.current = current
        assert fence.cell is cell
        assert fence.judge() == cell.verdict


def test_while_lost_ranks_are_taken_care_of_work_for_ranks_waits(fence, job, cluster):
    cluster.lose(3)
    fence.expects_recovery = lambda: True
    cell, repair = job("1"), job("heal", ())
    fence.submit(cell, 0.0)
    fence.advance(PATIENCE_S)
    assert cell.started_s is None
    assert [m.reason for m in cluster.outbox.told(CellWaiting)] == [
        "waits: lost ranks are taken care of first"
    ]
    fence.put_first(repair, 1.0)
    fence.advance(1.0)
    assert repair.started_s == 1.0
    assert cluster.outbox.told(Refused) == []


def test_what_keeps_the_fence_closed_is_told_before_that_ranks_are_taken_care_of(
    fence, job, cluster
):
    fence.expects_recovery = lambda: True
    fence.signals_under_way.add("limit-cell-1@a")
    fence.submit(job(), 0.0)
    fence.advance(PATIENCE_S)
    (waiting,) = cluster.outbox.told(CellWaiting)
    assert waiting.reason == "waits: an interrupt is under way"


def test_a_cluster_that_ends_with_a_loss_refuses_work_for_the_lost_rank(fence, job, cluster):
    cluster.lose(3)
    fence.ends_with_a_loss = True
    work = job()
    fence.submit(work, 0.0)
    fence.advance(0.0)
    (refused,) = cluster.outbox.told(Refused)
    assert refused.error == "CellRefused"
    assert "--on-loss stop" in refused.reason
    assert fence.all_work == ()


def test_work_for_a_rank_that_is_no_more_is_not_called_lost(fence, job, cluster):
    """The cluster has shrunk meanwhile; the work itself answers for it."""
    assert fence._refuse_lost(job("1", (0, 4))) is False
    assert fence._refuse_lost(job("2", (0, 5))) is False
    assert cluster.outbox.clients == []


@pytest.mark.parametrize(("frameworks", "limit_s"), [(False, 60.0), (True, 120.0)])
def test_ranks_that_do_not_join_in_time_are_the_problem_and_the_work_is_refused_once(
    fence, job, cluster, frameworks, limit_s
):
    cluster.rendezvous.is_broken = True
    stuck, second = job("1"), job("2")
    fence.submit(stuck, 5.0)
    fence.submit(second, 5.0)
    fence.advance(5.0)
    cluster.join(0, 1, 3)
    cluster.rendezvous.is_forming_frameworks = frameworks
    fence.advance(5.0 + limit_s)
    assert cluster.outbox.told(Refused) == []
    fence.advance(5.0 + limit_s + 0.001)
    (refused,) = cluster.outbox.told(Refused)
    assert (refused.request_id, refused.error) == ("1", "CellRefused")
    assert "rank 2 has not joined it" in refused.reason
    assert fence.all_work == (second,)


def test_work_without_ranks_comes_before_a_generation_that_could_not_be_formed(fence, job, cluster):
    cluster.lose(3)
    cluster.rendezvous.give_up("rank 1: no route")
    repair = job("heal", ())
    fence.submit(repair, 0.0)
    fence.advance(0.0)
    assert repair.started_s == 0.0
    assert cluster.rendezvous.problem


def test_in_the_first_generation_nobody_is_too_late(starting):
    """The start has a watch of its own."""
    fence = Fence(starting.roster, starting.rendezvous, starting.outbox)
    fence._regrouping_until_s = 0.0
    fence.advance(1000.0)
    assert starting.rendezvous.problem == ""


def test_of_ranks_busy_with_a_cell_that_is_over_none_is_named_while_other_work_runs(
    fence, job, cluster
):
    work = job()
    fence.submit(work, 0.0)
    fence.advance(0.0)
    assert fence.describe_deaf() == ""
    cluster.roster.end_work(0)
    work.is_over = True
    fence.advance(1.0)
    assert fence.describe_deaf().startswith("ranks 1-3 are still busy with In[7]")
    fence.current = work
    assert fence.describe_deaf() == ""
