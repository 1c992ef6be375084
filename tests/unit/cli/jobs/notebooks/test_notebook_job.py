"""How a notebook's job ends, with a kernel and an nbclient that only do what they are told."""

import asyncio
import signal
from types import SimpleNamespace

import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_dist.cli.jobs.notebooks import notebook_job
from jupyter_dist.cli.jobs.notebooks.notebook_job import JobOptions, NotebookJob
from jupyter_dist.cli.jobs.notebooks.notebook_shows import JsonShow
from jupyter_dist.cluster.jobs.job_events import SpmdBegan, SpmdEnded
from jupyter_dist.options.output_options import OutputStyle

BEGAN = SpmdBegan("demo", (0, 1), None, OutputStyle(), is_background=True)


class Kernel:
    """The manager of one that lives."""

    has_kernel = True
    provisioner = None

    async def start_kernel(self, **_how):
        pass

    async def is_alive(self):
        return True

    async def shutdown_kernel(self, **_how):
        self.has_kernel = False


class Client:
    """Cells that begin one in the background; or fail, as their source says."""

    kc = None
    asked: list[str]
    """What the cluster was asked for."""

    def __init__(self, _notebook, show, **_more):
        self._show = show

    async def async_start_new_kernel_client(self):
        pass

    async def async_execute_cell(self, cell, _place):
        if cell.source == "fail":
            raise CellExecutionError("", "ValueError", "7")
        if cell.source == "stop":
            signal.raise_signal(signal.SIGINT)
            return
        self._show.begin_background(BEGAN)

    async def hear_late(self, _timeout_s):
        """Hear that the first which still ran was interrupted, if it was."""
        await asyncio.sleep(0)
        if len(self.asked) > len([run for run in self._show.background if run.end]):
            self._show.running_beside[0].take_event(SpmdEnded(130, "interrupted"))

    def set_widgets_metadata(self):
        pass


@pytest.fixture
def asked(demo, monkeypatch):
    """What cluster demo was asked for; it interrupts no more than the first cell that runs."""
    asked = []
    monkeypatch.setattr(demo, "interrupt", lambda: asked.append("interrupt"))
    monkeypatch.setattr(Client, "asked", asked, raising=False)
    return asked


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a notebook with these cells on cluster demo; gives how it has ended."""
    monkeypatch.setattr(notebook_job, "_make_manager", lambda *_: Kernel())
    monkeypatch.setattr(notebook_job, "JobClient", Client)

    def run(*sources):
        notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
        options = JobOptions(path=tmp_path / "train.ipynb", kernel="python3", cluster="demo")
        show = JsonShow(lambda _: None)
        outcome = NotebookJob(notebook, options, show).run()
        return SimpleNamespace(outcome=outcome, left=show.running_beside)

    return run


def test_cells_in_the_background_end_with_the_cell_that_fails(run, asked):
    ended = run("begin", "begin", "fail", "begin")
    assert (ended.outcome.status, ended.left) == (1, [])
    assert asked == ["interrupt"] * 2, "the second waited for the first"


def test_cells_that_a_job_waits_for_end_one_after_the_other_with_it(run, asked):
    ended = run("begin", "begin", "begin", "stop")
    assert (ended.outcome.status, ended.left) == (130, [])
    assert asked == ["interrupt"] * 3


def test_the_ends_of_cells_are_not_waited_for_where_the_kernel_is_dead(run, asked, monkeypatch):
    has_ended = asyncio.sleep(0, result=False)
    monkeypatch.setattr(Kernel, "is_alive", lambda _: has_ended)
    ended = run("begin", "begin", "fail")
    assert (len(asked), len(ended.left)) == (1, 2)


def test_nothing_is_interrupted_where_nothing_goes_on(run, demo, monkeypatch):
    monkeypatch.setattr(demo, "interrupt", lambda: pytest.fail("it may be another's cell"))
    assert run("fail").outcome.problem == "cell 1: ValueError: 7"
