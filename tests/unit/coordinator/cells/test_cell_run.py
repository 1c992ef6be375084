import signal
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

from jupyter_dist.coordinator.cells.cell_run import (
    EXPLAIN_AGAIN_S,
    FLUSH_INTERVAL_S,
    LOOK_INTERVAL_S,
    SAYS_MORE_S,
    CellRun,
)
from jupyter_dist.coordinator.cells.interruption import GIVE_UP_AFTER_S, PATIENCE_S, offer_healing
from jupyter_dist.coordinator.observation.hang_watch import HangWatch
from jupyter_dist.coordinator.observation.rank_queries import Answers
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.model.spec.error_policy import OnError
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.commands import PROGRAM, RELOAD, ProgramRequest
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    AskInput,
    AskPerson,
    CellEvents,
    CellNote,
    CellOutput,
    CellResult,
    ErrorInfo,
    FetchObject,
    Hello,
    InputAnswered,
    InputOver,
    JoinCollective,
    LeftDebugger,
    Output,
    RankFinished,
    RankOutput,
    ReadStacks,
    Ready,
    RunCell,
    StoppedInDebugger,
    SubmitCell,
    WithdrawInput,
)
from jupyter_dist.protocol.unreadable import Unreadable

BOOM = ErrorInfo("ValueError", "boom")
PEER = ErrorInfo("PeerFailed", "rank 0 raised", peer_rank=0)
CTRL_C = ErrorInfo("KeyboardInterrupt", "")


class Lookers:
    """Questions that are asked, and answered when a test says so."""

    def __init__(self):
        self.asked = []

    def ask(self, ranks, about, timeout_s, now_s, on_answered):
        self.asked.append((ranks, about))
        self._on_answered = on_answered

    def see(self, code, *ranks):
        """Answer that these ranks stand at this line of the cell."""
        stack = ThreadStack("MainThread", True, (Frame("<module>", "In[3]:7", code),))
        self._on_answered(Answers(dict.fromkeys(ranks, RankStacks(threads=(stack,))), {}))


@pytest.fixture
def lookers():
    return Lookers()


@pytest.fixture
def run(cluster, lookers):
    """Start a cell on all ranks, at time 0 unless told."""

    def start(now_s=0.0, **options):
        request = SubmitCell("r1", "print(rank)", label=3, **options)
        cell = CellRun(b"me", request, "cell-1", replace(cluster.parts, questions=lookers))
        # What this one asks is no part of these tests.
        cell._hang_watch = HangWatch(cell.ranks, cluster.roster, cluster.questions)
        cell.start(now_s)
        return cell

    return start


@pytest.fixture
def events(cluster):
    return cluster.sender.cell_events


@pytest.fixture
def answer(cluster):
    def give(cell, rank, status="ok", error=None, now_s=0.5, **more):
        cluster.roster[rank].end_work()
        cell.on_result(CellResult(rank, "cell-1", status, 0.5, error=error, **more), now_s)

    return give


def judge(cell, verdict):
    """Let the cell be judged so from now on."""
    cell._hang_watch = SimpleNamespace(look=lambda *_seen: verdict)


def statuses(events):
    return {event.rank: event.status for event in events(RankFinished)}


def test_a_cell_goes_to_every_rank_with_the_generation(run, cluster):
    cell = run()
    sent = cluster.sender.sent_to_ranks(RunCell)
    assert sorted(sent) == [0, 1, 2, 3]
    assert cluster.sender.told(CellEvents) == [], "a short cell is one delivery to its client"
    cell.tick(FLUSH_INTERVAL_S)
    assert sent[2] == [RunCell("cell-1", 1, "print(rank)", None, 3)]
    (told,) = cluster.sender.told(CellEvents, b"me")
    assert (told.request_id, told.cell_id, told.ranks) == ("r1", "cell-1", (0, 1, 2, 3))
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0, 1, 2, 3]


def test_a_cell_for_some_ranks_leaves_the_others_idle(run, cluster):
    run(ranks=(1, 2))
    sent = cluster.sender.sent_to_ranks(RunCell)
    assert [(rank, cell.ranks) for rank, (cell,) in sorted(sent.items())] == [
        (1, (1, 2)),
        (2, (1, 2)),
    ]
    assert cluster.roster.ranks_in(EngineState.IDLE) == [0, 3]


