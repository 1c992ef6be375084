"""Notebooks as jobs: `jupyter dist run train.ipynb` with a real kernel and real ranks."""

import json
import os
import signal
import subprocess
import sys
from xml.etree import ElementTree as ET

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

RUN = (sys.executable, "-m", "jupyter_dist.cli", "run")
WAITING = """%%spmd
import time
print("begun")
try:
    time.sleep(600)
finally:
    print("left")
"""


@pytest.fixture
def notebook(tmp_path):
    """Write a notebook, its first cell with the parameters; gives its path."""

    def make(*sources):
        cells = [new_code_cell(source) for source in sources]
        cells[0].metadata["tags"] = ["parameters"]
        path = tmp_path / "train.ipynb"
        nbformat.write(new_notebook(cells=cells), path)
        return str(path)

    return make


@pytest.fixture
def out(tmp_path):
    """Where a notebook is written with its outputs; its cells are those of the file."""

    class Output:
        path = str(tmp_path / "out.ipynb")

        @property
        def cells(self):
            return nbformat.read(self.path, 4).cells

    return Output()


def run(*words):
    """Run the command; gives its exit status and what it has written."""
    ended = subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=90, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def text_of(cell):
    return "".join(
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    )


def test_a_notebook_starts_its_own_cluster_and_is_given_parameters(home, notebook, out):
    path = notebook(
        "%%spmd\nlr = 0.5",
        "print('here')",
        "%%spmd\nprint(lr, world_size)\nprint(rank)",
    )
    text = nbformat.read(path, 4)
    text.cells.insert(0, new_code_cell("%load_ext jupyter_dist\n%dist_start -n 2"))
    nbformat.write(text, path)
    status, told, err = run(path, "-p", "lr", "0.1", "--output", out.path)
    assert status == 0, err
    assert "2 ranks ready" in told
    assert "here\n[0-1] 0.1 2\n" in told
    assert sorted(told.splitlines()[-2:]) == ["[0]   0", "[1]   1"]
    assert "0.1 2" in text_of(out.cells[-1])
    assert nbformat.read(path, 4) == text


def test_a_failure_in_a_cell_ends_the_job_and_all_is_written(home, notebook, out, tmp_path):
    path = notebook(
        "%load_ext jupyter_dist",
        "%%spmd\nprint('well')",
        "%%spmd\nif rank == 1:\n    raise ValueError(7)\ncomm.barrier()",
        "print('never')",
    )
    report = tmp_path / "report.xml"
    status, told, err = run(path, "-n", "2", "--json", "--output", out.path, "--junit", str(report))
    assert status == 1, err
    events = [json.loads(line) for line in told.splitlines()]
    ends = [event for event in events if event["event"] == "cell_ended"]
    assert [(end["cell"], end["status"]) for end in ends] == [(1, "ok"), (2, "ok"), (3, "failed")]
    assert events[-1]["exit_status"] == 1
    assert "cell 3" in events[-1]["problem"]
    assert "well" in text_of(out.cells[1])
    assert [output.output_type for output in out.cells[2].outputs][-1] == "error"
    assert out.cells[3].outputs == []
    suite = ET.parse(report).find("testsuite")
    counts = [suite.get(name) for name in ("tests", "failures", "skipped")]
    assert counts == ["4", "1", "1"]


