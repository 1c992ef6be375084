from time import time

import pytest

from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.cells.scheduler import CellScheduler
from jupyter_dist.coordinator.preemption.preemption import ANSWER_PATIENCE_S, Preemption
from jupyter_dist.model.ranks.preemption_agreement import Position, SavePoint
from jupyter_dist.model.spec.batch import JobSeen, JobState
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.commands import PREEMPTION, PreemptionRequest
from jupyter_dist.protocol.messages import (
    AnnounceEnd,
    CellNote,
    CellResult,
    EndAnnounced,
    HeedNotices,
    NoticeHandled,
    NoticeOver,
    NoticePosition,
    PreemptNotice,
    RunCell,
    SavePointChosen,
    SubmitCell,
    WatchNotices,
)

TEXT = "b will be taken away (SIGTERM)"


class Job:
    """A batch job that runs for a while yet."""

    label = "Slurm job 7"

    def __init__(self):
        self.seen = None

    def ends_in(self, left_s):
        self.seen = JobSeen(JobState.RUNNING, "RUNNING", time() + left_s)


def asked_of(cell):
    """Return what ranks are asked to do in this cell."""
    return PREEMPTION.read_request(cell.command)


class Scene:
    """Four ranks on two hosts, and what is said about the end of a host."""

    def __init__(self, cluster):
        self.cluster, self.sender = cluster, cluster.sender
        for engine in cluster.roster.engines:
            engine.pid = 100 + engine.info.rank
        self.scheduler = CellScheduler(cluster.roster, cluster.rendezvous, cluster.sender)
        self.job = Job()
        self.preemption = Preemption(cluster.parts, self.scheduler, self.job)
        self.now_s = 10.0

    def run_cell(self, name="cell-1", ranks=None):
        """Let a cell begin on these ranks (none: all)."""
        cell = CellRun(b"me", SubmitCell(name, "x", ranks, label=3), name, self.cluster.parts)
        self.scheduler.submit(cell, self.now_s)
        self.scheduler.advance(self.now_s)
        assert self.scheduler.current is cell
        return cell

    def end_cell(self, *ranks):
        """Let ranks (none: all) end the running cell."""
        cell = self.scheduler.cell
        for rank in ranks or cell.ranks:
            self.cluster.roster[rank].end_work()
            cell.on_result(CellResult(rank, cell.cell_id, "ok", 0.1), self.now_s)
        self.pass_time()

    def pass_time(self, seconds=0.05):
        self.now_s += seconds
        self.scheduler.advance(self.now_s)
        self.preemption.tick(self.now_s)
        self.scheduler.advance(self.now_s)

    def say(self, message):
        self.preemption.on_engine(message, self.now_s)

    def ask_in(self, cell, ranks=(0, 1, 2, 3)):
        """Let ranks call should_save() in a cell for the first time."""
        for rank in ranks:
            self.say(WatchNotices(rank, False, cell_id=cell.cell_id))

    def watch(self, count, **more):
        """Let the first ranks, that many, say that they always want to know."""
        for rank in range(count):
            self.say(WatchNotices(rank, True, **more))

    def begin(self):
        """Let host b be taken away while all ranks save in a cell."""
        self.ask_in(self.run_cell())
        self.terminate()

    def agree(self, *, marks_on=None):
        """Let that be, and ranks tell where they are; or where ranks of a cell have marks."""
        if marks_on is None:
            self.begin()
        else:
            cell = self.run_cell(ranks=marks_on)
            self.watch(4, has_marks=True, cell_id=cell.cell_id)
            self.terminate()
        self.answer({rank: 2 if marks_on is None or rank in marks_on else 0 for rank in range(4)})

    def terminate(self, host="b"):
        self.tell(host, reason="SIGTERM", is_ending=True)

    def near_end(self, *times_s):
        """Let the job end so much later than now, each once looked at."""
        for left_s in times_s:
            self.job.ends_in(left_s)
            self.pass_time()

    def save(self):
        """Let all ranks agree on a call, and save there."""
        self.answer(dict.fromkeys(range(4), 2))
        self.handle(0, 1, 2, 3)
        self.pass_time()

    @property
    def notices(self):
        """What ranks have been told, by rank."""
        return self.sender.sent_to_ranks(PreemptNotice)

    def tell(self, host, **notice):
        event = pb.AgentEvent(notice=pb.Notice(**notice))
        self.preemption.on_event(host, event, self.now_s)

    def answer(self, calls, number=1, cell_id="cell-1"):
        """Let ranks tell how often they have called should_save()."""
        for rank, count in calls.items():
            self.say(NoticePosition(rank, number, Position(cell_id, count)))

    def handle(self, *ranks, number=1, **more):
        for rank in ranks:
            self.say(NoticeHandled(rank, number, **more))

    def commands(self, kind):
        """Hosts that were sent such a command, in order."""
        return [host for host, _ in self.sender.commanded(kind)]

    def points(self):
        return {r: m[-1].point for r, m in self.sender.sent_to_ranks(SavePointChosen).items()}

    @property
    def notes(self):
        cell = self.scheduler.cell
        if cell is not None:
            cell.flush()
        return [note.text for note in self.sender.cell_events(CellNote)]


