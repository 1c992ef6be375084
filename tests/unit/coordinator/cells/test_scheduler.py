from types import SimpleNamespace

import pytest

from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.cells.pull import Pull
from jupyter_dist.coordinator.cells.scheduler import PATIENCE_S, REGROUP_TIMEOUT_S, CellScheduler
from jupyter_dist.coordinator.cells.transfers import NAME_AFTER_S
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.errors import ErrorCode
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
            self._cluster.roster[rank].start_work("In[7]", now_s)

    def on_lost(self, rank, reason): ...

    def tick(self, now_s): ...

    def finish(self):
        self.is_over = True
        for rank in self.ranks:
            self._cluster.roster[rank].end_work()


@pytest.fixture
def scheduler(cluster):
    return CellScheduler(cluster.roster, cluster.rendezvous, cluster.sender)


@pytest.fixture
def job(cluster):
    return lambda *args, **more: Job(cluster, *args, **more)


def admit(scheduler, work, now_s):
    """Submit work, and let what is possible happen at once."""
    scheduler.submit(work, now_s)
    scheduler.advance(now_s)
    return work


def test_work_starts_at_once_when_everyone_is_idle_and_no_interrupt_can_hit_it(scheduler, job):
    scheduler.signals_under_way.add("limit-cell-1@a")
    work = admit(scheduler, job(), 0.0)
    assert work.started_s is None
    scheduler.signals_under_way.clear()
    scheduler.advance(5.0)
    assert scheduler.current is work
    assert work.started_s == 5.0


def test_work_is_admitted_in_the_order_it_came(scheduler, job):
    first, second, third = job("1", (0,)), job("2", (1,)), job("3", (0,))
    for work in (first, second, third):
        admit(scheduler, work, 0.0)
    assert [work.started_s for work in (first, second, third)] == [0.0, None, None]
    first.finish()
    scheduler.advance(1.0)
    assert scheduler.current is second
    assert third.started_s is None


def test_a_rank_that_still_runs_its_cell_keeps_the_fence_closed(scheduler, job, cluster):
    """The cell is over for its client (a time limit), but a rank is unresponsive."""
    unresponsive, following = job("1"), job("2", (0,))
    admit(scheduler, unresponsive, 0.0)
    for rank in (0, 1, 3):
        cluster.roster[rank].end_work()
    unresponsive.is_over = True
    admit(scheduler, following, 1.0)
    scheduler.advance(1.0 + PATIENCE_S)
    assert following.started_s is None
    (waiting,) = cluster.sender.told(CellWaiting)
    assert waiting.request_id == "2"
    assert scheduler.unresponsive_ranks == (2,)
    assert scheduler.judge() == HangVerdict("hang", scheduler.describe_unresponsive())
    for text in (waiting.reason, scheduler.judge().text):
        assert "rank 2 " in text
        assert "In[7]" in text
    assert "%dist_heal --ranks 2 " in waiting.reason
    cluster.roster[2].end_work()
    scheduler.advance(2.0)
    assert following.started_s == 2.0
    assert scheduler.unresponsive_ranks == ()
    assert scheduler.judge() == HangVerdict()


def test_the_same_reason_is_told_after_a_moment_and_once_to_each_who_waits(scheduler, job, cluster):
    admit(scheduler, job("1"), 0.0)
    scheduler.submit(job("2"), 0.0)
    scheduler.advance(PATIENCE_S * 0.9)
    assert cluster.sender.told(CellWaiting) == []
    scheduler.advance(1.0)
    scheduler.advance(2.0)
    scheduler.submit(job("3", client=b"other"), 3.0)
    scheduler.advance(4.0)
    told = [(to, message.request_id) for to, message, _ in cluster.sender.clients]
    assert told == [(b"me", "2"), (b"other", "3")]
    assert "%dist_interrupt" in cluster.sender.told(CellWaiting)[0].reason


def test_a_broken_communicator_is_formed_anew_before_the_next_work(scheduler, job, cluster):
    cluster.rendezvous.is_broken = True
    work = admit(scheduler, job(), 0.0)
    assert sorted(cluster.sender.sent_to_ranks(Regroup)) == [0, 1, 2, 3]
    assert work.started_s is None
    scheduler.advance(1.0)
    assert "generation 2" in cluster.sender.told(CellWaiting)[0].reason
    cluster.join()
    scheduler.advance(2.0)
    assert work.started_s == 2.0


