import signal

import pytest
from fakes.recovery import make_recovery

from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.observation.rank_queries import Answers
from jupyter_dist.coordinator.recovery.healing import (
    END_PATIENCE_S,
    HOST_MOST_EXCUSED_S,
    HOST_PATIENCE_S,
    NAMES_PATIENCE_S,
    NAMING_AFTER_S,
    find_missing,
)
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.rank import name_along
from jupyter_dist.model.ranks.variable_facts import NameInfo, RankNames
from jupyter_dist.model.spec.on_loss import OnLoss
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    Answered,
    CellNote,
    CellResult,
    CellWaiting,
    ErrorInfo,
    HealProgress,
    HealRanks,
    Hello,
    NoAnswer,
    NotReady,
    Question,
    RanksHealed,
    Ready,
    Refused,
    Regroup,
    RunCell,
    ShrinkCluster,
    Shrunk,
    SubmitCell,
    Welcome,
)

BOOM = ErrorInfo("ValueError", "boom")


class Ward:
    """A cluster with lost ranks, and what is said to it while it heals."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.sender, self.roster, self.scheduler = cluster.sender, cluster.roster, cluster.scheduler
        self.now_s = 1.0

    def __getattr__(self, name):
        return getattr(self.cluster, name)

    def ask(self, request):
        self.recovery.on_request(b"me", request, self.now_s)
        self.go_on()

    def heal(self, *ranks):
        """Lose ranks, and ask for others in their place."""
        self.lose(*ranks)
        self.ask(HealRanks("h1"))

    def mark_setup(self, *codes):
        """Let cells with these codes have run as setup cells, as In[1] and so on."""
        for label, code in enumerate(codes, 1):
            request = SubmitCell("r1", code, label=label, is_setup=True)
            self.setup_cells.remember(request, {0: "ok"})

    def end_setup(self, rank, status="ok", error=None):
        """Let a rank end the setup cell that it was sent last."""
        run = self.sender.sent_to_ranks(RunCell)[rank][-1]
        result = CellResult(rank, run.cell_id, status, 0.1, error=error)
        self.scheduler.cell.on_message(result, [], self.now_s)
        self.roster[rank].end_work()
        self.go_on()

    def go_on(self, seconds=0.0):
        self.now_s += seconds
        self.questions.tick(self.now_s)
        self.recovery.tick(self.now_s)
        self.scheduler.advance(self.now_s)

    def lose(self, *ranks):
        for rank in ranks:
            self.losses.on_exit(pb.EngineExited(engine=self.roster[rank].name, exit_code=3), 0.0)
        self.losses.tick(self.now_s)

    def join(self, *ranks, notes=()):
        generation = self.rendezvous.generation
        for rank in ranks:
            self.rendezvous.on_hello(Hello(rank, generation, 900 + rank, f"peer-{rank}"))
        for rank in ranks:
            self.rendezvous.on_ready(Ready(rank, generation, notes))
        self.go_on()

    def answer_names(self, **names):
        """Let every rank answer the question for its names; `r2="a b"` are those of rank 2."""
        for rank, asked in self.sender.sent_to_ranks(Question).items():
            found = tuple(NameInfo(name, "int") for name in names.get(f"r{rank}", "x").split())
            answer = Answered(rank, asked[-1].request_id, RankNames(found))
            self.questions.on_answered(answer)
        self.go_on()

    def told(self, kind):
        return self.sender.told(kind, b"me")


def make_cell(ward):
    return CellRun(b"me", SubmitCell("c1", "x = 1"), "cell-9", ward.parts)


@pytest.fixture
def make_ward(cluster):
    """Four idle ranks on hosts a and b, which are up."""

    def make(**options):
        for host in cluster.roster.hosts.values():
            host.joined = pb.Joined(cpu_count=4)
        make_recovery(cluster, **options)
        return Ward(cluster)

    return make


@pytest.fixture
def ward(make_ward):
    return make_ward()


def test_a_lost_rank_gets_a_new_engine_and_the_others_a_new_generation(ward):
    ward.heal(2)
    healing = ward.scheduler.current
    assert ((2,), signal.SIGKILL, "heal-h1") in ward.sender.signals, "it may still be there"
    assert ward.hosts.started == [(2,)]
    assert ward.roster[2].name == "2.1"
    regrouped = ward.sender.sent_to_ranks(Regroup)
    assert {rank: asked[0].rank for rank, asked in regrouped.items()} == {0: 0, 1: 1, 3: 3}
    ward.join(0, 1, 2, 3)
    assert set(ward.sender.sent_to_ranks(Welcome)) == {0, 1, 2, 3}
    assert healing.replaced == (), "not before all is well"
    ward.answer_names(r0="a b", r1="a b", r2="b", r3="a b")
    (healed,) = ward.told(RanksHealed)
    assert (healed.generation, healed.replaced) == (2, {2: "b"})
    assert healed.missing == {"a": (2,)}
    assert healing.replaced == (2,)
    assert ward.scheduler.current is None
    assert not ward.losses.crashes


def test_a_rank_that_lives_is_killed_at_once_and_replaced_when_it_has_ended(ward):
    ward.ask(HealRanks("h1", (1,)))
    assert ((1,), signal.SIGKILL, "replace-h1") in ward.sender.signals
    assert ward.hosts.started == []
    assert "rank 1 " in ward.told(HealProgress)[-1].stage
    ward.lose(1)
    ward.go_on()
    assert ward.hosts.started == [(1,)]


def test_whoever_is_asked_for_all_lost_ranks_are_replaced_because_no_generation_has_gaps(ward):
    ward.lose(1, 2)
    ward.ask(HealRanks("h1", (1,)))
    assert ward.hosts.started == [(1, 2)]


def test_a_rank_lost_while_another_one_ends_is_replaced_with_it(ward):
    ward.ask(HealRanks("h1", (1,)))
    ward.roster.hosts["b"].is_lost = True
    ward.lose(1, 3)
    ward.go_on()
    assert ((3,), signal.SIGKILL, "heal-h1") in ward.sender.signals
    assert (ward.hosts.restarted, ward.hosts.started) == (["b"], [])
    ward.lose(2)
    ward.hosts.let_back("b")
    ward.go_on()
    assert (ward.hosts.restarted, ward.hosts.started) == (["b"], [(1, 2, 3)])


def test_with_every_rank_there_nothing_is_healed_nor_left_out(ward):
    ward.ask(HealRanks("h1"))
    ward.ask(ShrinkCluster("s1"))
    assert [refused.code for refused in ward.told(Refused)] == [ErrorCode.USAGE_ERROR] * 2
    assert ward.rendezvous.generation == 1
    assert ward.recovery.note == "", "that is only about what the cluster does by itself"


def test_ranks_of_a_host_that_does_not_come_back_move_to_one_with_room(ward):
    ward.roster.hosts["b"].is_lost = True
    ward.hosts.failed["b"] = "ssh: connect to host b port 22: No route to host"
    ward.heal(2, 3)
    assert [ward.roster[rank].info.host for rank in (2, 3)] == ["a", "a"]
    assert [ward.roster[rank].info.local_rank for rank in range(4)] == [0, 1, 2, 3]
    assert {ward.roster[rank].info.local_world_size for rank in range(4)} == {4}


def test_without_a_place_the_way_out_is_told_and_nothing_was_changed(ward):
    ward.roster.hosts["b"].is_lost = True
    ward.roster.hosts["a"].joined = pb.Joined(cpu_count=2)
    ward.hosts.failed["b"] = "ssh: unreachable"
    ward.heal(2)
    (refused,) = ward.told(Refused)
    assert refused.reason.startswith("rank 2 ")
    assert "(ssh: unreachable)" in refused.reason
    assert "%dist_shrink" in refused.reason
    assert ward.rendezvous.generation == 1
    assert len(ward.roster.ranks_in(EngineState.IDLE)) == 3


def test_new_ranks_run_the_setup_cells_and_what_went_wrong_is_told(ward):
    ward.mark_setup("import a", "b = a.load()")
    ward.heal(1)
    ward.join(0, 1, 2, 3, notes=("mesh: stale",))
    ward.end_setup(1)
    ward.end_setup(1, "raised", BOOM)
    ward.answer_names()
    assert set(ward.sender.sent_to_ranks(RunCell)) == {1}
    (healed,) = ward.told(RanksHealed)
    assert healed.replayed == ("In[1]", "In[2]")
    assert [problem.partition("In[2]")[2] for problem in healed.problems] == [
        " on rank 1: ValueError: boom"
    ]
    assert healed.notes == ("mesh: stale",)


def test_a_new_rank_that_dies_at_its_birth_fails_the_healing_and_frees_the_others(ward):
    ward.heal(2)
    ward.losses.on_exit(pb.EngineExited(engine="2.1", exit_code=1), 0.0)
    ward.losses.tick(ward.now_s)
    ward.go_on()
    (refused,) = ward.told(Refused)
    assert refused.code == ErrorCode.HEAL_FAILED
    assert ward.roster[2].state is EngineState.LOST
    ward.join(0, 1, 3)
    assert len(ward.roster.ranks_in(EngineState.IDLE)) == 3


def test_the_end_of_a_replaced_engine_is_of_no_interest(ward):
    ward.heal(2)
    ward.losses.on_exit(pb.EngineExited(engine="2", signal=9), 0.0)
    ward.losses.tick(ward.now_s)
    assert ward.roster[2].is_present


def test_a_generation_that_cannot_be_formed_is_told_to_the_next_cell_and_tried_again(ward):
    ward.rendezvous.is_broken = True
    ward.go_on()
    assert ward.rendezvous.generation == 2
    ward.rendezvous.on_hello(Hello(0, 2, 1, "p"))
    ward.rendezvous.on_not_ready(NotReady(0, 2, "no route"))
    assert len(ward.roster.ranks_in(EngineState.IDLE)) == 4
    ward.go_on()
    assert ward.rendezvous.generation == 2, "not again and again"
    for name in ("c1", "c2"):
        ward.scheduler.submit(CellRun(b"me", SubmitCell(name, "x"), name, ward.parts), ward.now_s)
    ward.go_on()
    (refused,) = ward.told(Refused)
    assert (refused.request_id, "rank 0: no route" in refused.reason) == ("c1", True)
    assert not ward.sender.sent_to_ranks(RunCell), "not without a communicator"
    assert ward.rendezvous.generation == 3


def test_shrinking_leaves_out_lost_ranks_and_numbers_the_others_anew(ward):
    ward.lose(1)
    ward.ask(ShrinkCluster("s1"))
    regrouped = ward.sender.sent_to_ranks(Regroup)
    assert {rank: asked[0].rank for rank, asked in regrouped.items()} == {0: 0, 1: 1, 2: 2}
    assert [engine.name for engine in ward.roster.engines] == ["0", "2", "3"]
    ward.join(0, 1, 2)
    (shrunk,) = ward.told(Shrunk)
    assert (shrunk.world_size, shrunk.renumbered) == (3, {0: 0, 2: 1, 3: 2})
    infos = [engine.info for engine in ward.roster.engines]
    assert [(info.host, info.local_rank, info.local_world_size) for info in infos] == [
        ("a", 0, 1),
        ("b", 0, 2),
        ("b", 1, 2),
    ]


def test_ranks_that_are_lost_while_the_cluster_shrinks_are_left_out_too(ward, data_axis):
    ward.lose(1)
    ward.ask(ShrinkCluster("s1"))
    ward.rendezvous.on_hello(Hello(0, ward.rendezvous.generation, 900, "peer-0"))
    ward.lose(1)
    ward.go_on()
    assert ward.told(Refused) == []
    ward.join(0, 1)
    (shrunk,) = ward.told(Shrunk)
    assert (shrunk.world_size, shrunk.renumbered) == (2, {0: 0, 3: 1})
    assert [engine.name for engine in ward.roster.engines] == ["0", "3"]
    notes = " ".join(shrunk.notes)
    assert "rank 2 was lost meanwhile" in notes
    assert notes.count("data=4") == 1
    assert ward.scheduler.current is None


def test_a_cluster_whose_last_ranks_are_lost_cannot_shrink(ward):
    ward.lose(1)
    ward.ask(ShrinkCluster("s1"))
    ward.lose(0, 1, 2)
    ward.go_on()
    (refused,) = ward.told(Refused)
    assert "no rank is left" in refused.reason


@pytest.fixture
def data_axis(ward):
    ward.roster.axes = Axes(("data",), (4,))
    yield
    name_along(Axes())


def test_shrinking_drops_axes_and_says_so_once(ward, data_axis):
    ward.lose(1)
    ward.ask(ShrinkCluster("s1"))
    ward.join(0, 1, 2)
    (shrunk,) = ward.told(Shrunk)
    assert any("data=4" in note for note in shrunk.notes)
    assert not ward.roster.axes
    assert ward.rendezvous.take_notes() == ()


def test_healing_keeps_axes(ward, data_axis):
    ward.lose(1)
    ward.ask(HealRanks("h1"))
    assert ward.roster.axes.names == ("data",)


@pytest.mark.parametrize("request_", [HealRanks("r1"), ShrinkCluster("r1")])
def test_who_repairs_waits_for_the_task_of_a_rank_and_says_so(ward, request_):
    ward.roster.start_task(3, "apply train", 0.0)
    ward.lose(1)
    ward.ask(request_)
    kept = ward.roster.ranks_in_tasks[0]
    others = [rank for rank in range(ward.roster.world_size) if rank != kept]
    generation = ward.rendezvous.generation
    for rank in others:
        ward.rendezvous.on_hello(Hello(rank, generation, 900 + rank, f"peer-{rank}"))
    for _ in range(3):
        ward.go_on(59.0)
    assert ward.told(Refused) == []
    assert f"rank {kept} runs a task" in ward.told(HealProgress)[-1].stage
    assert "(apply train)" in ward.told(HealProgress)[-1].stage
    ward.roster.end_task(kept)
    ward.go_on(59.0)
    assert ward.told(Refused) == []
    ward.go_on(2.0)
    (refused,) = ward.told(Refused)
    assert f"rank {kept} " in refused.reason


def test_a_host_without_ranks_leaves_with_them(ward):
    ward.roster.hosts["a"].is_lost = True
    ward.lose(0, 1)
    ward.ask(ShrinkCluster("s1"))
    assert list(ward.roster.hosts) == ["b"]
    assert {engine.info.host_rank for engine in ward.roster.engines} == {0}


def test_when_asked_nothing_happens_by_itself(ward):
    ward.lose(1)
    ward.go_on(5.0)
    assert ward.hosts.started == []
    assert ward.recovery.announce(1) == ""


def test_a_cluster_may_heal_by_itself_and_cells_wait_for_that(make_ward):
    ward = make_ward(on_loss=OnLoss.HEAL)
    ward.lose(1)
    ward.scheduler.submit(make_cell(ward), ward.now_s)
    ward.scheduler.advance(ward.now_s)
    assert not ward.sender.sent_to_ranks(RunCell)
    ward.go_on(1.0)
    assert ward.hosts.started == [(1,)]
    assert ward.told(CellWaiting)
    ward.join(0, 1, 2, 3, notes=("mesh: stale",))
    ward.answer_names()
    ward.go_on(1.0)
    assert set(ward.sender.sent_to_ranks(RunCell)) == {0, 1, 2, 3}
    ward.go_on(1.0)
    assert CellNote("mesh: stale") in ward.sender.cell_events()
    assert not ward.told(Refused)


def test_healing_by_itself_that_fails_is_told_once_and_not_tried_again(make_ward):
    ward = make_ward(on_loss=OnLoss.HEAL)
    ward.roster.hosts["b"].is_lost = True
    ward.roster.hosts["a"].joined = pb.Joined(cpu_count=2)
    ward.hosts.failed["b"] = "no route"
    ward.lose(2, 3)
    for _ in range(3):
        ward.go_on(1.0)
    assert ward.hosts.restarted == ["b"]
    assert "rank 2 " in ward.recovery.note
    assert not any(crash.outlook for crash in ward.losses.crashes.values())
    ward.scheduler.submit(make_cell(ward), ward.now_s)
    assert ward.told(Refused)


def test_a_cluster_may_go_on_without_by_itself(make_ward):
    ward = make_ward(on_loss=OnLoss.CONTINUE)
    ward.lose(3)
    ward.go_on()
    assert ward.roster.world_size == 3
    ward.join(0, 1, 2)
    assert ward.scheduler.current is None


def test_a_cluster_may_end_with_its_first_loss(make_ward):
    ward = make_ward(on_loss=OnLoss.STOP)
    ward.lose(3)
    ward.go_on()
    assert ward.recovery.wants_end
    ward.scheduler.submit(make_cell(ward), ward.now_s)
    assert "--on-loss stop" in ward.told(Refused)[0].reason


def fail_birth(ward, rank):
    """Let the new engine of a rank end at once."""
    name = ward.roster[rank].name
    ward.losses.on_exit(pb.EngineExited(engine=name, exit_code=1), 0.0)
    ward.losses.tick(ward.now_s)
    ward.go_on(1.0)


def test_healing_by_itself_whose_new_engines_die_is_not_repeated_for_ever(make_ward):
    ward = make_ward(on_loss=OnLoss.HEAL)
    ward.lose(2)
    ward.go_on()
    fail_birth(ward, 2)
    for _ in range(3):
        ward.go_on(1.0)
    assert ward.roster[2].name == "2.1"
    assert not ward.recovery.is_due()
    ward.scheduler.submit(make_cell(ward), ward.now_s)
    assert ward.told(Refused), "a cell is told instead of waiting for what will not come"
    ward.lose(3)
    ward.go_on()
    assert ward.roster[3].name.startswith("3."), "a new loss is tried"


def test_who_asks_for_the_same_rank_again_does_not_kill_its_new_engine(ward):
    ward.ask(HealRanks("h1", (1,)))
    ward.lose(1)
    ward.go_on()
    assert ward.roster[1].name == "1.1"
    ward.sender.signals.clear()
    ward.ask(HealRanks("h2", (1,)))
    assert ward.sender.signals == []
    ward.join(0, 1, 2, 3)
    ward.answer_names()
    ward.go_on()
    assert ward.told(RanksHealed)
    assert [refused.request_id for refused in ward.told(Refused)] == ["h2"]
    assert ward.roster[1].name == "1.1"


def test_a_rank_is_replaced_that_is_about_to_join_another_generation(ward):
    ward.rendezvous.is_broken = True
    ward.go_on()
    assert ward.roster[1].state is EngineState.STARTING
    ward.ask(HealRanks("h1", (1,)))
    assert ((1,), signal.SIGKILL, "replace-h1") in ward.sender.signals
    ward.join(0, 1, 2, 3)  # it had said so before the signal came
    ward.lose(1)
    ward.go_on()
    assert ward.hosts.started == [(1,)]
    assert not ward.told(Refused)


def test_a_cluster_that_heals_by_itself_leaves_it_to_who_has_asked(make_ward):
    ward = make_ward(on_loss=OnLoss.HEAL)
    ward.roster[0].start_work("In[1]", ward.now_s)
    ward.recovery.on_request(b"me", HealRanks("h1", (1,)), ward.now_s)
    ward.lose(1)
    ward.go_on(1.0)
    ward.roster[0].end_work()
    ward.go_on(1.0)
    assert ward.hosts.started == [(1,)]
    ward.join(0, 1, 2, 3)
    ward.answer_names()
    ward.go_on(1.0)
    assert ward.hosts.started == [(1,)]
    assert ward.told(RanksHealed)


def test_cells_that_wait_are_refused_when_ranks_got_new_numbers_even_if_shrinking_fails(ward):
    ward.lose(1)
    ward.ask(ShrinkCluster("s1"))
    ward.scheduler.submit(
        CellRun(b"me", SubmitCell("c1", "x", ranks=(3,)), "cell-9", ward.parts), ward.now_s
    )
    ward.go_on(100.0)
    assert [refused.request_id for refused in ward.told(Refused)] == ["s1", "c1"]
    assert "new numbers" in ward.told(Refused)[1].reason


def test_a_setup_cell_that_does_not_respond_fails_the_healing(ward):
    ward.mark_setup("a", "b")
    ward.heal(1)
    ward.join(0, 1, 2, 3)
    ward.scheduler.cell.interrupt({1}, "i1", ward.now_s)
    ward.go_on(8.0)
    ward.go_on(1.0)
    (refused,) = ward.told(Refused)
    assert "rank 1 " in refused.reason
    assert ward.roster[1].state is EngineState.LOST


@pytest.mark.parametrize("request_kind", [HealRanks, ShrinkCluster])
def test_nobody_says_that_all_are_there_before_all_have_answered(ward, request_kind):
    ward.beats.silent = {ward.roster[2].identity}
    for rank in range(4):
        ward.roster[rank].pid = 100 + rank
    ward.ask(request_kind("h1"))
    assert ward.beats.asked == [ward.roster[rank].identity for rank in range(4)]
    assert ward.told(Refused) == []
    assert ward.recovery.is_due(), "cells wait meanwhile"
    ward.lose(2)
    ward.go_on(0.1)
    assert ward.told(Refused) == []
    assert ward.scheduler.current is not None


def test_a_rank_that_does_not_answer_is_named_by_a_heal_without_losses(ward):
    ward.beats.silent = {ward.roster[2].identity}
    ward.roster[2].pid = 102
    ward.ask(HealRanks("h1"))
    ward.go_on(1.9)
    assert ward.told(Refused) == []
    ward.go_on(0.2)
    [refused] = ward.told(Refused)
    assert refused.code == ErrorCode.HEAL_FAILED
    assert "rank 2 " in refused.reason
    assert not ward.recovery.is_due()


def test_a_lost_host_is_waited_for_and_then_done_without(ward):
    ward.roster.hosts["b"].is_lost = True
    ward.heal(2)
    ward.go_on(HOST_PATIENCE_S - 0.1)
    assert ward.hosts.started == []
    assert " b " in ward.told(HealProgress)[-1].stage
    ward.go_on(0.1)
    assert ward.hosts.started == [(2,)]
    assert ward.roster[2].info.host == "a"


def test_a_lost_host_is_waited_for_longer_while_its_agent_has_no_core(ward):
    ward.roster.hosts["b"].is_lost = True
    ward.hosts.waited["b"] = 5.0
    ward.heal(2)
    ward.go_on(HOST_PATIENCE_S + 4.9)
    assert ward.hosts.started == []
    ward.hosts.waited["b"] = 1000.0
    ward.go_on(HOST_MOST_EXCUSED_S - 5.0)
    assert ward.hosts.started == []
    ward.go_on(0.1)
    assert ward.hosts.started == [(2,)]


def test_a_process_that_is_killed_is_waited_for_as_long_as_it_may_take(ward):
    ward.ask(HealRanks("h1", (1,)))
    ward.go_on(END_PATIENCE_S - 0.1)
    assert ward.told(Refused) == []
    ward.go_on(0.1)
    (refused,) = ward.told(Refused)
    assert refused.code == ErrorCode.HEAL_FAILED
    assert "rank 1 (pid 101)" in refused.reason


@pytest.mark.parametrize(
    ("gone", "full", "lost", "homeless"), [("b", "a", (0, 1, 2), 2), ("a", "b", (0, 3), 0)]
)
def test_a_rank_whose_host_is_there_keeps_its_place_before_others_take_one(
    ward, gone, full, lost, homeless
):
    ward.roster.hosts[gone].is_lost = True
    ward.roster.hosts[full].joined = pb.Joined(cpu_count=2)
    ward.hosts.failed[gone] = "ssh: unreachable"
    ward.heal(*lost)
    (refused,) = ward.told(Refused)
    assert f"rank {homeless} " in refused.reason


def test_a_generation_that_cannot_be_formed_ends_the_healing_with_its_reason(ward):
    ward.heal(2)
    ward.rendezvous.on_not_ready(NotReady(0, 2, "no route"))
    ward.go_on()
    (refused,) = ward.told(Refused)
    assert (refused.code, refused.reason) == (ErrorCode.HEAL_FAILED, "rank 0: no route.")


@pytest.mark.parametrize(("frameworks", "limit_s"), [(False, 60.0), (True, 120.0)])
def test_new_engines_have_their_time_and_are_named_when_they_are_slow(ward, frameworks, limit_s):
    ward.heal(2)
    ward.rendezvous.is_forming_frameworks = frameworks
    ward.go_on(NAMING_AFTER_S)
    assert ward.told(HealProgress)[-1].stage == "forming generation 2"
    ward.join(0, 1, 3)
    ward.go_on(0.1)
    assert "rank 2 " in ward.told(HealProgress)[-1].stage
    ward.now_s = 1.0 + limit_s - 0.1
    ward.go_on()
    assert ward.told(Refused) == []
    ward.now_s = 1.0 + limit_s
    ward.go_on()
    (refused,) = ward.told(Refused)
    assert refused.reason.startswith("rank 2 ")
    assert f" {limit_s:g} s" in refused.reason


def test_an_interrupted_setup_cell_is_the_last_one(ward):
    ward.mark_setup("a", "b")
    ward.heal(1)
    ward.join(0, 1, 2, 3)
    ward.end_setup(1, "interrupted")
    asked = ward.sender.sent_to_ranks(Question)
    assert {question.about.with_values for asked_of in asked.values() for question in asked_of} == {
        False
    }
    ward.answer_names()
    (healed,) = ward.told(RanksHealed)
    assert healed.replayed == ("In[1]",)
    assert len(ward.sender.sent_to_ranks(RunCell)[1]) == 1


def test_a_healing_that_fails_ends_only_new_engines_that_live(ward):
    ward.heal(1, 2)
    ward.lose(2)
    ward.go_on()
    killed = [ranks for ranks, _, name in ward.sender.signals if name == "unheal-h1"]
    assert killed == [(1,)]


def test_what_a_rank_has_that_did_not_answer_is_not_known_and_not_said_to_be_missing():
    def names(*found):
        return RankNames(tuple(NameInfo(name, "int") for name in found))

    answers = {0: names("x", "y"), 1: NoAnswer("is busy"), 2: names("x"), 3: NoAnswer("is busy")}
    assert find_missing(Answers(answers, {}), (2, 3)) == {"y": (2,)}


def test_names_are_waited_for_until_all_have_answered_or_the_time_is_over(ward):
    ward.heal(2)
    ward.join(0, 1, 2, 3)
    ward.go_on(NAMES_PATIENCE_S - 0.1)
    assert ward.told(RanksHealed) == []
    ward.go_on(0.1)
    (healed,) = ward.told(RanksHealed)
    assert (healed.replaced, healed.missing) == ({2: "b"}, {})