@pytest.fixture
def scene(cluster):
    return Scene(cluster)


# --- interest ---


def test_agents_and_ranks_hear_that_notices_are_wanted_and_when_not_any_more(scene):
    cell = scene.run_cell()
    scene.ask_in(cell, [2])
    assert scene.commands("heed_notices") == ["a", "b"]
    told = scene.sender.sent_to_ranks(HeedNotices)
    assert told == {rank: [HeedNotices(True)] for rank in range(4)}
    scene.end_cell()
    scene.pass_time()
    last = {host: each.heed_notices.is_wanted for host, each in scene.sender.commands}
    assert last == {"a": False, "b": False}


@pytest.mark.parametrize("is_lost", [False, True])
def test_without_interest_of_a_rank_that_is_there_an_agent_is_let_go_at_once(scene, is_lost):
    if is_lost:
        scene.say(WatchNotices(3, True))
        scene.cluster.lose(3)
    else:
        scene.run_cell()
    scene.terminate()
    assert scene.commands("let_go") == ["b"]
    assert scene.notices == {}


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_what_a_command_has_said_waits_for_interest_if_it_does_not_take_it_back(
    scene, is_withdrawn
):
    scene.tell("a", reason="spot")
    assert scene.preemption.note.startswith("a ")
    assert scene.preemption.note.endswith(" (spot)")
    if is_withdrawn:
        scene.tell("a", is_withdrawn=True)
        assert scene.preemption.note == ""
    assert scene.notices == {}
    scene.ask_in(scene.run_cell(), [0])
    assert sorted(scene.notices) == ([] if is_withdrawn else [0, 1, 2, 3])


# --- agreement ---


def test_all_ranks_get_the_call_that_none_has_passed(scene):
    scene.begin()
    scene.answer({0: 4, 1: 9, 2: 7})
    assert scene.points() == {}
    scene.answer({3: 0})
    assert scene.points() == dict.fromkeys(range(4), SavePoint("cell-1", 10))
    assert any(note.startswith(TEXT) for note in scene.notes)


def test_the_first_rank_tells_jax(scene):
    scene.ask_in(scene.run_cell())
    scene.cluster.lose(0)
    scene.terminate()
    sent = scene.sender.sent_to_ranks(PreemptNotice)
    assert {rank: told[0].tells_jax for rank, told in sent.items()} == {1: True, 2: False, 3: False}


def test_a_rank_that_does_not_answer_is_not_waited_for_longer_than_patience_lasts(scene):
    scene.begin()
    scene.answer({0: 4, 1: 5, 2: 6})
    scene.pass_time(ANSWER_PATIENCE_S + 0.1)
    assert scene.points()[3] == SavePoint("cell-1", 7)