@pytest.mark.slow
def test_a_job_that_is_terminated_interrupts_its_ranks_and_writes_what_there_is(
    home, notebook, out
):
    path = notebook("%load_ext jupyter_dist", "%dist_start -n 8", WAITING, "print('never')")
    with subprocess.Popen(
        [*RUN, path, "-n", "2", "--output", out.path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        while "begun" not in job.stdout.readline():
            pass
        os.kill(job.pid, signal.SIGTERM)
        told, err = job.communicate(timeout=60)
    assert job.returncode == 143, err
    assert "[0-1] left" in told or "[1]   left" in told
    assert "SIGTERM" in err
    assert "left" in text_of(out.cells[2])
    assert out.cells[3].outputs == []


@pytest.mark.slow
def test_cells_in_the_background_are_heard_in_their_place_and_waited_for(
    home, notebook, out, tmp_path
):
    gate = str(tmp_path / "gate")
    waits = "import os, time\nwhile not os.path.exists(gate): time.sleep(0.01)"
    path = notebook(
        "%load_ext jupyter_dist",
        f"%%spmd --background\nprint('first')\ngate = {gate!r}\n{waits}\nprint('last')",
        f"print('between')\nopen({gate!r}, 'w').close()",
        "%%spmd --background\nprint('late')\nif rank == 1: 1 / 0",
    )
    status, told, err = run(path, "-n", "2", "--json", "--output", out.path)
    events = [json.loads(line) for line in told.splitlines()]
    said = {2: "", 4: ""}
    for each in events:
        if each["event"] == "output" and each["ranks"]:
            said[each["cell"]] += each["text"]
    assert all(word in said[2] for word in ("first", "last"))
    assert "late" in said[4]
    assert (status, events[-1]["exit_status"]) == (1, 1), err
    assert events[-1]["problem"].startswith("cell 4: rank 1: ZeroDivisionError")
    for cell, words in ((1, "first last"), (3, "late")):
        assert all(word in text_of(out.cells[cell]) for word in words.split())
    assert text_of(out.cells[2]) == "between\n"


@pytest.mark.slow
def test_a_notebook_may_stop_its_cluster_though_a_cell_goes_on(home, notebook):
    path = notebook(
        "%load_ext jupyter_dist\n%dist_start -n 2",
        "%%spmd --background\nimport time\ntime.sleep(600)",
        "%dist_stop",
    )
    status, _, err = run(path)
    assert status == 0, err


def run_until_terminated(*words):
    """Run a job, send SIGTERM once it has said that it has begun; return what it said from then."""
    with subprocess.Popen([*RUN, *words], stdout=subprocess.PIPE, text=True) as job:
        while "begun" not in job.stdout.readline():
            pass
        os.kill(job.pid, signal.SIGTERM)
        told, _ = job.communicate(timeout=60)
    assert job.returncode == 143
    return told


@pytest.mark.slow
def test_a_job_that_waits_for_its_background_is_interrupted_too(home, notebook, out):
    path = notebook("%load_ext jupyter_dist", WAITING.replace("%%spmd", "%%spmd --background"))
    told = run_until_terminated(path, "-n", "2", "--output", out.path)
    assert "left" in told
    assert "left" in text_of(out.cells[1])


@pytest.mark.slow
def test_a_job_runs_beside_others_on_a_cluster_that_stays(start, notebook):
    cluster = start("localhost:2")
    path = notebook("%load_ext jupyter_dist", "%%spmd\nx = rank + 40", "%dist_stop")
    status, _, err = run(path, "--name", cluster.name)
    assert status == 0, err
    assert [each.value for each in cluster.run("x")] == [40, 41]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "words", "expected"),
    [
        ("import time\ntime.sleep(600)", ["--timeout", "3"], 124),
        ("import os\nos.kill(os.getpid(), 9)", [], 137),
        ("import sys\nsys.exit(4)", [], 4),
        ("import sys\nsys.exit()", [], 0),
    ],
    ids=["time", "killed", "exit 4", "exit"],
)
def test_the_exit_status_tells_what_has_become_of_the_notebook(
    home, notebook, out, source, words, expected
):
    path = notebook(source, "1 / 0")
    assert run(path, "--output", out.path, *words)[0] == expected
    assert out.cells[1].outputs == []


@pytest.mark.slow
def test_a_notebook_begins_again_on_new_ranks_after_a_loss(home, notebook, tmp_path):
    mark = tmp_path / "was here"
    path = notebook(
        "%load_ext jupyter_dist",
        f"%%spmd\nimport os\nif rank == 1 and not os.path.exists({str(mark)!r}):\n"
        f"    open({str(mark)!r}, 'w').close()\n    os.kill(os.getpid(), 9)\ncomm.barrier()",
        "%%spmd\nprint('well')",
    )
    status, told, err = run(path, "-n", "2", "--on-loss", "heal")
    assert status == 0, err
    assert "[0-1] well" in told


@pytest.mark.slow
def test_ranks_save_together_before_a_notebook_is_terminated(home, notebook, out):
    path = notebook(
        "%load_ext jupyter_dist\n%dist_start -n 2",
        "%%spmd\nimport time\nprint('begun', flush=True)\n"
        "while not checkpoint.should_save():\n    time.sleep(0.002)\nprint('saved')",
    )
    told = run_until_terminated(path, "--output", out.path)
    assert "[0-1] saved" in told
    assert "saved" in text_of(out.cells[1])
