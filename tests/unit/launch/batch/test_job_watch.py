import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.batch_job import CANCELLED, PATIENCE_S, PENDING, RUNNING, FakeJob

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.batch import job_watch
from jupyter_dist.launch.batch.job_watch import ANSWER_PATIENCE_S, JobWatch
from jupyter_dist.launch.launcher import Failure
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ending

JOIN_PATH = Path("/shared/jupyter-dist-fit-x7/jupyter-dist-fit.join")


@pytest.fixture
def party(monkeypatch):
    """A watch over a fake job, with a clock that stands still; it always ends."""
    for interval in ("RUNNING_INTERVAL_S", "SETTLE_INTERVAL_S"):
        monkeypatch.setattr(job_watch, interval, 0.01)  # a look waits for the test anyway
    clock = SimpleNamespace(now_s=100.0)
    job = FakeJob()
    watch = JobWatch(lambda _path: job, "the Slurm job", lambda: clock.now_s)
    watch.start(JOIN_PATH)
    yield SimpleNamespace(job=job, watch=watch, clock=clock)
    job.show(CANCELLED)
    watch.cancel()
    job.show(CANCELLED)
    watch.end(PATIENCE_S)
    assert not watch._thread.is_alive()


def see(party, seen):
    """Let this be seen, and wait until it was taken in."""
    answer(party, seen)
    party.watch.ask()
    party.job.await_look()
    party.job.go_on_waiting()


def answer(party, *seen):
    """Answer looks with these, one after the other."""
    for each in seen:
        party.job.await_look()
        party.job.show(each)


def test_before_it_is_submitted_it_waits(party):
    watch = JobWatch(lambda _path: FakeJob(), "the Slurm job")
    assert watch.is_pending
    assert (watch.label, watch.words) == ("the Slurm job", "being submitted")


def test_what_the_scheduler_says_is_told_word_for_word(party):
    see(party, PENDING)
    assert party.watch.is_pending
    assert (party.watch.label, party.watch.words) == ("Slurm job 12", "PENDING: Resources")
    see(party, RUNNING)
    assert not party.watch.is_pending
    assert party.watch.describe() == "Slurm job 12, RUNNING"
    assert party.watch.note == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StartFailed("Invalid account"), "Invalid account."),
        (ValueError("no number"), "ValueError: no number."),
    ],
)
def test_a_job_that_is_not_taken_or_a_thread_that_breaks_leaves_no_start_waiting(error, told):
    def submit(_path):
        raise error

    watch = JobWatch(submit, "the Slurm job")
    watch.start(JOIN_PATH)
    watch.end(PATIENCE_S)
    assert watch.why_nobody_comes == told
    assert watch.has_answered(watch.ask())


def test_a_question_is_answered_by_a_look_that_began_after_it(party):
    see(party, RUNNING)
    party.job.await_look()
    question = party.watch.ask()
    party.job.show(RUNNING)
    party.job.await_look()
    assert not party.watch.has_answered(question)
    party.job.show(CANCELLED)
    assert wait_until(lambda: party.watch.has_answered(question))
    assert f"({CANCELLED.words})" in party.watch.why_lost("nodeA")


@pytest.mark.parametrize(("lag_s", "confirm_s"), [(0.0, 0.5), (0.5, 0.0), (0.25, 0.25)])
def test_that_a_job_runs_is_believed_only_some_time_after_its_agent_has_gone(
    party, lag_s, confirm_s
):
    see(party, RUNNING)
    party.job.await_look()
    party.watch._lag_s = lag_s
    question = party.watch.ask(confirm_s)
    for later_s in (0.0, 0.5):
        party.clock.now_s += later_s
        for _ in range(2):
            assert not party.watch.has_answered(question)
            party.job.show(RUNNING)
            party.job.await_look()
    assert party.watch.has_answered(question)
    question = party.watch.ask(0.5)
    party.job.show(RUNNING)
    answer(party, CANCELLED)
    assert wait_until(lambda: party.watch.has_answered(question))
    assert party.watch.why_lost("nodeA")