def test_a_rank_that_is_lost_is_not_waited_for(scene):
    scene.begin()
    scene.answer({0: 4, 1: 5, 2: 6})
    scene.cluster.lose(3)
    scene.pass_time()
    assert scene.points()[0] == SavePoint("cell-1", 7)
    scene.handle(0, 1, 2)
    assert scene.commands("let_go") == ["b"]


def test_the_agent_is_let_go_when_all_ranks_have_handled_it(scene):
    scene.agree()
    scene.handle(0, 1, 2)
    assert scene.commands("let_go") == []
    waiting = scene.preemption.note
    assert waiting.startswith(f"{TEXT}; ")
    scene.handle(3)
    assert scene.commands("let_go") == ["b"]
    assert sorted(scene.sender.sent_to_ranks(NoticeOver)) == [0, 1, 2, 3]
    assert scene.notes[-1] == scene.preemption.note != waiting


def test_several_hosts_at_once_are_one_notice(scene):
    scene.ask_in(scene.run_cell())
    scene.terminate("b")
    scene.terminate("a")
    scene.answer(dict.fromkeys(range(4), 2))
    scene.handle(0, 2)
    scene.handle(1, 3, problems=("f() raised OSError: full",))
    assert sorted(scene.commands("let_go")) == ["a", "b"]
    assert {len(told) for told in scene.notices.values()} == {1}
    assert scene.preemption.note.startswith("a, b ")
    assert scene.preemption.note.endswith("; ranks 1,3: f() raised OSError: full")


def test_a_second_notice_has_another_number(scene):
    scene.ask_in(scene.run_cell())
    scene.tell("b", reason="spot")
    scene.save()
    scene.tell("b", is_withdrawn=True)
    scene.tell("b", reason="spot")
    assert scene.notices[0][-1].number == 2
    scene.answer(dict.fromkeys(range(4), 8), number=2)
    assert scene.points()[0] == SavePoint("cell-1", 9)


# --- who is not there ---


def test_who_is_late_is_named_and_the_agent_is_let_go(scene):
    scene.agree()
    scene.handle(0, 1, 2)
    scene.pass_time(26.0)
    assert scene.commands("let_go") == []
    scene.pass_time(2.0)
    assert scene.commands("let_go") == ["b"]
    assert "rank 3 " in scene.preemption.note
    assert scene.notes[-1] == scene.preemption.note


def test_idle_ranks_do_it_in_a_cell_of_its_own(scene):
    scene.say(WatchNotices(1, True))
    scene.terminate()
    scene.answer(dict.fromkeys(range(4), 0), cell_id="")
    scene.pass_time()
    sent = scene.sender.sent_to_ranks(RunCell)
    assert sorted(sent) == [0, 1, 2, 3]
    assert asked_of(sent[0][0]) == PreemptionRequest(1, TEXT, 27.0, saves_marked=False)
    scene.handle(0, 1, 2, 3)
    scene.end_cell()
    assert scene.commands("let_go") == ["b"]


def test_ranks_that_have_ended_the_cell_do_it_when_all_have(scene):
    scene.watch(4)
    scene.run_cell()
    scene.end_cell(0, 1)
    scene.terminate()
    scene.answer({2: 3, 3: 3, 0: 0, 1: 0})
    scene.handle(2, 3)
    assert scene.commands("let_go") == []
    scene.end_cell(2, 3)
    scene.pass_time()
    scene.handle(0, 1)
    scene.end_cell()
    assert scene.commands("let_go") == ["b"]


def test_where_the_cell_has_ended_before_and_nothing_is_left_to_do_that_is_said(scene):
    scene.agree()
    before = scene.preemption.note
    scene.end_cell()
    assert scene.commands("let_go") == ["b"]
    assert scene.preemption.note != before


def test_what_is_marked_is_saved_at_the_call_if_all_ranks_run_the_cell(scene):
    scene.agree(marks_on=range(4))
    assert scene.points()[0].saves_marked
    scene.handle(0, 1, 2, 3, has_saved=True)
    assert scene.commands("let_go") == ["b"]