def test_it_is_over_when_the_last_rank_has_finished_and_the_client_knows(
    run, answer, events, cluster
):
    cell = run()
    for rank in range(3):
        answer(cell, rank)
    cell.tick(1.0)
    assert not cell.is_over
    answer(cell, 3, value_repr="42")
    assert not cell.is_over
    cell.tick(1.1)
    assert cell.is_over
    assert statuses(events) == dict.fromkeys(range(4), "ok")
    assert events(RankFinished)[-1].value_repr == "42"
    assert cluster.sender.clients[-1][1].is_last
    cell.tick(2.0)
    assert [batch.is_last for batch in cluster.sender.told(CellEvents)].count(True) == 1


def test_what_a_rank_says_comes_before_its_result(run, answer, events):
    cell = run(ranks=(0,))
    cell.on_message(CellOutput(0, "cell-1", (Output("stdout", "a\n"),)), [], 0.0)
    answer(cell, 0, outputs=(Output("stdout", "b\n"),))
    cell.tick(1.0)
    everything = events(RankOutput | RankFinished)
    assert [type(event).__name__ for event in everything] == [
        "RankOutput",
        "RankOutput",
        "RankFinished",
    ]
    assert [event.outputs[0].text for event in everything[:2]] == ["a\n", "b\n"]


def test_what_comes_of_a_rank_that_has_finished_is_dropped(run, answer, events):
    cell = run(ranks=(0, 1))
    answer(cell, 0)
    cell.on_message(CellOutput(0, "cell-1", (Output("stdout", "late\n"),)), [], 0.0)
    answer(cell, 0, "raised", BOOM)
    cell.tick(1.0)
    assert events(RankOutput) == []
    assert statuses(events) == {0: "ok"}


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (PROGRAM.write_report("sys.exit(0) at train.py:7"), "sys.exit(0) at train.py:7"),
        (PROGRAM.write_report(""), ""),
        (b"", ""),
        (b"\xc1", ""),
        (msgspec.msgpack.encode(["no", "text"]), ""),
    ],
)
def test_the_call_by_which_a_program_ended_early_is_known_to_verdicts(run, answer, report, told):
    cell = run(command=PROGRAM.order(ProgramRequest("train.py", (), ""), "python train.py"))
    answer(cell, 1, report=report)
    assert cell.errors == {1: told}


def test_what_other_commands_report_is_none_of_the_coordinators_business(run, answer):
    cell = run(command=RELOAD.order(None, "reload"))
    answer(cell, 1, report=PROGRAM.write_report("a text"))
    assert cell.errors == {1: ""}


def test_a_rank_that_raises_releases_the_others_from_collectives(run, answer, cluster):
    cell = run()
    answer(cell, 1, "raised", BOOM)
    aborts = cluster.sender.sent_to_ranks(AbortCommunicator)
    abort = AbortCommunicator(1, 1, "raised ValueError: boom")
    assert aborts == {rank: [abort] for rank in (0, 2, 3)}
    assert cluster.rendezvous.is_broken
    cell.tick(1.0)
    assert cluster.sender.signals == [], "that was not asked for"


def test_of_several_failures_at_once_the_others_are_told_the_first_and_the_last(
    run, answer, cluster
):
    """Told of each they would get, where all ranks fail, the square of their number."""

    def told(rank):
        aborts = cluster.sender.sent_to_ranks(AbortCommunicator).get(rank, [])
        return [abort.failed_rank for abort in aborts]

    cell = run(ranks=(0, 1, 2, 3))
    answer(cell, 0, "raised", BOOM)
    assert told(3) == [0]
    for rank in (1, 2):
        answer(cell, rank, "raised", BOOM)
    assert told(3) == [0]
    cell.tick(1.0)
    cell.tick(1.1)
    assert told(3) == [0, 2]
    assert told(1) == [0], "it has finished the cell"
    cell.on_lost(2, "killed")
    assert told(3) == [0, 2, 2]


@pytest.mark.parametrize("on_error", [OnError.RELEASE, OnError.WAIT])
def test_a_cell_that_ends_well_leaves_the_communicator_alone(run, answer, cluster, on_error):
    cell = run(on_error=on_error)
    for rank in range(4):
        answer(cell, rank)
    assert not cluster.rendezvous.is_broken
    assert cluster.sender.sent_to_ranks(AbortCommunicator) == {}


