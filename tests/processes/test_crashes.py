"""Ranks whose process ends: what is said of it is true, and the others lose nothing."""

import contextlib
import os
import signal
import sys

import pytest

from jupyter_dist.errors import RankLost
from jupyter_dist.probe.cgroup import cgroup_of
from jupyter_dist.views.cell.crash_card import crash_lines
from tests.facts import assert_tells

from .leftovers import engines_of, wait_until
from .results import values

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="evidence is read from /proc"),
]

LIMIT_BYTES = 400 << 20


@pytest.fixture
def cluster(shared):
    """Four ranks with something to lose; new ones in the place of those that a test has lost."""
    cluster = shared.whole()
    cluster.run("import os, signal, time\nkept = f'kept {rank}'\ncomm.barrier()", label=1)
    return cluster


def lose(cluster, code, label=3):
    """Run code on rank 2 that ends it, while others wait; give the report of its end."""
    pids = [engine.pid for engine in cluster.topology().engines]
    body = "\n".join(f"    {line}" for line in code.splitlines())
    result = cluster.run(f"if rank == 2:\n{body}\ncomm.barrier()", label=label)
    assert [rank.status for rank in result] == ["peer_failed", "peer_failed", "lost", "peer_failed"]
    crash = result[2].crash
    assert (crash.rank, crash.host, crash.pid) == (2, "localhost", pids[2])
    assert crash.cell == f"In[{label}]"
    assert str(result[2].error) == f"RankLost: {crash.reason}"
    assert "Fatal Python error" not in result[2].stderr, "the card has it, in a readable form"
    with pytest.raises(RankLost) as caught:
        result.raise_first()
    assert caught.value.crash == crash
    assert_survivors_have_all(cluster, pids)
    return crash


def assert_survivors_have_all(cluster, pids):
    """The others have their process and their names."""
    result = cluster.run("(kept, os.getpid())", ranks="0-1,3")
    assert values(result) == [f"('kept {rank}', {pids[rank]})" for rank in (0, 1, 3)]


def assert_killed(crash, number, *facts):
    """It was killed by this signal, and that is said with these facts."""
    assert crash.signal == number
    assert_tells(crash.reason, number.name, *facts)


def test_an_exit_is_told_by_its_code_and_cell_and_the_card_tells_the_way_on(cluster):
    cluster.run("import numpy as np\ncomm.all_reduce(np.ones(4, 'f4'))", label=2)
    crash = lose(cluster, "os._exit(3)", label=7)
    assert (crash.exit_code, crash.end_cause, crash.end_detail) == (3, "os._exit", "In[7]:2")
    assert_tells(crash.reason, "code 3", "(os._exit at In[7]:2)")
    assert crash.stderr == ()
    assert [(str(call), call.site) for call in crash.calls][-2:] == [
        ("barrier()", "In[1]:3"),
        ("all_reduce(float32[4], sum)", "In[2]:2"),
    ]
    first, *_, last = crash_lines([crash], (0, 1, 3))
    assert_tells(first, "✗ rank 2 is lost: ", "code 3 in In[7]")
    assert "%%spmd --ranks 0-1,3 " in last


@pytest.mark.slow
def test_an_exit_that_python_has_not_called_is_not_said_to_be_its(cluster):
    code = "import ctypes\nif os.fork() == 0: os._exit(9)\nos.wait()\nctypes.CDLL(None)._exit(3)"
    crash = lose(cluster, code)
    assert (crash.exit_code, crash.end_cause) == (3, "")
    assert_tells(crash.reason, "code 3 in In[3] (", "native code")
    assert "os._exit" not in crash.reason


def test_an_error_of_this_package_is_told_as_such_with_its_traceback(cluster):
    crash = lose(
        cluster,
        "from jupyter_dist.engine.channel.link import Link\n"
        "Link._stream = lambda *_: [][7]\n"
        "time.sleep(60)",
    )
    assert crash.end_cause == "own error"
    assert_tells(crash.reason, "jupyter-dist itself", f"In[3] ({crash.end_detail})")
    assert any("_serve" in line for line in crash.stderr)
    assert crash.stderr[-1] == crash.end_detail
    assert crash.end_detail.startswith("IndexError: ")