def test_regrouping_waits_until_the_last_rank_is_idle(scheduler, job, cluster):
    work = admit(scheduler, job(), 0.0)
    cluster.rendezvous.is_broken = True
    work.is_over = True
    cluster.roster[0].end_work()
    scheduler.advance(1.0)
    assert cluster.sender.sent_to_ranks(Regroup) == {}
    work.finish()
    scheduler.advance(2.0)
    assert len(cluster.sender.sent_to_ranks(Regroup)) == 4


@pytest.mark.parametrize(
    ("lost", "given", "missing"),
    [
        ((2,), ("(rank 2: killed by SIGKILL)", "--ranks 0-1,3", "%dist_heal"), ()),
        ((0, 1, 2, 3), ("%dist_heal",), ("--ranks", "%dist_shrink")),
        ((2,), ("--on-loss stop",), ("%dist_heal",)),
    ],
    ids=["of some", "of all", "with which the cluster ends"],
)
def test_work_for_a_lost_rank_is_refused_with_the_ways_out_that_there_are(
    scheduler, job, cluster, lost, given, missing
):
    for rank in lost:
        cluster.lose(rank, "killed by SIGKILL")
    scheduler.ends_with_a_loss = "--on-loss stop" in given
    work = admit(scheduler, job(), 0.0)
    assert (work.started_s, scheduler.all_work) == (None, ())
    (refused,) = cluster.sender.told(Refused)
    assert refused.code == ErrorCode.CELL_REFUSED
    assert all(words in refused.reason for words in given)
    assert not any(words in refused.reason for words in missing)


def test_queued_work_is_refused_when_its_rank_is_lost_meanwhile(scheduler, job, cluster):
    running, doomed, fine = job("1", (0,)), job("2", (3,)), job("3", (1,))
    for work in (running, doomed, fine):
        admit(scheduler, work, 0.0)
    cluster.lose(3)
    running.finish()
    scheduler.advance(1.0)
    assert [message.request_id for message in cluster.sender.told(Refused)] == ["2"]
    assert scheduler.current is fine


def test_a_loss_while_regrouping_leaves_the_fence_open_for_the_others(scheduler, job, cluster):
    cluster.rendezvous.is_broken = True
    scheduler.advance(0.0)
    cluster.lose(1)
    work = admit(scheduler, job(ranks=(0, 2, 3)), 1.0)
    assert work.started_s == 1.0
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0, 2, 3]
    work.finish()
    following = admit(scheduler, job("2", ranks=(0, 2, 3)), 2 * REGROUP_TIMEOUT_S)
    assert following.started_s == 2 * REGROUP_TIMEOUT_S, "they wait for that generation no more"


def test_ranks_are_told_to_meet_anew_also_within_tasks_of_ipyparallel(scheduler, job, cluster):
    cluster.rendezvous.is_broken = True
    cluster.roster.start_task(2, "apply train", 0.0)
    work = admit(scheduler, job(), 0.0)
    assert sorted(cluster.sender.sent_to_ranks(Regroup)) == [0, 1, 2, 3]
    for rank in (0, 1, 3):
        cluster.rendezvous.on_hello(Hello(rank, 2, 100 + rank, f"peer-{rank}"))
    scheduler.advance(PATIENCE_S)
    (waiting,) = cluster.sender.told(CellWaiting)
    assert "rank 2 runs a task" in waiting.reason
    assert "(apply train)" in waiting.reason
    cluster.roster.end_task(2)
    cluster.join(2)
    cluster.join()
    scheduler.advance(1.1)
    assert work.started_s == 1.1


def test_under_tasks_that_never_cease_a_cell_waits_for_one_of_each_rank(scheduler, job, cluster):
    cluster.rendezvous.is_broken = True
    for rank in range(4):
        cluster.roster.start_task(rank, "apply first", 0.0)
    work = admit(scheduler, job(), 0.0)
    for rank in range(4):
        cluster.roster.end_task(rank)
        cluster.rendezvous.on_hello(Hello(rank, 2, 100 + rank, f"peer-{rank}"))
        cluster.roster.start_task((rank + 1) % 4, "apply next", 1.0)
        scheduler.advance(1.0)
    cluster.join()
    scheduler.advance(2.0)
    assert work.started_s == 2.0