def test_a_lost_rank_is_named_and_the_others_go_on(run, answer, events, cluster):
    cell = run()
    cell.on_last_words(2, RankOutput((2,), (Output("stderr", "Segmentation fault\n"),)))
    cluster.lose(2)
    cell.on_lost(2, "killed by SIGSEGV")
    for rank in (0, 1, 3):
        answer(cell, rank)
    cell.tick(1.0)
    assert cell.is_over
    assert statuses(events) == {0: "ok", 1: "ok", 2: "lost", 3: "ok"}
    assert events(RankOutput)[0].outputs[0].text == "Segmentation fault\n"
    lost = events(RankFinished)[0]
    assert (lost.duration_s, lost.error) == (0.0, ErrorInfo("RankLost", "killed by SIGSEGV"))
    assert cell.errors[2] == "killed by SIGSEGV"
    aborts = cluster.sender.sent_to_ranks(AbortCommunicator)
    assert {rank: found[0].failed_rank for rank, found in aborts.items()} == {0: 2, 1: 2, 3: 2}


def test_a_rank_that_is_lost_after_its_result_keeps_its_result(run, answer, events, cluster):
    cell = run(ranks=(0, 1))
    answer(cell, 0)
    cell.on_lost(0, "killed")
    cell.on_last_words(0, RankOutput((0,), (Output("stdout", "more"),)))
    cell.tick(1.0)
    assert statuses(events) == {0: "ok"}
    assert events(RankOutput) == []
    assert sorted(cluster.sender.sent_to_ranks(AbortCommunicator)) == [1]


class TestInterrupt:
    def test_reaches_only_ranks_that_run(self, run, answer, cluster):
        cell = run()
        answer(cell, 0)
        assert cell.interrupt({0}, "i0", 1.0) == ()
        assert cell.interrupt({0, 1, 2}, "i1", 1.0) == (1, 2)
        assert cluster.sender.signals == [((1, 2), signal.SIGINT, "i1")]

    def test_is_why_ranks_are_released_and_leaves_an_error_of_the_users_own(
        self, run, answer, events, cluster
    ):
        cell = run(ranks=(0, 1, 2))
        cell.interrupt({0, 1, 2}, "i1", 1.0)
        answer(cell, 0, "interrupted", CTRL_C)
        (abort,) = cluster.sender.sent_to_ranks(AbortCommunicator)[1]
        assert abort.failed_rank == -1
        assert "interrupted" in abort.reason
        answer(cell, 1, "peer_failed", PEER)
        answer(cell, 2, "raised", BOOM)
        cell.tick(1.1)
        assert statuses(events) == {0: "interrupted", 1: "interrupted", 2: "raised"}

    def test_that_is_not_answered_names_the_rank_with_its_line_once(
        self, run, answer, events, cluster, lookers
    ):
        cell = run()
        cell.interrupt({0, 1, 2, 3}, "i1", 1.0)
        for rank in (0, 1, 3):
            answer(cell, rank, "interrupted", CTRL_C)
        cluster.sender.forget()
        cell.tick(1.0 + PATIENCE_S * 0.9)
        assert lookers.asked == []
        for extra_s in (0.0, 0.5, 1.0):
            cell.tick(1.0 + PATIENCE_S + extra_s)
        assert lookers.asked == [((2,), ReadStacks())]
        assert sorted(cluster.sender.sent_to_ranks(AbortCommunicator)) == [2]
        lookers.see("lib.sleep(30)", 2)
        cell.tick(4.1)
        (note,) = events(CellNote)
        assert note.is_passing
        assert note.text.startswith("rank 2 ")
        assert note.text.endswith(" 2 s: In[3]:7: lib.sleep(30)")

    def test_that_is_answered_while_ranks_are_looked_at_names_nobody(
        self, run, answer, events, lookers
    ):
        cell = run(ranks=(0, 1))
        cell.interrupt({0, 1}, "i1", 1.0)
        cell.tick(1.0 + PATIENCE_S)
        answer(cell, 0, "interrupted", CTRL_C)
        answer(cell, 1, "interrupted", CTRL_C)
        lookers.see("late()", 0, 1)
        cell.tick(3.5)
        assert cell.is_over
        assert events(CellNote) == []

    def test_of_an_unresponsive_rank_ends_the_cell_with_the_truth(
        self, run, answer, events, cluster, lookers
    ):
        cell = run()
        cell.interrupt({0, 1, 2, 3}, "i1", 1.0)
        for rank in (0, 1, 3):
            answer(cell, rank, "interrupted", CTRL_C)
        cell.tick(1.0 + PATIENCE_S)
        lookers.see("lib.sleep(30)", 2)
        cell.tick(1.0 + GIVE_UP_AFTER_S - 0.1)
        assert not cell.is_over
        cell.tick(1.0 + GIVE_UP_AFTER_S)
        assert cell.is_over
        assert statuses(events) == dict.fromkeys((0, 1, 3), "interrupted") | {2: "unresponsive"}
        unresponsive = events(RankFinished)[-1]
        assert unresponsive.error.ename == "CellInterrupted"
        assert unresponsive.error.evalue.endswith(": In[3]:7: lib.sleep(30)")
        assert unresponsive.duration_s == 1.0 + GIVE_UP_AFTER_S
        assert cluster.roster[2].state is EngineState.BUSY
        assert events(CellNote)[-1].text == offer_healing((2,), with_others=True)

    def test_of_some_ranks_leaves_the_cell_to_the_others_when_they_are_unresponsive(
        self, run, answer, events, cluster
    ):
        cell = run()
        cell.interrupt({2}, "i1", 1.0)
        cell.tick(1.0 + PATIENCE_S)
        cell.tick(1.0 + GIVE_UP_AFTER_S)
        assert not cell.is_over
        assert cell.interrupt({2}, "i2", 9.0) == (2,), "it is asked again, but not given up twice"
        for rank in (0, 1, 3):
            answer(cell, rank)
        cell.tick(20.0)
        assert [request for *_, request in cluster.sender.signals] == ["i1", "wake-cell-1", "i2"]
        assert cell.is_over
        assert statuses(events) == {0: "ok", 1: "ok", 2: "unresponsive", 3: "ok"}

    def test_may_be_repeated_while_the_clock_goes_on(self, run, events, cluster):
        cell = run(ranks=(0,))
        cell.interrupt({0}, "i1", 1.0)
        cell.interrupt({0}, "i2", 6.0)
        assert [request for *_, request in cluster.sender.signals] == ["i1", "i2"]
        cell.tick(1.0 + GIVE_UP_AFTER_S)
        assert statuses(events) == {0: "unresponsive"}


