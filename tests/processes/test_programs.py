"""Programs on ranks, as each would have run under `python x.py --lr 0.1`."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from jupyter_dist.launch.files.join_file import join_path
from tests.matrix import NIGHTLY, only

from .leftovers import wait_until

RUN = (sys.executable, "-m", "jupyter_dist.cli", "run")
SCRIPT = """
import argparse, json, pickle, sys, threading
import beside

class Model:
    pass

def late():
    open(sys.argv[1] + f".{rank}", "w").close()

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--lr", type=float)
    given = parser.parse_args()
    again = pickle.loads(pickle.dumps(Model()))
    print(json.dumps([sys.argv[2:], __file__, given.lr, beside.x, type(again) is Model]))
    threading.Timer(0.3, late).start()
"""


@pytest.fixture
def script(tmp_path):
    """Write a program; gives its path."""

    def write(text, name="train.py"):
        (tmp_path / "beside.py").write_text("x = 5\n")
        file = tmp_path / name
        file.write_text(textwrap.dedent(text))
        return str(file)

    return write


def test_a_program_finds_what_python_would_have_given_it(four, script, tmp_path):
    file = script(SCRIPT)
    result = four.run_program(file, [str(tmp_path / "late"), "--lr", "0.1"])
    told = json.dumps([["--lr", "0.1"], file, 0.1, 5, True])
    assert [each.stdout for each in result] == [f"{told}\n"] * 4
    assert sorted(tmp_path.glob("late.*")) == [tmp_path / f"late.{rank}" for rank in range(4)]
    assert four.run("(given.lr, __name__, 'beside' in __import__('sys').path)")[0].value == (
        0.1,
        "__main__",
        False,
    )


@pytest.mark.parametrize(
    ("code", "evalue", "stderr"),
    [("0", None, ""), ("None", None, ""), ("7", "7", ""), ("-1", "255", ""), ("'no'", "1", "no\n")],
)
def test_a_program_ends_with_the_status_that_python_would_give(four, script, code, evalue, stderr):
    result = four.run_program(script(f"import sys\nsys.exit({code})"), ranks=[1])
    (ended,) = result
    assert ended.stderr == stderr
    if evalue is None:
        assert result.ok
    else:
        assert (ended.error.ename, ended.error.evalue) == ("SystemExit", evalue)


def test_a_traceback_begins_in_the_program_and_shows_its_lines(four, script):
    file = script("def fail():\n    1 / 0\n\nfail()\n")
    traceback = "\n".join(four.run_program(file, ranks=[0])[0].error.traceback)
    assert f"{file}:4" in traceback
    assert f"{file}:2" in traceback
    assert "jupyter_dist" not in traceback.replace(file, "")


def test_a_module_runs_as_after_python_m(four):
    result = four.run_program("timeit", ["-n", "1", "-r", "1", "pass"], is_module=True)
    assert all("1 loop" in each.stdout for each in result)
    missing = four.run_program("no.such", is_module=True)[0]
    assert missing.error.ename in ("ImportError", "ModuleNotFoundError")


@pytest.mark.parametrize("is_module", only([False], [False, True]))
def test_a_program_that_imports_jax_has_it_formed_as_a_cell_has(start, script, tmp_path, is_module):
    pytest.importorskip("jax", reason="jax is no requirement of the tests")
    file = script("import jax\nprint(jax.process_count())\n", "count_processes.py")
    cluster = start("localhost:2", cwd=str(tmp_path))
    told = cluster.run_program("count_processes" if is_module else file, is_module=is_module)
    assert [each.stdout for each in told] == ["2\n"] * 2


def run(*words, **options):
    """Run the command; gives its exit status and what it has written."""
    ended = subprocess.run(
        [*RUN, *words], capture_output=True, text=True, timeout=60, check=False, **options
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("sys.exit(7)", 7),
        pytest.param("os._exit(5)", 5, marks=NIGHTLY),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_a_job_ends_with_its_first_failure_and_leaves_nothing(home, script, how, status):
    text = f"""
    import os, signal, sys, time
    if rank == 1:
        {how}
    time.sleep(600)
    """
    assert run("-n", "2", script(text))[0] == status


@pytest.mark.slow
def test_a_job_that_is_terminated_interrupts_its_ranks(home, script, tmp_path):
    text = """
    import sys, time
    try:
        open(f"{sys.argv[1]}.{rank}", "w").close()
        time.sleep(600)
    finally:
        print("saved")
    """
    marks = [tmp_path / f"begun.{rank}" for rank in range(2)]
    with subprocess.Popen(
        [*RUN, "-n", "2", script(text), str(tmp_path / "begun")], stdout=subprocess.PIPE, text=True
    ) as job:
        wait_until(lambda: all(mark.exists() for mark in marks), 30, "the program runs")
        os.kill(job.pid, signal.SIGTERM)
        out, _ = job.communicate(timeout=30)
    assert job.returncode == 143
    assert "[0-1] saved" in out


def last_event(out):
    """The last line of events, which is the end of a job."""
    last = json.loads(out.splitlines()[-1])
    assert last["event"] == "ended"
    return last["exit_status"]


def test_events_end_with_the_end_also_where_the_cluster_does_not_start(home, script):
    train = script("print(1)")
    for words, expected in (
        (["--hosts", "a:0"], 2),
        (["--hosts", "join:1", "--start-timeout", "0.5"], 1),
    ):
        status, out, _ = run("--json", *words, train)
        assert (status, last_event(out)) == (expected, expected)


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_events_end_with_the_end_also_where_a_start_is_given_up(home, script, number, expected):
    words = [*RUN, "--json", "--hosts", "join:1", script("print(1)")]
    waiting = join_path("any")
    ignored = number == signal.SIGTERM  # SIGINT is, of a job that a shell has begun with &
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        job = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with job:
        wait_until(lambda: [*waiting.parent.glob(f"*{waiting.suffix}")], 30, "it waits for a host")
        job.send_signal(number)
        out, _ = job.communicate(timeout=30)
    assert (job.returncode, last_event(out)) == (expected, expected)


@pytest.mark.slow
def test_a_job_goes_on_from_what_it_has_saved_and_begins_at_its_start_without(
    home, script, tmp_path
):
    text = """
    import sys
    step = globals().get("step", 0) + 1
    print("step", step)
    checkpoint.mark("step")
    checkpoint.save_variables(sys.argv[1], step=step)
    """
    saved = str(tmp_path / "saved")
    for step in (1, 2):
        status, out, err = run("-n", "2", "--resume", saved, script(text), saved)
        assert (status, out) == (0, f"[0-1] step {step}\n"), err


@pytest.mark.slow
def test_a_job_begins_again_on_fewer_ranks_after_a_loss(home, script):
    text = """
    import os
    if world_size == 3 and rank == 1:
        os.kill(os.getpid(), 9)
    comm.barrier()
    print(world_size)
    """
    status, out, err = run("-n", "3", "--on-loss", "shrink", script(text))
    assert (status, out.splitlines()[-1]) == (0, "[0-1] 2"), err


@pytest.mark.slow
def test_ranks_save_together_before_a_job_is_terminated(home, script):
    text = """
    import time
    print("begun", flush=True)
    for step in range(10**6):
        time.sleep(0.002)
        if checkpoint.should_save():
            print("saved")
            break
    """
    with subprocess.Popen(
        [*RUN, "-n", "2", script(text)], stdout=subprocess.PIPE, text=True
    ) as job:
        while "begun" not in job.stdout.readline():
            pass
        os.kill(job.pid, signal.SIGTERM)
        out, _ = job.communicate(timeout=60)
    assert job.returncode == 143
    assert "[0-1] saved" in out