def test_a_rank_that_runs_a_task_is_not_too_late_for_its_generation(scheduler, job, cluster):
    cluster.rendezvous.is_broken = True
    admit(scheduler, job(), 0.0)
    cluster.join(0, 1, 3)
    cluster.roster.start_task(2, "apply train", 0.0)
    scheduler.advance(REGROUP_TIMEOUT_S)
    scheduler.advance(2 * REGROUP_TIMEOUT_S - 1)
    assert cluster.rendezvous.problem == ""
    cluster.roster.end_task(2)
    scheduler.advance(3 * REGROUP_TIMEOUT_S - 2)
    assert cluster.sender.told(Refused) == [], "it has as much time as any from then on"
    scheduler.advance(3 * REGROUP_TIMEOUT_S)
    (refused,) = cluster.sender.told(Refused)
    assert "rank 2 " in refused.reason


def test_a_task_keeps_no_cell_nor_repair_from_ranks_that_need_not_meet(scheduler, job, cluster):
    cluster.roster.start_task(0, "apply train", 0.0)
    whole, others, repair = job("1"), job("2", (0, 1)), job("heal", ())
    admit(scheduler, whole, 0.0)
    assert whole.started_s == 0.0, "it waits on the rank, behind the task"
    whole.finish()
    cluster.lose(3)
    admit(scheduler, others, 1.0)
    assert others.started_s == 1.0
    others.finish()
    admit(scheduler, repair, 2.0)
    assert repair.started_s == 2.0
    assert cluster.sender.told(Refused) == []


def test_a_rank_that_has_not_begun_a_cell_that_is_over_is_not_called_unresponsive(
    scheduler, job, cluster
):
    cluster.roster.start_task(2, "apply train", 0.0)
    over = admit(scheduler, job("1"), 0.0)
    for rank in (0, 1, 3):
        cluster.roster[rank].end_work()
    over.is_over = True
    admit(scheduler, job("2"), 1.0)
    scheduler.advance(1.0 + PATIENCE_S)
    assert scheduler.unresponsive_ranks == ()
    (waiting,) = cluster.sender.told(CellWaiting)
    assert "rank 2 runs a task" in waiting.reason


def test_work_of_a_client_can_be_withdrawn_until_it_starts(scheduler, job, cluster):
    running, first, second = job("1"), job("2"), job("2", client=b"other")
    for work in (running, first, second):
        admit(scheduler, work, 0.0)
    assert scheduler.all_work == (running, first, second)
    assert scheduler.withdraw(b"other", "2") is True
    (refused,) = cluster.sender.told(Refused, b"other")
    assert (refused.request_id, refused.code) == ("2", ErrorCode.CELL_REFUSED)
    assert scheduler.withdraw(b"other", "2") is False
    assert scheduler.withdraw(b"me", "1") is False, "it runs"
    assert scheduler.all_work == (running, first)
    running.finish()
    scheduler.advance(1.0)
    assert scheduler.current is first


def test_all_that_waits_can_be_refused_at_once(scheduler, job, cluster):
    running = job("1")
    for work in (running, job("2"), job("3", client=b"other")):
        scheduler.submit(work, 0.0)
        scheduler.advance(0.0)
    scheduler.refuse_all("stopping")
    told = [(to, m.request_id, m.code, m.reason) for to, m, _ in cluster.sender.clients]
    assert told == [
        (b"me", "2", ErrorCode.CELL_REFUSED, "stopping"),
        (b"other", "3", ErrorCode.CELL_REFUSED, "stopping"),
    ]
    assert scheduler.all_work == (running,)


def test_what_is_put_first_begins_its_own_wait(scheduler, job, cluster):
    admit(scheduler, job("1"), 0.0)
    scheduler.put_first(job("2"), 10.0)
    scheduler.advance(10.0 + PATIENCE_S * 0.9)
    assert cluster.sender.told(CellWaiting) == []
    scheduler.put_first(job("3"), 10.0 + PATIENCE_S)
    scheduler.advance(10.0 + PATIENCE_S)
    assert [m.request_id for m in cluster.sender.told(CellWaiting)] == ["3", "2"]


def test_a_transfer_that_has_something_to_say_is_why_others_wait(scheduler, job, cluster):
    request = PullObject("p", "model", (0,))
    transfer = Pull(b"me", request, "t1", cluster.parts)
    transfer.start(0.0)
    scheduler.current = transfer
    assert scheduler.transfer is transfer
    assert scheduler.judge() == HangVerdict()
    scheduler.submit(job("2"), 0.0)
    scheduler.advance(NAME_AFTER_S)
    (waiting,) = (m for m in cluster.sender.told(CellWaiting) if m.request_id == "2")
    assert transfer.note
    assert waiting.reason == f"waits: {transfer.label}: {transfer.note}"
    assert scheduler.judge() == HangVerdict("", f"{transfer.label}: {transfer.note}")