class TestWhenARankRaises:
    def test_the_others_are_interrupted_where_it_was_asked_for(self, run, answer, cluster, events):
        cell = run(on_error=OnError.INTERRUPT)
        answer(cell, 1, "raised", BOOM)
        assert cluster.sender.signals == [((0, 2, 3), signal.SIGINT, "error-cell-1")]
        abort = AbortCommunicator(1, 1, "raised ValueError: boom")
        assert cluster.sender.sent_to_ranks(AbortCommunicator)[0] == [abort]
        answer(cell, 0, "interrupted", CTRL_C)
        answer(cell, 2, "peer_failed", PEER)
        answer(cell, 3, "raised", BOOM)
        assert len(cluster.sender.signals) == 1, "nobody is left to be interrupted"
        cell.tick(1.0)
        assert statuses(events) == {0: "interrupted", 1: "raised", 2: "peer_failed", 3: "raised"}

    def test_the_task_of_ipyparallel_that_a_rank_runs_before_the_cell_is_spared(
        self, run, answer, cluster
    ):
        cell = run(on_error=OnError.INTERRUPT)
        cluster.roster.start_task(2, "apply train", 0.0)
        answer(cell, 0, "raised", BOOM)
        cell.tick(0.1)
        assert cluster.sender.signals == [((1, 3), signal.SIGINT, "error-cell-1")]
        cluster.roster.end_task(2)
        cell.tick(0.15)
        assert cluster.sender.signals[1:] == [((2,), signal.SIGINT, "error-cell-1")]

    def test_the_interrupted_others_are_given_up_when_they_are_unresponsive(
        self, run, answer, events, lookers
    ):
        cell = run(ranks=(0, 1), on_error=OnError.INTERRUPT)
        answer(cell, 1, "raised", BOOM, now_s=1.0)
        cell.tick(1.0 + PATIENCE_S)
        assert lookers.asked == [((0,), ReadStacks())]
        cell.tick(1.0 + GIVE_UP_AFTER_S)
        assert statuses(events) == {0: "unresponsive", 1: "raised"}

    def test_nobody_is_released_where_waiting_was_asked_for(self, run, answer, cluster, events):
        cell = run(on_error=OnError.WAIT)
        answer(cell, 1, "raised", BOOM)
        cell.tick(60.0)
        assert cluster.sender.sent_to_ranks(AbortCommunicator) == {}
        assert cluster.sender.signals == []
        assert cluster.rendezvous.is_broken, "the next cell needs a new generation"
        assert statuses(events) == {1: "raised"}

    def test_who_waits_all_the_same_can_be_interrupted(self, run, answer, cluster):
        cell = run(on_error=OnError.WAIT)
        answer(cell, 1, "raised", BOOM)
        cell.interrupt({0, 1, 2, 3}, "i1", 5.0)
        answer(cell, 0, "interrupted", CTRL_C)
        assert sorted(cluster.sender.sent_to_ranks(AbortCommunicator)) == [2, 3]

    def test_the_time_that_an_unresponsive_rank_has_had_is_told(self, run, answer, events):
        cell = run(ranks=(0, 1), on_error=OnError.INTERRUPT, now_s=50.0)
        answer(cell, 1, "raised", BOOM, now_s=51.0)
        cell.tick(51.0 + GIVE_UP_AFTER_S)
        cell.tick(60.0)
        (unresponsive,) = (end for end in events(RankFinished) if end.status == "unresponsive")
        assert unresponsive.duration_s == 1.0 + GIVE_UP_AFTER_S
        (offer,) = (note for note in events(CellNote) if "%dist_heal" in note.text)
        assert offer.is_passing

    @pytest.mark.parametrize("ranks", [(0, 1, 2, 3), (0, 1, 2)])
    def test_others_are_spoken_of_only_where_there_are_any(self, run, events, ranks):
        cell = run(ranks=ranks)
        cell.interrupt(set(ranks), "i1", 1.0)
        cell.tick(1.0 + GIVE_UP_AFTER_S)
        cell.tick(2.0 + GIVE_UP_AFTER_S)
        offer = offer_healing(ranks, with_others=len(ranks) < 4)
        assert offer in [note.text for note in events(CellNote)]

    def test_a_lost_rank_releases_the_others_whatever_was_asked_for(self, run, cluster):
        cell = run(on_error=OnError.WAIT)
        cell.on_lost(2, "killed by SIGKILL")
        assert sorted(cluster.sender.sent_to_ranks(AbortCommunicator)) == [0, 1, 3]


