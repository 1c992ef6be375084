"""Magics of a notebook that `jupyter dist run` runs."""

import atexit
import os

import pytest

from jupyter_dist.cluster.asking.front_end import JOB_VARIABLE
from jupyter_dist.cluster.jobs.job_events import NoteTold, SpmdBegan, SpmdEnded
from jupyter_dist.errors import CellInterrupted, CellRefused, ClusterGone, UsageError
from jupyter_dist.magics import job as job_module
from jupyter_dist.magics.job import Job, PublishedView
from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import Output, RankFinished, RankOutput
from jupyter_dist.text.lists import Passing


@pytest.fixture
def told(monkeypatch):
    """What the command is told."""
    events = []
    monkeypatch.setattr(job_module, "open_comm", lambda: events.append)
    return events


@pytest.fixture
def job(told, shell, world, monkeypatch):
    """Make the shell that of a job on a cluster that runs; gives the cluster."""

    def become(name="night"):
        monkeypatch.setenv(JOB_VARIABLE, name)
        shell.run_line_magic("reload_ext", "jupyter_dist")
        assert JOB_VARIABLE not in os.environ
        return world.kind.start("localhost:2", name="night")

    return become


def test_cells_run_on_the_cluster_of_the_job_without_a_start(run, job):
    night = job()
    assert run("%%spmd\nx = 1").success
    assert [call.code for call in night.calls] == ["#%%spmd\nx = 1\n"]


def test_a_start_of_the_notebook_takes_up_that_cluster_whatever_it_asks_for(run, job, world):
    night = job()
    assert "night" in run("%dist_start -n 8 --name mine -o cluster").text
    assert [*world.clusters] == ["night"]
    assert world.kind.started["night"] is night
    assert run("cluster").result is night
    assert run("%dist_start -n 8").success


def test_a_notebook_does_not_stop_the_cluster_of_its_job(run, job, world):
    job()
    assert "goes on" in run("%dist_stop").text
    assert [*world.clusters] == ["night"]


def test_a_job_without_a_cluster_starts_its_own_and_stops_it(run, job, told, world, monkeypatch):
    at_exit = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    job("")
    run("%dist_start -n 2 --name mine")
    assert at_exit == [world.clusters["mine"].stop]
    run("%%spmd\nx = 1")
    assert [type(event) for event in told] == [SpmdBegan, SpmdEnded]
    run("%dist_stop")
    assert [*world.clusters] == ["night"]


def test_the_variable_is_read_once_and_holds_after_the_extension_is_loaded_again(
    run, job, shell, told
):
    job()
    shell.run_line_magic("reload_ext", "jupyter_dist")
    run("%%spmd\nx = 1")
    assert told[0] == SpmdBegan("night", (0, 1), None, OutputStyle())


def test_the_command_is_told_what_is_shown_and_how(run, job, told):
    job()
    run("%%spmd --ranks 0-1 --show 1 --quiet\nx = 1")
    assert told[0] == SpmdBegan("night", (0, 1), (1,), OutputStyle(quiet=True))
    assert told[-1] == SpmdEnded(0, "")


def test_a_cell_in_the_background_has_a_line_of_its_own(run, job, monkeypatch):
    lines = []
    monkeypatch.setattr(job_module, "open_comm", lambda: lines.append([]) or lines[-1].append)
    job()
    for magic in ("%%spmd", "%%spmd --background", "%%spmd", "%%spmd --background"):
        run(f"{magic}\nx = 1")
    began = [[each.is_background for each in line if type(each) is SpmdBegan] for line in lines]
    assert began == [[False, False], [True], [True]]


def test_the_command_is_told_how_a_cell_has_failed(run, job, told):
    job().statuses = ["raised", "ok"]
    assert not run("%%spmd\nx = 1").success
    assert told[-1].exit_status == 1
    assert "rank 0: ZeroDivisionError" in told[-1].problem


def test_nothing_is_told_of_a_cell_that_is_refused_before_it_begins(run, job, told):
    job()
    assert isinstance(run("%%spmd --break 99\nx = 1").error_in_exec, UsageError)
    assert told == []


def test_a_job_that_has_failed_is_to_end(run, job):
    night = job()
    run("%%spmd\nx = 1")
    run("%%spmd --on-error wait\nx = 1")
    assert [call.on_error for call in night.calls] == ["interrupt", "wait"]


def test_a_cell_that_is_no_python_is_refused_as_ever(run, job):
    job()
    assert isinstance(run("%%spmd\nx =").error_in_exec, UsageError)


class View:
    """Remembers what it was told."""

    shows_widgets = True

    def __init__(self):
        self.told = []

    def on_output(self, *given):
        self.told.append(given)

    on_finished = on_note = on_tick = finish = on_output

    def on_question(self):
        return True


def test_both_are_told_the_same_in_the_same_order():
    view, told = View(), []
    both = PublishedView(view, told.append)
    output, end = Output("stdout", "x\n"), RankFinished(0, "ok", 0.1)
    both.on_output([0], [output])
    both.on_note(Passing("it waits"))
    both.on_finished(end)
    both.on_tick()
    both.finish(None)
    assert view.told == [([0], [output]), ("it waits",), (end,), (), (None, None)]
    assert told[:3] == [RankOutput((0,), (output,)), NoteTold("it waits", is_passing=True), end]
    assert told[3].exit_status == 1
    assert both.shows_widgets
    assert both.on_question()


class ClosedView(View):
    """Cannot show how a cell has ended."""

    def finish(self, *given):
        raise BrokenPipeError(given)


def test_the_end_is_told_though_it_cannot_be_shown():
    told = []
    with pytest.raises(BrokenPipeError):
        PublishedView(ClosedView(), told.append).finish(None)
    assert [type(event) for event in told] == [SpmdEnded]


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (CellRefused("lost ranks"), 1),
        (CellInterrupted("taken back"), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_the_command_is_told_why_there_is_no_result(problem, status):
    view, told = View(), []
    PublishedView(view, told.append).give_up(problem)
    assert view.told == [(None,)]
    assert told == [SpmdEnded(status, str(problem) or "KeyboardInterrupt")]


@pytest.mark.parametrize(("stopped", "status"), [("night", 130), ("day", 1)])
def test_what_ends_with_the_cluster_that_the_notebook_stops_has_not_failed(told, stopped, status):
    job, gone = Job(""), ClusterGone("night", "its coordinator has ended")
    view = job.published(View(), SpmdBegan("night", (0,), None, OutputStyle(), is_background=True))
    with job.stopping(stopped):
        view.give_up(gone)
    assert told[-1] == SpmdEnded(status, str(gone))


def test_a_cluster_that_was_not_stopped_may_still_fail(told):
    job, gone = Job(""), ClusterGone("night", "its coordinator has ended")
    view = job.published(View(), SpmdBegan("night", (0,), None, OutputStyle(), is_background=True))
    with pytest.raises(KeyboardInterrupt), job.stopping("night"):
        raise KeyboardInterrupt
    view.give_up(gone)
    assert told[-1].exit_status == 1


def test_a_cell_that_is_refused_is_told_with_its_reason(run, job, told, monkeypatch):
    night = job()
    refused = CellRefused("lost ranks are not replaced")

    def refuse(*_, **__):
        raise refused

    monkeypatch.setattr(night, "run", refuse)
    assert run("%%spmd\nx = 1").error_in_exec is refused
    assert told[-1] == SpmdEnded(1, str(refused))
