"""`jupyter dist run train.ipynb`: what its options mean, before anything is started."""

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_dist.cli.jobs.notebooks import notebook_job
from jupyter_dist.cli.jobs.notebooks.notebook_job import CellOutcome
from jupyter_dist.cli.jobs.restarts import Outcome


@pytest.fixture
def train(tmp_path):
    """A notebook with one parameter."""
    cells = [new_code_cell("lr = 0.5", metadata={"tags": ["parameters"]}), new_code_cell("lr")]
    path = tmp_path / "train.ipynb"
    write(new_notebook(cells=cells), path)
    return str(path)


@pytest.fixture
def jobs(monkeypatch):
    """Those that were run; `outcomes` is how the next ones end."""

    class Jobs(list):
        outcomes = ()

    made = Jobs()

    class Job:
        def __init__(self, notebook, options, show):
            self.sources = [cell.source for cell in notebook.cells]
            self.options = options
            self.cells = [CellOutcome(1, "lr = 0.5", "ok", 0.1), CellOutcome(2, "lr")]
            made.append(self)

        def run(self):
            return dict(enumerate(made.outcomes, 1)).get(len(made), Outcome())

    monkeypatch.setattr(notebook_job, "NotebookJob", Job)
    return made


def test_options_may_stand_behind_a_notebook_as_before_it(dist, jobs, train, tmp_path):
    output = tmp_path / "out.ipynb"
    words = ["-p", "lr", "0.1", "--output", str(output), "--timeout", "5m"]
    assert dist("run", *words, train)[0] == 0
    assert dist("run", train, *words)[0] == 0
    before, behind = jobs
    assert before.sources == behind.sources == ["lr = 0.5", "# Parameters\nlr = 0.1", "lr"]
    assert before.options == behind.options
    assert (before.options.output, before.options.timeout_s) == (output, 300.0)
    assert (before.options.kernel, before.options.cluster) == ("python3", "")


def test_where_a_place_is_said_the_notebook_has_its_cluster(dist, jobs, kind, demo, train):
    assert dist("run", train, "--name", "demo")[0] == 0
    assert jobs[0].options.cluster == "demo"
    assert demo.is_running


def test_a_notebook_begins_again_after_a_loss_where_that_is_wanted(dist, jobs, demo, train):
    jobs.outcomes = [Outcome(137, "rank 0 is lost", is_lost=True)]
    assert dist("run", train, "--name", "demo", "--on-loss", "heal")[0] == 0
    assert len(jobs) == 2
    assert jobs[0].sources == jobs[1].sources


def test_how_it_has_failed_is_told(dist, jobs, train):
    jobs.outcomes = [Outcome(3, "cell 2: SystemExit: 3")]
    assert dist("run", train) == (3, "", "jupyter dist: cell 2: SystemExit: 3\n")


def test_a_report_has_a_case_for_each_cell(dist, jobs, train, tmp_path):
    report = tmp_path / "report.xml"
    dist("run", train, "--junit", str(report))
    text = report.read_text()
    assert 'tests="2"' in text
    assert 'skipped="1"' in text
    assert "cell 1: lr = 0.5" in text


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["-p", "lrr", "1"], "lrr"),
        (["-p", "lr", "fast"], "'fast'"),
        (["-p", "lr"], "-p"),
        (["-p", "1x", "1"], "1x"),
        (["--output", "/no/such/folder/out.ipynb"], "/no/such/folder"),
        (["--junit", "/no/such/folder/x.xml"], "/no/such/folder"),
        (["--kernel", "no-such"], "no-such"),
        (["more", "words"], "more words"),
        (["--resume", "/d"], "--resume"),
        (["--on-loss", "heal"], "--on-loss"),
        (["--ranks", "0"], "--ranks"),
        (["--env", "A=1"], "env"),
        (["--nmae", "x"], "--nmae"),
        (["--name", "nope"], "nope"),
    ],
)
def test_what_cannot_be_meant_has_status_two_and_starts_nothing(dist, jobs, train, words, given):
    status, out, err = dist("run", train, *words)
    assert (status, out) == (2, "")
    assert given in err
    assert err.count("\n") == 1
    assert jobs == []


def test_the_notebook_itself_is_no_output(dist, jobs, train):
    assert dist("run", train, "--output", train)[0] == 2
    assert dist("run", "-m", train)[0] == 2
    assert jobs == []