def test_a_question_that_nobody_asks_after_is_closed_in_the_end(party):
    see(party, RUNNING)
    party.job.await_look()
    party.watch.ask()
    party.clock.now_s += ANSWER_PATIENCE_S
    for _ in range(2):
        party.job.show(JobSeen(JobState.UNKNOWN, "squeue: timed out"))
        party.job.await_look()
        party.watch.ask()
    assert len(party.watch._open) <= 2


@pytest.mark.parametrize(
    "words",
    [ending(), JobSeen(JobState.UNKNOWN, "squeue: timed out")],
)
def test_a_job_that_is_moving_or_cannot_be_asked_is_no_answer(party, words):
    see(party, RUNNING)
    party.job.await_look()
    question = party.watch.ask()
    party.job.show(RUNNING)
    answer(party, words)
    party.job.await_look()
    assert not party.watch.has_answered(question)
    party.job.show(ending(JobCause.TIMEOUT))
    assert wait_until(lambda: party.watch.has_answered(question))
    assert "TIMEOUT" in party.watch.why_lost("nodeA")


def test_a_scheduler_that_does_not_answer_is_waited_for_so_long_only(party):
    see(party, RUNNING)
    question = party.watch.ask()
    assert not party.watch.has_answered(question)
    party.clock.now_s += ANSWER_PATIENCE_S
    assert party.watch.has_answered(question)
    assert party.watch.why_lost("nodeA") == ""


def test_what_was_known_stays_known_while_a_scheduler_is_away(party):
    see(party, JobSeen(JobState.RUNNING, "RUNNING", 5000.0))
    for _ in range(2):
        see(party, JobSeen(JobState.UNKNOWN, "squeue: timed out"))
    words = "squeue: timed out, last known: RUNNING"
    assert party.watch.seen == JobSeen(JobState.RUNNING, words, 5000.0)


def test_an_end_is_told_with_what_the_job_has_said_and_its_files_stay_for_now(party):
    party.job.output = "no module\nnamed x\n"
    party.job.failure = Failure("nodeB has no jupyter-dist", "Install it.")
    see(party, RUNNING)
    assert party.watch.last_line.endswith(": named x")
    answer(party, CANCELLED)
    assert wait_until(lambda: party.watch.problem)
    assert party.watch.problem == party.watch.note
    assert party.watch.problem.endswith(f" ({CANCELLED.words})")
    assert party.watch.why_nobody_comes == f"{party.watch.problem}. {party.job.failure}"
    assert party.watch.said == "no module\nnamed x\n"
    assert party.job.told == []


def test_what_a_running_job_has_written_is_believed_after_a_moment(party):
    party.job.failure = Failure("nodeB has no jupyter-dist", "Install it.")
    see(party, RUNNING)
    assert party.watch.why_nobody_comes == ""
    party.clock.now_s += job_watch.FAILURE_GRACE_S
    assert party.watch.why_nobody_comes == f"Slurm job 12: {party.job.failure}"
    party.job.failure = None
    see(party, RUNNING)
    assert party.watch.why_nobody_comes == ""


def test_a_job_that_would_wait_for_ever_is_given_up_after_a_moment(party):
    see(party, JobSeen(JobState.PENDING, "PENDING: PartitionNodeLimit"))
    assert party.watch.why_nobody_comes == ""
    party.clock.now_s += job_watch.VAIN_GRACE_S
    assert party.watch.why_nobody_comes.startswith("Slurm job 12: PENDING: PartitionNodeLimit. ")
    see(party, PENDING)
    assert party.watch.why_nobody_comes == ""


def test_a_time_limit_that_nears_is_news_once_for_each_step(party, monkeypatch):
    now = SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr(job_watch, "time", lambda: now.now_s)
    see(party, JobSeen(JobState.RUNNING, "RUNNING", 1700.0))
    assert party.watch.take_news() == ""
    now.now_s = 1110.0
    news = party.watch.take_news()
    assert " 9 min " in news
    assert (party.watch.take_news(), party.watch.note) == ("", news)
    now.now_s = 1600.0
    assert " 100 s " in party.watch.take_news()


# --- the end ---