def test_what_is_marked_is_saved_after_a_cell_that_runs_on_some_ranks_only(scene):
    scene.agree(marks_on=(0, 1))
    assert not scene.points()[0].saves_marked
    scene.handle(0, 1)
    scene.end_cell()
    scene.pass_time()
    assert asked_of(scene.sender.sent_to_ranks(RunCell)[3][0]).saves_marked
    scene.handle(0, 1, 2, 3, has_saved=True)
    scene.end_cell()
    assert scene.commands("let_go") == ["b"]


def test_a_rank_that_is_lost_before_the_own_cell_begins_does_not_keep_the_others_from_it(scene):
    scene.watch(4)
    scene.terminate()
    scene.cluster.lose(3)
    scene.answer({0: 0, 1: 0, 2: 0}, cell_id="")
    for _ in range(4):
        scene.pass_time()
    assert scene.sender.sent_to_ranks(RunCell)[0][0].ranks == (0, 1, 2)


def test_marks_whose_saving_was_interrupted_are_saved_after_the_cell(scene):
    scene.agree(marks_on=range(4))
    scene.handle(0, 1, 2, has_tried=True, problems=("rank 3 left",))
    scene.end_cell()
    scene.pass_time()
    assert scene.commands("let_go") == []
    assert asked_of(scene.sender.sent_to_ranks(RunCell)[3][-1]).saves_marked
    scene.handle(0, 1, 2, 3, has_tried=True, has_saved=True)
    assert scene.commands("let_go") == ["b"]


def test_marks_that_all_ranks_could_not_save_are_not_tried_again(scene):
    scene.agree(marks_on=range(4))
    scene.handle(0, 1, 2, 3, has_tried=True, problems=("disk full",))
    assert scene.commands("let_go") == ["b"]
    assert "disk full" in scene.preemption.note


def test_functions_have_their_turn_before_a_cell_that_waits(scene):
    scene.run_cell()
    scene.watch(4)
    later = CellRun(b"you", SubmitCell("cell-2", "y", None, label=4), "cell-2", scene.cluster.parts)
    scene.scheduler.submit(later, scene.now_s)
    scene.terminate()
    scene.answer(dict.fromkeys(range(4), 2))
    scene.end_cell()
    assert scene.scheduler.cell is not later
    assert asked_of(scene.sender.sent_to_ranks(RunCell)[0][-1]).number == 1
    scene.handle(0, 1, 2, 3)
    scene.end_cell()
    assert scene.scheduler.cell is later
    assert scene.commands("let_go") == ["b"]


@pytest.mark.parametrize("is_known", [False, True], ids=["asked for later", "expected"])
def test_a_rank_that_is_being_replaced_has_its_part_when_it_is_there(scene, is_known):
    recovering = [is_known]
    scene.scheduler.expects_recovery = lambda: recovering[0]
    scene.watch(3)
    scene.cluster.lose(3)
    scene.terminate("a")
    scene.answer({0: 0, 1: 0, 2: 0}, cell_id="")
    recovering[0] = True
    scene.pass_time()
    assert scene.sender.sent_to_ranks(RunCell) == {}
    scene.cluster.roster.replace(3, scene.cluster.roster[3].info)
    scene.cluster.rendezvous.regroup()
    scene.cluster.join()
    scene.pass_time()
    recovering[0] = False
    for _ in range(3):
        scene.pass_time()
    assert sorted(scene.sender.sent_to_ranks(RunCell)) == [0, 1, 2, 3]


def test_a_rank_that_has_passed_the_call_before_it_could_be_asked_is_named(scene):
    scene.begin()
    scene.answer({0: 4, 1: 5, 2: 6})
    scene.pass_time(ANSWER_PATIENCE_S + 0.1)
    scene.answer({3: 9})
    scene.handle(0, 1, 2, 3)
    assert "rank 3: " in scene.preemption.note


# --- the end of a job ---