class TestTimeLimit:
    def test_interrupts_the_ranks_that_still_run_so_long_after_the_start(
        self, run, answer, cluster
    ):
        cell = run(timeout_s=5.0, now_s=100.0)
        answer(cell, 0)
        cell.tick(104.9)
        assert cluster.sender.signals == []
        cell.tick(105.0)
        cell.tick(105.1)
        assert cluster.sender.signals == [((1, 2, 3), signal.SIGINT, "limit-cell-1")]
        (abort,) = cluster.sender.sent_to_ranks(AbortCommunicator)[1]
        assert abort.failed_rank == -1, "none is to blame"
        assert " 5 s" in abort.reason

    def test_is_what_the_interrupted_ranks_ended_with(self, run, answer, events):
        cell = run(ranks=(0, 1), timeout_s=5.0)
        cell.tick(5.0)
        answer(cell, 0, "interrupted", CTRL_C)
        answer(cell, 1, "peer_failed", PEER)
        cell.tick(5.1)
        assert statuses(events) == {0: "timed_out", 1: "timed_out"}

    def test_gives_up_on_a_rank_that_does_not_answer(self, run, events, cluster):
        cell = run(ranks=(0,), timeout_s=5.0, now_s=100.0)
        cell.tick(105.0)
        cell.tick(105.0 + PATIENCE_S)
        assert cell.is_over
        (ended,) = events(RankFinished)
        assert (ended.status, ended.error.ename) == ("timed_out", "CellTimedOut")
        assert ended.duration_s == 5.0 + PATIENCE_S
        assert cluster.roster[0].state is EngineState.BUSY

    def test_spares_the_task_of_ipyparallel_that_a_rank_runs_before_the_cell(
        self, run, events, cluster
    ):
        cell = run(timeout_s=5.0)
        cluster.roster.start_task(2, "apply train", 1.0)
        cell.tick(5.0)
        assert cluster.sender.signals == [((0, 1, 3), signal.SIGINT, "limit-cell-1")]
        cell.tick(5.0 + PATIENCE_S)
        assert set(statuses(events).values()) == {"timed_out"}
        error = next(event.error for event in events(RankFinished) if event.rank == 2)
        assert "ipyparallel" in error.evalue
        assert cluster.roster.end_task(2) == "cell-1", "it is interrupted as soon as it begins"

    def test_does_not_hurt_a_cell_that_was_done_in_time(self, run, answer, cluster):
        cell = run(ranks=(0,), timeout_s=5.0)
        answer(cell, 0)
        cell.tick(6.0)
        assert cell.is_over
        assert cluster.sender.signals == []


