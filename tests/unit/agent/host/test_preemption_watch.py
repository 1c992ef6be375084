import errno
import queue
import subprocess

import pytest

from jupyter_dist.agent.host import preemption_watch as preempt_watch
from jupyter_dist.agent.host.preemption_watch import PreemptionWatch
from jupyter_dist.protocol import host_agent_pb2 as pb
from tests.patience import wait_until

HEED = pb.AgentCommand(heed_notices=pb.HeedNotices(is_wanted=True))
HEED_NO_MORE = pb.AgentCommand(heed_notices=pb.HeedNotices(is_wanted=False))
LET_GO = pb.AgentCommand(let_go=pb.LetGo())


class Watched:
    """A watch whose words are kept, and a file that counts the runs of its command."""

    def __init__(self, runs):
        self.said = queue.SimpleQueue()
        self.ends = []
        self.runs = runs
        self.watch = PreemptionWatch(self.said.put, lambda: self.ends.append(1))

    def ask(self, command):
        self.watch.ask(f"echo run >> {self.runs}; {command}")

    def next(self):
        """Wait for the next event."""
        return self.said.get(timeout=20)

    def next_notice(self):
        """Wait for the next event that is a notice."""
        while not (event := self.next()).HasField("notice"):
            pass
        return event.notice

    def count(self):
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0

    def await_runs(self, count):
        """Wait until the command has begun so often."""
        while self.count() < count:
            self.watch._over.wait(0.01)


@pytest.fixture
def watched(monkeypatch, tmp_path):
    monkeypatch.setattr(preempt_watch, "INTERVAL_S", 0.02)
    watched = Watched(tmp_path / "runs")
    yield watched
    watched.watch.close()


def test_with_interest_sigterm_is_told_once_and_ends_the_agent_when_it_is_let_go(watched):
    watched.watch.obey(HEED)
    watched.watch.on_terminate()
    watched.watch.on_terminate()
    assert watched.next().notice == pb.Notice(reason="SIGTERM", is_ending=True)
    assert watched.said.empty()
    assert watched.ends == []
    watched.watch.obey(LET_GO)
    assert watched.ends == [1]


@pytest.mark.parametrize("orders", [(), (HEED, HEED_NO_MORE), (HEED, None)])
def test_sigterm_ends_the_agent_at_once_unless_someone_is_interested(watched, orders):
    for order in orders:  # None: the cluster stops
        watched.watch.close() if order is None else watched.watch.obey(order)
    watched.watch.on_terminate()
    assert watched.ends == [1]
    assert watched.said.empty()


def test_an_agent_that_waits_for_nothing_is_not_ended_by_being_let_go(watched):
    watched.watch.obey(LET_GO)
    assert watched.ends == []


def test_a_command_that_succeeds_is_a_notice_until_it_does_not(watched, tmp_path):
    word = tmp_path / "word"
    word.write_text("  spot   instance\nmore\n")
    watched.watch.ask(f"cat {word}")
    assert watched.next().notice == pb.Notice(reason="spot instance")
    word.unlink()
    assert watched.next().notice == pb.Notice(is_withdrawn=True)
    word.touch()
    assert watched.next().notice == pb.Notice(reason=f"cat {word}")


@pytest.mark.parametrize("wrong", ["false", "kill -9 $$", "exit 126", "exit 127"])
def test_a_run_that_goes_wrong_withdraws_nothing(watched, tmp_path, wrong):
    """Not even two in a row that fail, and none of any number that could not say anything."""
    count = 2 if wrong == "false" else 5
    runs, over = watched.runs, tmp_path / "over"
    watched.ask(
        f"test -e {over} && exit 1; "
        f"test $(wc -l < {runs}) -eq 1 -o $(wc -l < {runs}) -gt {count + 1} || ({wrong}) || exit $?; "
        "echo spot"
    )
    assert watched.next().notice == pb.Notice(reason="spot")
    watched.await_runs(count + 3)
    over.touch()
    assert watched.next_notice() == pb.Notice(is_withdrawn=True)
    assert watched.said.empty()


def test_a_run_that_hangs_withdraws_nothing(watched, monkeypatch, tmp_path):
    hangs = tmp_path / "hangs"
    watched.ask(f"test ! -e {hangs} || sleep 600")
    assert watched.next().notice.reason
    # Not before: on a busy machine the run that succeeds may take longer than this.
    monkeypatch.setattr(preempt_watch, "TIMEOUT_S", 0.2)
    hangs.touch()
    watched.await_runs(watched.count() + 5)
    notices = [watched.next() for _ in range(watched.said.qsize())]
    assert not any(event.HasField("notice") for event in notices)


def test_a_command_that_cannot_be_started_is_told_once_and_tried_again(watched, monkeypatch):
    real, tries = subprocess.Popen, []

    def popen(*arguments, **options):
        tries.append(1)
        if len(tries) < 4:
            raise BlockingIOError(errno.EAGAIN, "no memory")
        return real(*arguments, **options)

    monkeypatch.setattr(preempt_watch.subprocess, "Popen", popen)
    watched.watch.ask("echo spot")
    text = watched.next().note.text
    assert "'echo spot'" in text
    assert text.endswith("no memory")
    assert watched.next().notice == pb.Notice(reason="spot")


def test_a_command_that_is_not_there_is_told_once(watched):
    watched.watch.ask("no-such-command-here")
    text = watched.next().note.text
    assert "'no-such-command-here'" in text
    assert text.endswith("not found")
    watched.watch.close()
    assert watched.said.empty()


def test_a_command_that_hangs_says_nothing_and_is_ended(watched, monkeypatch):
    monkeypatch.setattr(preempt_watch, "TIMEOUT_S", 0.2)
    watched.ask("sleep 600")
    watched.await_runs(2)
    assert watched.said.empty()


def test_the_end_of_the_watch_ends_the_command(watched):
    watched.ask("exec sleep 600")
    # The command has begun a moment before its process is known.
    process = wait_until(lambda: watched.watch._process, 20, "the command runs")
    watched.watch.close()
    assert process.wait(20) != 0
