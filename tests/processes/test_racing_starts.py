"""Starts without a name beside each other, coordinators that say nothing, and too few open files."""

import contextlib
import os
import resource
import signal
import subprocess
import sys

import psutil
import pytest

from jupyter_dist import Cluster
from jupyter_dist.cluster.connection import coordinator_process
from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.files.connection_file import running_clusters
from jupyter_dist.launch.processes.open_files import files_of_a_rank, files_of_the_coordinator
from tests.suspending import STOP_ZYGOTES

from .leftovers import coordinator_of, engines_of
from .programs import run_program

RACERS = 6
SITE = """
import os, sys, time
if 'jupyter_dist.coordinator' in sys.orig_argv:
    """
"""What a module does in coordinators alone, while Python loads or while it works."""
RACE = """
import sys
from jupyter_dist import Cluster
from jupyter_dist.cluster.connection import coordinator_process
begun = []
init = coordinator_process.CoordinatorProcess.__init__
def count(self, spec, *order):
    begun.append(spec.name)
    init(self, spec, *order)
coordinator_process.CoordinatorProcess.__init__ = count
print("ready", flush=True)
sys.stdin.readline()
with Cluster.start("localhost:1", timeout_s=60) as cluster:
    print(cluster.name, *begun, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
def test_starts_that_race_choose_names_at_once_and_start_one_coordinator_each(home):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(RACERS)
    ]
    try:
        assert {racer.stdout.readline() for racer in racers} == {"ready\n"}
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        said = [racer.stdout.readline().split() for racer in racers]
        assert all(len(words) == 2 and words[0] == words[1] for words in said), said
        names = {name for name, _ in said}
        assert names == {f"cluster-{number}" for number in range(1, RACERS + 1)}
        assert set(Cluster.running()) == names
    finally:
        for racer in racers:
            racer.communicate("over\n")


def fail_to_start(within, **options):
    """Start in vain; gives what was said."""
    with within(12), pytest.raises(StartFailed) as caught:
        Cluster.start("localhost:1", **options)
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("sweep")
def test_a_silent_coordinator_is_told_with_where_it_is_and_what_to_do(
    first_of_all, within, monkeypatch
):
    monkeypatch.setattr(coordinator_process, "_END_TIMEOUT_S", 0.5)
    first_of_all(SITE + "import zmq; zmq.has = lambda _: time.sleep(60)")
    # Time enough for a busy machine to get as far as that.
    said = fail_to_start(within, name="silent", timeout_s=5)
    for fact in (" 5 s", "its ports", "new_context", "timeout_s=10"):
        assert fact in said


def test_one_that_does_not_even_begin_is_told_so(home, first_of_all, within):
    first_of_all(SITE + "time.sleep(60)")
    said = fail_to_start(within, timeout_s=1)
    for fact in ("cluster-1", "not begun", "sleeps", "CPU time", "timeout_s=2"):
        assert fact in said


def test_one_that_is_killed_is_told_with_its_signal(home, first_of_all, within):
    first_of_all(SITE + "os.kill(os.getpid(), 9)")
    said = fail_to_start(within)
    assert "by SIGKILL" in said
    assert "again" in said


def test_what_a_module_prints_while_it_is_loaded_is_no_report(home, first_of_all):
    first_of_all(SITE + "print('hello'); print('[]')")
    with Cluster.start("localhost:1") as cluster:
        assert cluster.run("1").ok


@pytest.fixture
def soft_limit():
    """Limit the open files of what is started from now on."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_soft_limit_that_is_too_low_is_raised_where_it_has_to_be(start, soft_limit):
    soft_limit(80)
    cluster = start("localhost:2")
    assert cluster.run("comm.barrier()").ok
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needs = {coordinator_of(cluster): files_of_the_coordinator(2, 1)}
    needs |= dict.fromkeys(engines_of(cluster), files_of_a_rank(2))
    for process, needed in needs.items():
        raised = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0]
        # Ours is raised too if we have many files: before what we start takes it over, or after.
        assert needed <= raised <= max(ours, needed, 80)


def test_a_hard_limit_that_is_too_low_is_named_with_what_is_needed(home):
    program = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (512, 600))\n"
        "from jupyter_dist import Cluster\n"
        "Cluster.start('localhost:400', oversubscribe=True)\n"
    )
    last = run_program("-c", program).stderr.splitlines()[-1]
    assert "StartFailed" in last
    for number in (512, 600, files_of_the_coordinator(400, 1)):
        assert str(number) in last


def test_a_host_without_room_for_its_ranks_is_named_before_the_first_begins(
    home, first_of_all, within
):
    first_of_all(
        "import resource, sys\n"
        "if 'jupyter_dist.agent' in sys.orig_argv:\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (60, 66))\n"
    )
    with within(12), pytest.raises(StartFailed) as caught:
        Cluster.start("localhost:2")
    for fact in ("localhost", "each of 2 ranks", str(files_of_a_rank(2)), "66", "ulimit -Hn"):
        assert fact in str(caught.value)
    home.assert_nothing_left()


@pytest.mark.usefixtures("sweep")
def test_a_program_that_has_no_file_left_is_told_so(home):
    program = (
        "import os, resource, sys\n"
        "from jupyter_dist import Cluster\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[2])))\n"
        "held = []\n"
        "try:\n"
        "    while True: held.append(os.open('/dev/null', 0))\n"
        "except OSError: pass\n"
        "for _ in range(int(sys.argv[1])): os.close(held.pop())\n"
        "try:\n"
        "    Cluster.start('localhost:1', timeout_s=20).stop()\n"
        "    print('started')\n"
        "except BaseException as error: print(type(error).__name__, error)\n"
    )
    for left, hard, said in (
        (0, 256, "StartFailed"),
        (20, 256, "StartFailed"),
        (0, 512, "started"),
    ):
        ended = run_program("-c", program, left, hard)
        assert said in ended.stdout, (left, hard, ended)
        assert said == "started" or "256" in ended.stdout


@pytest.mark.usefixtures("sweep")
def test_a_coordinator_that_dies_before_ranks_are_ready_is_told_with_its_log(
    home, first_of_all, within
):
    first_of_all(STOP_ZYGOTES)

    def kill(_):
        for info in running_clusters():
            with open(info.log_path, "a") as log:
                log.write("the last words\n")
            os.kill(info.coordinator_pid, signal.SIGKILL)

    with within(12), pytest.raises(StartFailed) as caught:
        Cluster.start("localhost:1", on_progress=kill)
    for process in home.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # they are ending
            process.resume()
    for fact in ("coordinator", "the last words", "again"):
        assert fact in str(caught.value)


def test_a_coordinator_that_gets_no_order_ends_with_its_early_agent(home):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "jupyter_dist.coordinator", "localhost", "fork"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode
    home.assert_nothing_left(within_s=5)