def test_who_waits_for_whom_is_known_until_the_cell_is_over(run, answer, cluster):
    cell = run(ranks=(0, 1))
    answer(cell, 1)
    for now_s in (4.0, 5.0):
        last = pb.Collective(sequence=9, operation="barrier", seconds=now_s, is_running=True)
        sample = pb.EngineSample(engine="0", collective=last)
        cluster.roster.take_telemetry("a", pb.Telemetry(engines=[sample]))
        cell.tick(now_s)
    assert "barrier #9 for 5 s" in cell.note
    assert "; rank 1 finished" in cell.note
    assert cell.verdict.kind == "hang"
    answer(cell, 0)
    cell.tick(6.0)
    assert cell.note == ""


def test_everything_is_kept_for_a_client_that_comes_later(run, answer, cluster):
    cell = run(ranks=(0,))
    cell.on_message(CellOutput(0, "cell-1", (Output("stdout", "a\n"),)), [], 0.0)
    answer(cell, 0)
    cell.tick(0.0)
    replayed = cluster.log.replay("r9", "In[3]")
    assert (replayed.cell.cell_id, replayed.cell.code) == ("cell-1", "print(rank)")
    assert [type(event) for event in replayed.events] == [RankOutput, RankFinished]


def test_a_rank_that_was_released_is_not_to_blame_though_its_word_comes_first(run, cluster):
    cell = run()
    cluster.sender.forget()
    how = "left barrier() #5 with Boom: bad"
    released = ErrorInfo("RuntimeError", "step 7", peer_rank=1, peer_reason=how)
    cell.on_message(CellResult(3, "cell-1", "peer_failed", 0.1, error=released), [], 1.0)
    told = cluster.sender.sent_to_ranks(AbortCommunicator)
    assert set(told) == {0, 1, 2}
    assert (told[2][0].failed_rank, told[2][0].reason) == (1, how)


def test_what_ranks_say_of_the_generation_is_told_by_the_next_cell(cluster, run, events):
    cluster.rendezvous.regroup()
    for rank in range(4):
        cluster.rendezvous.on_hello(Hello(rank, cluster.rendezvous.generation, 100 + rank))
    for rank in range(4):
        notes = ("w: stale",)
        cluster.rendezvous.on_ready(Ready(rank, cluster.rendezvous.generation, notes))
    cell = run()
    cell.tick(FLUSH_INTERVAL_S)
    assert [note.text for note in events(CellNote)] == ["w: stale"]


def test_words_that_nobody_can_read_are_told_and_the_cell_goes_on(run, events):
    cell = run()
    body = msgspec.msgpack.encode({"type": "NoticePosition"})
    cell.on_unreadable(1, Unreadable(body, "no number"))
    cell.tick(1.0)
    [note] = events(CellNote)
    assert "rank 1" in note.text
    assert "no number" in note.text
    assert events(RankFinished) == []