def test_a_job_that_is_cancelled_is_looked_at_until_it_has_ended(party):
    party.job.await_look()
    party.watch.cancel()
    party.job.show(PENDING)
    answer(party, PENDING)
    assert party.job.is_cancelled.wait(PATIENCE_S)
    answer(party, CANCELLED)
    party.watch.end(PATIENCE_S)
    assert party.job.told == ["cancel", "end"]


def test_a_job_whose_agents_have_ended_ends_without_being_cancelled(party):
    see(party, RUNNING)
    ending = threading.Thread(target=party.watch.end, args=(PATIENCE_S,))
    ending.start()
    answer(party, RUNNING, ended(JobCause.COMPLETED))
    ending.join(PATIENCE_S)
    assert party.job.told == ["end"]


def test_a_job_that_does_not_end_by_itself_is_cancelled_then(party):
    see(party, RUNNING)
    party.job.await_look()
    ending = threading.Thread(target=party.watch.end, args=(PATIENCE_S,))
    ending.start()
    party.job.show(RUNNING)
    party.job.await_look()
    party.clock.now_s += job_watch.END_GRACE_S
    party.job.show(RUNNING)
    assert party.job.is_cancelled.wait(PATIENCE_S)
    answer(party, CANCELLED)
    ending.join(PATIENCE_S)
    assert party.job.told == ["cancel", "end"]


def test_a_job_that_could_not_be_cancelled_is_cancelled_again(party):
    party.job.hindrance = "scancel has not answered"
    party.job.await_look()
    party.watch.cancel()
    party.job.show(PENDING)
    for _ in range(2):
        party.job.await_look()
        party.job.show(PENDING)
    party.job.await_look()
    assert party.job.told == ["cancel", "cancel"]
    assert party.watch.left == party.job.hindrance
    party.job.hindrance = ""
    party.job.show(PENDING)
    assert party.job.is_cancelled.wait(PATIENCE_S)
    answer(party, CANCELLED)
    party.watch.end(PATIENCE_S)
    assert party.job.told == ["cancel"] * 3 + ["end"]
    assert party.watch.left == ""


def test_a_job_that_cannot_be_cancelled_is_told(party):
    party.job.hindrance = "scancel has not answered"
    party.job.await_look()
    party.watch.cancel()
    party.job.show(PENDING)
    party.job.await_look()
    party.clock.now_s += job_watch.END_TIMEOUT_S
    party.job.show(PENDING)
    party.watch.end(PATIENCE_S)
    assert party.job.told[-1] == "end"
    assert party.watch.left == party.job.hindrance


def test_a_job_that_is_taken_while_the_start_is_given_up_is_cancelled():
    job, is_submitting, may_go_on = FakeJob(), threading.Event(), threading.Event()

    def submit(_path):
        is_submitting.set()
        assert may_go_on.wait(PATIENCE_S)
        return job

    watch = JobWatch(submit, "the Slurm job")
    watch.start(JOIN_PATH)
    assert is_submitting.wait(PATIENCE_S)
    watch.cancel()
    may_go_on.set()
    job.show(PENDING)
    assert job.is_cancelled.wait(PATIENCE_S)
    job.show(CANCELLED)
    watch.end(PATIENCE_S)
    assert job.told == ["cancel", "end"]


def wait_until(holds):
    """Wait for what a thread does next, which has no event of its own."""
    patience = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if holds():
            return True
        patience.wait(0.01)
    return False


def test_who_looks_on_is_told_that_a_job_has_ended_by_itself():
    job, has_ended = FakeJob(), threading.Event()
    watch = JobWatch(lambda _path: job, "the Slurm job", on_end=has_ended.set)
    watch.start(JOIN_PATH)
    job.show(RUNNING)
    assert not has_ended.is_set()
    job.show(CANCELLED)
    watch.ask()
    assert has_ended.wait(PATIENCE_S)
    assert "CANCELLED by root" in watch.problem
    watch.end(PATIENCE_S)


def test_a_job_that_nobody_watches_any_more_goes_on_without_its_files():
    job = FakeJob()
    watch = JobWatch(lambda _path: job, "the Slurm job")
    watch.start(JOIN_PATH)
    job.show(RUNNING)
    job.await_look()
    watch.let_go()
    assert job.told == ["remove_files"]
