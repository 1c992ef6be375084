import errno
import math
import os
import signal
import subprocess
import sys
from time import monotonic

import pytest

from jupyter_dist.launch.processes.process_life import (
    await_end,
    process_is_stopped,
    process_lives,
)


def test_this_process_lives():
    assert process_lives(os.getpid())


@pytest.mark.parametrize(
    "pid",
    [
        0,
        -1,
        pytest.param(-os.getpid(), id="own, below zero"),
        1 << 31,
        (1 << 31) - 1,
        1 << 64,
        10**30,
    ],
)
def test_a_number_that_no_process_has_is_not_alive(pid):
    assert not process_lives(pid)


def test_the_end_of_a_process_is_awaited_also_where_it_is_no_child():
    parent = subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    )
    with parent:
        grandchild = int(parent.stdout.readline())
        assert not await_end(grandchild, 0.0)
        os.kill(grandchild, signal.SIGKILL)
        assert await_end(grandchild, 10.0)
    assert await_end(grandchild, 0.0)


def test_the_end_of_a_process_is_awaited_also_where_no_descriptor_is_left(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        begin_s = monotonic()
        assert not await_end(process.pid, 0.1)
        assert monotonic() - begin_s >= 0.1
    with subprocess.Popen(["sleep", "0.1"]) as process:
        assert await_end(process.pid, math.inf)


def test_a_process_ends_with_the_last_that_holds_its_pipe_and_so_does_its_group():
    code = (
        "import subprocess, sys\n"
        "from jupyter_dist.launch.processes.process_life import end_at_eof\n"
        "end_at_eof(0)\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        child = int(process.stdout.readline())
        assert process_lives(child)
        process.stdin.close()
        assert process.wait(20) == -signal.SIGKILL
        assert await_end(child, 20)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_a_process_that_stands_still_is_told_from_one_that_runs_and_from_none():
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        for number, how, is_stopped in (
            (signal.SIGSTOP, os.WSTOPPED, True),
            (signal.SIGCONT, os.WCONTINUED, False),
        ):
            child.send_signal(number)
            os.waitid(os.P_PID, child.pid, how)
            assert process_is_stopped(child.pid) is is_stopped
    finally:
        child.kill()
        child.wait(20)
    assert not process_is_stopped(child.pid)