@pytest.mark.parametrize(
    "problem",
    [
        MalformedMessage("no map"),
        Unreadable(msgspec.msgpack.encode({"type": "CellResult"}), "no status"),
    ],
)
def test_what_may_have_been_a_result_ends_the_cell_on_that_rank_and_nowhere_else(
    run, events, cluster, problem
):
    cell = run()
    cell.on_unreadable(1, problem)
    cell.on_unreadable(1, problem)
    cell.tick(1.0)
    [ended] = events(RankFinished)
    assert (ended.rank, ended.status, ended.duration_s) == (1, "raised", 0.0)
    assert ended.error.ename == "WireError"
    assert sorted(cluster.sender.sent_to_ranks(AbortCommunicator)) == [0, 2, 3]
    # Whether the rank is idle only the rank can say.
    assert sorted(cluster.sender.sent_to_ranks(FetchObject)) == [1]
    assert 1 in cluster.roster.ranks_in(EngineState.BUSY)


def test_its_client_is_told_after_an_interval_and_of_its_end_at_once(run, answer, cluster):
    cell = run(ranks=(0,))
    assert cell.request.request_id == "r1"
    cell.on_message(CellOutput(0, "cell-1", (Output("stdout", "a"),)), [], 0.0)
    cell.tick(FLUSH_INTERVAL_S * 0.9)
    assert cluster.sender.clients == []
    cell.tick(FLUSH_INTERVAL_S)
    told = len(cluster.sender.told(CellEvents))
    assert told
    cell.on_message(CellOutput(0, "cell-1", (Output("stdout", "b"),)), [], 0.0)
    cell.tick(FLUSH_INTERVAL_S * 1.9)
    assert len(cluster.sender.told(CellEvents)) == told
    answer(cell, 0)
    cell.tick(FLUSH_INTERVAL_S * 1.9)
    assert cell.is_over
    assert cluster.sender.told(CellEvents)[-1].is_last
    assert [told.request_id for told in cluster.sender.told(CellEvents)] == ["r1", ""]


def test_it_is_looked_who_waits_for_whom_once_in_an_interval(run):
    cell, looks = run(), []
    cell._hang_watch = SimpleNamespace(look=lambda *seen: looks.append(seen[-1]) or HangVerdict())
    for steps in range(11):
        cell.tick(steps * LOOK_INTERVAL_S / 4)
    assert looks == [LOOK_INTERVAL_S, 2 * LOOK_INTERVAL_S]


def test_a_verdict_is_told_at_once_another_one_soon_after_and_the_same_again_later(run, events):
    cell = run()

    def say(text, now_s):
        judge(cell, HangVerdict("hang", text))
        cell.tick(now_s)
        cell.tick(now_s + FLUSH_INTERVAL_S)
        return [note.text for note in events(CellNote)]

    assert say("1 waits 1 s", LOOK_INTERVAL_S) == ["1 waits 1 s"]
    assert say("2 waits 1 s", SAYS_MORE_S) == ["1 waits 1 s"]
    assert say("2 waits 2 s", 2 * SAYS_MORE_S) == ["1 waits 1 s", "2 waits 2 s"]
    assert say("2 waits 9 s", EXPLAIN_AGAIN_S) == ["1 waits 1 s", "2 waits 2 s"]
    assert say("2 waits 13 s", EXPLAIN_AGAIN_S + 3 * SAYS_MORE_S)[2:] == ["2 waits 13 s"]


@pytest.mark.parametrize(
    ("status", "is_taken_back"), [("ok", True), ("raised", False), ("lost", False), ("", False)]
)
def test_a_verdict_is_taken_back_unless_ranks_have_failed_or_someone_interrupts(
    run, answer, events, status, is_taken_back
):
    """Then it is why the cell ends badly."""
    cell = run()
    if status:
        answer(cell, 3, status, None if status == "ok" else BOOM)
    else:
        cell.interrupt({0, 1, 2, 3}, "i1", 0.5)
    judge(cell, HangVerdict("hang", "rank 1 waits"))
    cell.tick(1.0)
    judge(cell, HangVerdict())
    cell.tick(2.0)
    cell.tick(3.0)
    passing = [note.text for note in events(CellNote) if "still run" not in note.text]
    assert passing == ["rank 1 waits", ""] if is_taken_back else ["rank 1 waits"]


def test_a_failure_is_told_while_others_run(run, answer, events):
    cell = run()
    answer(cell, 1, "raised", BOOM)
    for now_s in (1.0, 10.0, 11.0):
        cell.tick(now_s)
    [note] = events(CellNote)
    assert note.is_passing
    assert "ValueError: boom" in note.text