def test_the_verdict_is_that_of_the_cell_also_within_a_repair(scheduler, cluster):
    cell = CellRun(b"me", SubmitCell("r1", "pass"), "cell-1", cluster.parts)
    cell.verdict = HangVerdict("hang", "rank 1 waits for rank 0")
    for current in (cell, SimpleNamespace(cell=cell)):
        scheduler.current = current
        assert scheduler.cell is cell
        assert scheduler.judge() == cell.verdict


def test_while_lost_ranks_are_taken_care_of_work_for_ranks_waits(scheduler, job, cluster):
    cluster.lose(3)
    scheduler.expects_recovery = lambda: True
    cell, repair = job("1"), job("heal", ())
    scheduler.submit(cell, 0.0)
    scheduler.advance(PATIENCE_S)
    assert cell.started_s is None
    assert len(cluster.sender.told(CellWaiting)) == 1
    scheduler.put_first(repair, 1.0)
    scheduler.advance(1.0)
    assert repair.started_s == 1.0
    assert cluster.sender.told(Refused) == []


def test_what_keeps_the_fence_closed_is_told_before_that_ranks_are_taken_care_of(
    scheduler, job, cluster
):
    scheduler.expects_recovery = lambda: True
    scheduler.signals_under_way.add("limit-cell-1@a")
    scheduler.submit(job(), 0.0)
    scheduler.advance(PATIENCE_S)
    (waiting,) = cluster.sender.told(CellWaiting)
    assert "interrupt" in waiting.reason


def test_work_for_a_rank_that_is_no_more_is_not_called_lost(scheduler, job, cluster):
    """The cluster has shrunk meanwhile; the work itself answers for it."""
    assert scheduler._refuse_lost(job("1", (0, 4))) is False
    assert scheduler._refuse_lost(job("2", (0, 5))) is False
    assert cluster.sender.clients == []


@pytest.mark.parametrize(("frameworks", "limit_s"), [(False, 60.0), (True, 120.0)])
def test_ranks_that_do_not_join_in_time_are_the_problem_and_the_work_is_refused_once(
    scheduler, job, cluster, frameworks, limit_s
):
    cluster.rendezvous.is_broken = True
    stuck, second = job("1"), job("2")
    scheduler.submit(stuck, 5.0)
    admit(scheduler, second, 5.0)
    cluster.join(0, 1, 3)
    cluster.rendezvous.is_forming_frameworks = frameworks
    scheduler.advance(5.0 + limit_s)
    assert cluster.sender.told(Refused) == []
    scheduler.advance(5.0 + limit_s + 0.001)
    (refused,) = cluster.sender.told(Refused)
    assert (refused.request_id, refused.code) == ("1", ErrorCode.CELL_REFUSED)
    assert "%dist_heal --ranks 2 " in refused.reason
    assert f" {limit_s:g} s " in refused.reason
    assert scheduler.all_work == (second,)


def test_work_without_ranks_comes_before_a_generation_that_could_not_be_formed(
    scheduler, job, cluster
):
    cluster.lose(3)
    cluster.rendezvous.give_up("rank 1: no route")
    repair = admit(scheduler, job("heal", ()), 0.0)
    assert repair.started_s == 0.0
    assert cluster.rendezvous.problem


def test_in_the_first_generation_nobody_is_too_late(starting):
    """The start has a watch of its own."""
    scheduler = CellScheduler(starting.roster, starting.rendezvous, starting.sender)
    scheduler._regrouping_until_s = 0.0
    scheduler.advance(1000.0)
    assert starting.rendezvous.problem == ""


def test_of_ranks_busy_with_a_cell_that_is_over_none_is_named_while_other_work_runs(
    scheduler, job, cluster
):
    work = admit(scheduler, job(), 0.0)
    assert scheduler.describe_unresponsive() == ""
    cluster.roster[0].end_work()
    work.is_over = True
    scheduler.advance(1.0)
    assert scheduler.describe_unresponsive().startswith("ranks 1-3 ")
    scheduler.current = work
    assert scheduler.describe_unresponsive() == ""