@pytest.mark.slow
def test_a_recursion_without_end_is_not_called_native_code(cluster):
    crash = lose(
        cluster,
        "import sys\n"
        "class Deep:\n"
        "    def __repr__(self): return repr([self])[:9] + repr(Deep())\n"
        "sys.setrecursionlimit(10**8)\n"
        "repr(Deep())",
    )
    assert_killed(crash, signal.SIGSEGV, "In[3]:4", "stack overflow")
    assert "native" not in crash.reason


def test_a_segfault_is_told_by_its_line(cluster):
    crash = lose(cluster, "import faulthandler\nfaulthandler._sigsegv()")
    assert_killed(crash, signal.SIGSEGV, "native code", "In[3]:3")
    assert crash.stacks[0] == "Fatal Python error: Segmentation fault"
    assert "In_3_" in crash.stacks[-1]


@pytest.mark.slow
def test_a_segfault_in_a_function_of_an_earlier_cell_is_told_by_the_line_there(cluster):
    cluster.run("import ctypes\ndef peek():\n    return ctypes.string_at(0)", label=2)
    crash = lose(cluster, "peek()")
    assert_killed(crash, signal.SIGSEGV, "native code", " string_at ", "In[2]:3")
    assert crash.cell == "In[3]"


def test_what_native_code_said_before_an_abort_is_quoted(cluster):
    cluster.run("print('of an earlier cell', file=__import__('sys').stderr)", label=2)
    said = "import ctypes\nctypes.CDLL(None).dprintf(2, b'free(): invalid pointer\\n')\nos.abort()"
    crash = lose(cluster, said)
    assert_killed(
        crash, signal.SIGABRT, "native code", "In[3]:4", "; ", ": free(): invalid pointer"
    )
    assert crash.stderr == ("free(): invalid pointer",)


def test_a_limit_of_the_address_space_raises_and_loses_nobody(cluster):
    result = cluster.run(
        "import resource\n"
        "before = resource.getrlimit(resource.RLIMIT_AS)\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "limit = pages * resource.getpagesize() + (100 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))\n"
        "try:\n"
        "    bytearray(4 << 30)\n"
        "finally:\n"
        "    resource.setrlimit(resource.RLIMIT_AS, before)",
        ranks=1,
    )
    assert result[0].status == "raised"
    assert result[0].error.ename == "MemoryError"
    assert result[0].crash is None
    assert cluster.run("1").ok


@contextlib.contextmanager
def memory_limit(limit_bytes):
    """Make a control group with a limit; gives what moves a process there. Skips if it cannot."""
    own = cgroup_of(os.getpid())
    folder = None if own is None else _make_group(own, limit_bytes)
    if folder is None:
        pytest.skip("no control group with a memory limit can be made here")
    try:
        yield lambda pid: (folder / "cgroup.procs").write_text(str(pid))
    finally:
        wait_until(lambda: _remove(folder), 10, f"{folder} is removed")


def _make_group(own, limit_bytes):
    limit = "memory.max" if own.is_v2 else "memory.limit_in_bytes"
    for parent in own._lineage():
        folder = parent / f"jupyter-dist-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(limit_bytes))
        except OSError:
            folder.rmdir()
            continue
        return folder
    return None


def _remove(folder):
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def test_out_of_memory_is_said_when_the_kernel_says_so(cluster):
    with memory_limit(LIMIT_BYTES) as move:
        move(engines_of(cluster)[2].pid)
        # The agent looks twice a second where its engines are and what they use.
        crash = lose(cluster, "time.sleep(1.5)\nblob = b'x' * (2 << 30)")
    assert_killed(crash, signal.SIGKILL, "OOM", "1 kill", "cgroup", "400 MiB")
    assert (crash.oom_kills, crash.memory_limit_bytes) == (1, LIMIT_BYTES)
    assert crash.rss_history[-1][1] > crash.rss_history[0][1]


@pytest.mark.slow
def test_a_kill_beside_one_for_memory_is_not_taken_for_it(cluster):
    with memory_limit(LIMIT_BYTES) as move:
        engines = engines_of(cluster)
        for rank in (2, 3):
            move(engines[rank].pid)
        code = "time.sleep(1.5)\nif rank == 2: blob = b'x' * (2 << 30)"
        first = cluster.run(code, ranks="2-3")
        assert "OOM" in first[0].crash.reason
        second = cluster.run("os.kill(os.getpid(), signal.SIGKILL)", ranks=3)
    assert second[0].crash.oom_kills == 0
    assert "OOM" not in second[0].crash.reason