@pytest.mark.parametrize("on_error", [OnError.WAIT, OnError.RELEASE])
def test_meetings_are_left_by_those_who_wait_for_a_rank_that_raised(run, answer, cluster, on_error):
    """Unless waiting was asked for; then it can still be interrupted."""
    cell = run(on_error=on_error)
    attend = JoinCollective(0, "cell-1", "objects 1 of 0,1", (0, 1), "barrier", "barrier() #1")
    cell.on_message(attend, [], 1.0)
    assert cell._collectives.is_awaited
    answer(cell, 1, "raised", BOOM)
    assert cell._collectives.is_awaited == (on_error is OnError.WAIT)


def test_an_end_without_an_error_is_taken_as_it_is(run, answer, events, cluster):
    cell = run()
    answer(cell, 1, "interrupted")
    cell.tick(1.0)
    assert statuses(events) == {1: "interrupted"}
    assert cell.errors == {1: ""}
    assert cluster.sender.sent_to_ranks(AbortCommunicator) == {}


def test_a_rank_that_was_released_interrupts_nobody(run, answer, cluster):
    cell = run(on_error=OnError.INTERRUPT)
    answer(cell, 2, "peer_failed", PEER)
    assert cluster.sender.signals == []
    told = cluster.sender.sent_to_ranks(AbortCommunicator)
    assert {abort.failed_rank for aborts in told.values() for abort in aborts} == {0}


@pytest.mark.parametrize(("length", "is_cut"), [(300, False), (301, True), (9999, True)])
def test_an_error_is_passed_on_as_one_short_line(run, answer, cluster, length, is_cut):
    cell = run()
    answer(cell, 1, "raised", ErrorInfo("E", "x\n".ljust(length - len("E: "), "x")))
    reason = cluster.sender.sent_to_ranks(AbortCommunicator)[0][0].reason
    assert "\n" not in reason
    assert reason.endswith("…") == is_cut
    assert len(reason) < 400


def test_a_time_limit_stands_still_while_a_rank_is_in_a_debugger(run, cluster):
    cell, held = run(timeout_s=5.0), cluster.parts.held
    held.on_engine(cluster.roster[2], StoppedInDebugger(2, "In[3]:1"), 1.0)
    cell.tick(100.0)
    assert cluster.sender.signals == []
    held.on_engine(cluster.roster[2], LeftDebugger(2), 101.0)
    cell.tick(104.9)
    assert cluster.sender.signals == []
    cell.tick(105.1)
    assert cluster.sender.signals != []


def asks(rank, number=1):
    return AskInput(rank, "cell-1", number, "name? ")


def test_a_question_comes_behind_what_the_rank_has_said(run, cluster):
    cell = run()
    cell.on_message(CellOutput(2, "cell-1", (Output("stdout", "hello\n"),)), [], 0.001)
    cell.on_question(asks(2))
    told = [message for _, message, _ in cluster.sender.clients]
    assert [type(message) for message in told] == [CellEvents, AskPerson]
    assert told[0].events
    cell.on_question(WithdrawInput(2, "cell-1", 1))
    assert cluster.sender.told(InputOver) == [InputOver("cell-1", 2, 1)]


def test_who_was_interrupted_or_has_ended_is_refused_and_others_are_not(run, answer, cluster):
    cell = run()
    cell.interrupt({1}, "i1", 0.1)
    answer(cell, 3)
    for rank in (1, 2, 3):
        cell.on_question(asks(rank))
    refused = cluster.sender.sent_to_ranks(InputAnswered)
    assert {rank: each.problem for rank, (each,) in refused.items()} == {
        1: "its cell was interrupted",
        3: "its cell has ended",
    }
    assert [ask.rank for ask in cluster.sender.told(AskPerson)] == [2]
    answer(cell, 2)
    assert cluster.sender.sent_to_ranks(InputAnswered)[2][0].problem == "its cell has ended"


def test_a_client_that_is_silent_for_long_is_not_waited_for(run, cluster):
    cell = run()
    cell.on_question(asks(2))
    for second in range(20):
        cell.tick(1.0 + second)
        cell.tick(1.5 + second)
    assert "not there" in cluster.sender.sent_to_ranks(InputAnswered)[2][0].problem
