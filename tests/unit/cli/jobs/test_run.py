"""`jupyter dist run`: what is sent to which cluster, and the exit status."""

import io
import json
import os
import signal
import sys
import threading
from contextlib import suppress
from xml.etree import ElementTree as ET

import pytest

from jupyter_dist.cli.jobs.job_report import JobReport
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.errors import ClusterGone
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.protocol.commands import PROGRAM


@pytest.fixture
def train(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("x = 1\n")
    return str(file)


def sent(call):
    return PROGRAM.read_request(call.code)


def test_a_program_goes_to_a_cluster_that_runs_with_its_arguments(dist, demo, train):
    options = ["--name", "demo", "--ranks", "0-1", "--timeout", "5m"]
    assert dist("run", *options, train, "--lr", "0.1", "--name", "x")[0] == 0
    (call,) = demo.calls
    assert (call.ranks, call.timeout_s) == ((0, 1), 300.0)
    program = sent(call)
    assert program.arguments == ("--lr", "0.1", "--name", "x")
    assert (program.path, program.source) == (train, "x = 1\n")
    assert call.code.title == f"python {train} --lr 0.1 --name x"
    assert demo.is_running


def test_without_a_name_it_gets_a_cluster_of_its_own_which_ends_with_it(dist, kind):
    begun = []
    kind.begun = property(lambda _: begun)
    start = kind.start
    kind.start = classmethod(lambda _, **options: begun.append(start(**options)) or begun[-1])
    assert dist("run", "-n", "2", "--start-timeout", "9", "-m", "pkg.mod", "-v")[0] == 0
    (cluster,) = begun
    assert (cluster.hosts, cluster.options["keep_s"]) == ("localhost:2", 0.0)
    assert cluster.options["timeout_s"] == 9.0
    program = sent(cluster.calls[0])
    assert (program.path, program.is_module, program.arguments) == ("pkg.mod", True, ("-v",))
    assert kind.started == {}


def test_standard_input_is_a_program(dist, demo, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y = 2\n"))
    assert dist("run", "--name", "demo", "-", "a")[0] == 0
    program = sent(demo.calls[0])
    assert (program.path, program.source, program.arguments) == ("<stdin>", "y = 2\n", ("a",))


def test_events_are_lines_of_json(dist, demo, train):
    demo.statuses = ["raised"]
    status, out, _ = dist("run", "--json", "--name", "demo", train)
    began, ended = map(json.loads, out.splitlines())
    assert began == {"event": "began", "cluster": "demo", "ranks": [0, 1, 2, 3]}
    assert (ended["event"], ended["exit_status"], status) == ("ended", 1, 1)
    assert "rank 0" in ended["problem"]


@pytest.mark.parametrize(
    ("problem", "status"),
    [(ClusterGone("night", "it ended"), 1), (KeyboardInterrupt("left alone"), 130)],
)
def test_the_last_event_comes_whatever_has_ended_the_program(dist, demo, train, problem, status):
    demo.problem = problem
    ended, out, err = dist("run", "--json", "--name", "demo", train)
    last = json.loads(out.splitlines()[-1])
    assert (ended, last["event"], last["exit_status"]) == (status, "ended", status)
    assert last["problem"] in err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("-n 0 train.py", 2),
        ("--frob train.py", 2),
        ("-n", 2),
        ("nowhere.py", 2),
        ("--name nope train.py", 2),
        ("--junit no/folder/x.xml train.py", 2),
        ("broken.py", 1),
        ("broken.ipynb", 2),
        ("--cwd /broken train.py", 1),
        ("--cwd /long train.py", 130),
        ("-n 2 --cwd /broken whole.ipynb", 1),
    ],
)
def test_the_last_event_comes_though_nothing_has_begun(
    dist, kind, tmp_path, monkeypatch, words, status
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("x =\n")
    (tmp_path / "broken.ipynb").write_text('{"cells": [')
    (tmp_path / "whole.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    ended, out, err = dist("run", "--json", *words.split())
    (last,) = map(json.loads, out.splitlines())
    assert (ended, last["event"], last["exit_status"]) == (status, "ended", status)
    assert err.endswith(f"jupyter dist: {last['problem']}\n")


def test_what_stands_behind_a_program_is_its_own_also_where_it_is_refused(dist, kind, train):
    assert dist("run", "-n", "0", train, "--json")[:2] == (2, "")
    assert dist("run", "--cwd", "/broken", train, "--json")[:2] == (1, "")
    assert dist("run", "-n", "0", train, "x.ipynb", "--json")[:2] == (2, "")


def test_a_notebook_has_no_words_of_its_own_also_where_they_are_refused(dist, kind):
    words = ["run", "-n", "0", "-p", "lr", "0.5", "x.ipynb", "--json"]
    assert json.loads(dist(*words)[1])["exit_status"] == 2


def test_a_report_says_that_a_cluster_has_not_started(dist, kind, train, tmp_path):
    report = tmp_path / "report.xml"
    assert dist("run", "--junit", str(report), "--cwd", "/broken", train)[0] == 1
    (case,) = ET.parse(report).iter("testcase")
    assert case.find("failure") is not None


def test_a_failure_is_told_on_stderr(dist, demo, train):
    demo.statuses = ["raised"]
    failed = "jupyter dist: rank 0: ZeroDivisionError: division by zero\n"
    status, _, err = dist("run", "--name", "demo", train)
    assert (status, err) == (1, failed)


@pytest.fixture
def announced(monkeypatch):
    """What clusters were told of the end of a job."""
    told = []
    monkeypatch.setattr(
        "jupyter_dist.cluster.jobs.announcement.announce_end", lambda *given: told.append(given)
    )
    return told


def test_sigterm_ends_it_as_ctrl_c_does_and_is_told_apart_and_ranks_may_save_first(
    dist, demo, train, monkeypatch, announced
):
    monkeypatch.setattr(demo, "run_command", raising(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    status, out, _ = dist("run", "--json", "--name", "demo", train)
    last = json.loads(out.splitlines()[-1])
    assert (status, last["exit_status"]) == (143, 143)
    assert signal.getsignal(signal.SIGTERM) is before
    assert [cluster for cluster, _ in announced] == [demo]


def test_ctrl_c_waits_for_no_one(dist, demo, train, monkeypatch, announced):
    monkeypatch.setattr(demo, "run_command", raising(signal.SIGINT))
    assert dist("run", "--name", "demo", train)[0] == 130
    assert announced == []


def raising(*numbers):
    """Return what sends these signals to this process, and waits for the interrupt."""

    def run_command(*_, **__):
        for number in numbers:
            os.kill(os.getpid(), number)
        threading.Event().wait(30)

    return run_command


def test_ranks_that_have_saved_end_well_and_the_job_was_terminated(dist, demo, train, monkeypatch):
    has_saved, run_command = threading.Event(), demo.run_command
    monkeypatch.setattr(
        "jupyter_dist.cluster.jobs.announcement.announce_end", lambda *_: has_saved.set()
    )

    def save_and_leave(*asked, **how):
        os.kill(os.getpid(), signal.SIGTERM)
        with suppress(KeyboardInterrupt):  # it may come at once, or when this has ended
            assert has_saved.wait(30)
        return run_command(*asked, **how)

    monkeypatch.setattr(demo, "run_command", save_and_leave)
    assert dist("run", "--name", "demo", train)[0] == 143


def test_what_ends_soon_after_it_has_saved_is_not_interrupted(dist, demo, train, monkeypatch):
    has_saved, run_command, ended = threading.Event(), demo.run_command, []
    monkeypatch.setattr(
        "jupyter_dist.cluster.jobs.announcement.announce_end", lambda *_: has_saved.set() or "saved"
    )

    def save_and_leave(*asked, **how):
        os.kill(os.getpid(), signal.SIGTERM)
        assert has_saved.wait(30)
        threading.Event().wait(0.2)  # an interrupt would come at once
        ended.append(True)
        return run_command(*asked, **how)

    monkeypatch.setattr(demo, "run_command", save_and_leave)
    assert dist("run", "--name", "demo", train)[0] == 143
    assert ended


def test_a_second_signal_does_not_wait_for_what_is_saved(dist, demo, train, monkeypatch):
    goes_on = threading.Event()
    monkeypatch.setattr(
        "jupyter_dist.cluster.jobs.announcement.announce_end", lambda *_: goes_on.wait(30)
    )

    monkeypatch.setattr(demo, "run_command", raising(signal.SIGTERM, signal.SIGTERM))
    assert dist("run", "--name", "demo", train)[0] == 143
    goes_on.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_end_is_written_changes_nothing(
    dist, demo, train, monkeypatch, announced, number
):
    end = JobReport.end

    def end_at_signal(*given):
        status = end(*given)
        os.kill(os.getpid(), number)
        return status

    monkeypatch.setattr(JobReport, "end", end_at_signal)
    monkeypatch.setattr(demo, "run_command", raising(signal.SIGTERM))
    status, out, _ = dist("run", "--json", "--name", "demo", train)
    events = [json.loads(line)["event"] for line in out.splitlines()]
    assert (status, events.count("ended")) == (143, 1)


def test_a_syntax_error_names_file_and_line_and_nothing_is_started(dist, kind, tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("x = 1\nfor\n")
    said = f"jupyter dist: {file}, line 2: SyntaxError: invalid syntax\n"
    assert dist("run", str(file)) == (1, "", said)
    assert kind.started == {}


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        (["/no/such/file"], "/no/such/file cannot be read: No such file"),
        ([], "FILE"),
        (["train.ipynb"], "train.ipynb"),
        (["-p", "lr", "1", "-m", "x"], "parameters"),
        (["--junit", "/no/such/folder/x.xml", "-m", "x"], "/no/such/folder"),
        (["--restarts", "2", "-m", "x"], "--on-loss"),
        (["--on-loss", "continue", "-m", "x"], "continue"),
        (["--name", "demo", "-n", "2", "-m", "x"], "hosts"),
        (["--name", "nope", "-m", "x"], "'nope'"),
        (["--timeout", "0", "-m", "x"], "'0'"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_status_two(dist, demo, argv, given):
    status, out, err = dist("run", *argv)
    assert (status, out) == (2, "")
    assert given in err
    assert err.count("\n") == 1
    assert demo.calls == []


LOST = CrashReport(rank=0, host="a", reason="killed", signal=9)


@pytest.fixture
def losing(demo, monkeypatch):
    """Lose rank 0 in the first runs; gives how often."""
    runs = []

    def run_command(command, _ranks, **_):
        runs.append(command)
        ends = {"status": "lost", "crash": LOST} if len(runs) < 3 else {"status": "ok"}
        return SpmdResult([RankResult(rank=0, **ends), RankResult(rank=1, status="ok")])

    monkeypatch.setattr(demo, "run_command", run_command)
    return runs


@pytest.mark.parametrize(
    ("options", "runs", "status"),
    [
        ([], 1, 137),
        (["--on-loss", "stop"], 1, 137),
        (["--on-loss", "heal"], 3, 0),
        (["--on-loss", "shrink"], 3, 0),
        (["--on-loss", "heal", "--restarts", "1"], 2, 137),
    ],
)
def test_a_job_begins_again_after_a_loss_where_that_is_wanted(
    dist, losing, train, options, runs, status
):
    ended, out, _ = dist("run", "--json", "--name", "demo", *options, train)
    events = [json.loads(line)["event"] for line in out.splitlines()]
    assert (ended, len(losing)) == (status, runs)
    assert events.count("restarted") == runs - 1
    assert events.count("ended") == 1


def test_a_report_has_a_case_for_each_rank(dist, demo, train, tmp_path):
    demo.statuses = ["ok", "raised"]
    report = tmp_path / "report.xml"
    assert dist("run", "--name", "demo", "--junit", str(report), train)[0] == 1
    (suite,) = ET.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = suite.find("testcase[@name='rank 1']/failure")
    assert failed.get("message") == "ZeroDivisionError: division by zero"


def test_a_job_that_no_rank_has_ended_is_one_case(dist, demo, train, tmp_path):
    demo.problem = ClusterGone("night", "it ended")
    report = tmp_path / "report.xml"
    assert dist("run", "--name", "demo", "--junit", str(report), train)[0] == 1
    assert len(ET.parse(report).findall(".//failure")) == 1


def test_what_was_restored_goes_to_the_program(dist, demo, train, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "jupyter_dist.cli.jobs.run_program.restore_newest",
        lambda _, directory: asked.append(directory) or ("step", "weights"),
    )
    assert dist("run", "--name", "demo", "--resume", "/saved", train)[0] == 0
    assert asked == ["/saved"]
    assert sent(demo.calls[-1]).restored == ("step", "weights")