def test_the_time_limit_of_a_job_is_a_notice_once(scene):
    scene.ask_in(scene.run_cell())
    scene.near_end(600.0, 110.0)
    assert scene.notices == {}, "a third of 110 s is not there yet"
    scene.near_end(30.0)
    (told,) = scene.notices[0]
    assert " 30 s (Slurm job 7 " in told.text
    assert 20 < told.left_s < 30
    scene.save()
    scene.pass_time()
    assert len(scene.notices[0]) == 1
    assert scene.commands("let_go") == []


def test_an_end_that_is_known_to_the_minute_is_one_notice(scene, monkeypatch):
    scene.ask_in(scene.run_cell())
    now_s = 1000.0
    monkeypatch.setattr("jupyter_dist.coordinator.preemption.job_end.time", lambda: now_s)
    number, told_at_s = 0, []
    while now_s < 1600.0:
        ends_at_s = now_s + (1600.0 - now_s) // 60.0 * 60.0
        scene.job.seen = JobSeen(JobState.RUNNING, "RUNNING", ends_at_s)
        scene.pass_time()
        told = scene.notices.get(0, ())
        if len(told) > len(told_at_s):
            told_at_s.append(now_s)
            number = told[-1].number
            scene.answer(dict.fromkeys(range(4), 2), number)
            scene.handle(0, 1, 2, 3, number=number)
        now_s += 5.2
    assert len(told_at_s) == 1
    assert 1400.0 < told_at_s[0] < 1490.0


def test_an_end_that_is_put_off_is_another_notice(scene):
    scene.ask_in(scene.run_cell())
    scene.near_end(110.0, 30.0)
    scene.save()
    scene.near_end(900.0, 840.0)
    assert len(scene.notices[0]) == 1
    scene.near_end(130.0, 42.0)
    assert len(scene.notices[0]) == 2


# --- afterwards ---


def test_the_note_of_a_time_limit_goes_when_the_job_is_given_more_time(scene):
    scene.ask_in(scene.run_cell())
    scene.near_end(110.0, 20.0)
    scene.save()
    assert "Slurm job 7" in scene.preemption.note
    scene.near_end(3600.0, 3600.0)
    assert scene.preemption.note == ""


def test_the_note_goes_when_others_are_there_in_the_place_of_the_host(scene):
    scene.agree()
    scene.handle(0, 1, 2, 3)
    scene.pass_time()
    assert scene.preemption.note
    scene.preemption.on_gone("b")
    scene.cluster.lose(3)
    scene.pass_time()
    assert scene.preemption.note
    scene.cluster.roster.replace(3, scene.cluster.roster[3].info)
    scene.pass_time()
    assert scene.preemption.note == ""


# --- a job that is ended by its command ---

END = AnnounceEnd("end-1", "SIGTERM at a command")


def answers(scene):
    """Return what the command was answered."""
    sent = [message for client, message, _ in scene.sender.clients if client == b"job"]
    return [message for message in sent if isinstance(message, EndAnnounced)]


def test_a_job_whose_ranks_want_nothing_may_end_at_once(scene):
    scene.run_cell()
    scene.preemption.on_request(b"job", END, scene.now_s)
    assert answers(scene) == [EndAnnounced("end-1", "")]
    assert scene.notices == {}


def test_a_job_ends_when_its_ranks_have_saved(scene):
    scene.ask_in(scene.run_cell())
    scene.preemption.on_request(b"job", END, scene.now_s)
    assert [*scene.notices] == [0, 1, 2, 3]
    assert answers(scene) == []
    scene.save()
    (answered,) = answers(scene)
    assert answered.outcome.startswith("every host will be taken away (SIGTERM at a command); ")


def test_a_job_that_ends_while_a_host_goes_waits_for_the_same(scene):
    scene.begin()
    scene.preemption.on_request(b"job", END, scene.now_s)
    scene.save()
    assert len(answers(scene)) == 1
    assert {len(told) for told in scene.notices.values()} == {1}


def test_a_job_ends_when_the_time_to_save_is_over(scene):
    scene.ask_in(scene.run_cell())
    scene.preemption.on_request(b"job", END, scene.now_s)
    scene.pass_time(100.0)
    assert len(answers(scene)) == 1
