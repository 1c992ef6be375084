"""What an agent makes of what a process leaves it; real processes are in tests/processes."""

import ctypes
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import psutil
import pytest

from jupyter_dist.agent.engines import process_state, stack_dumper
from jupyter_dist.agent.engines.process_state import (
    ProcessState,
    ThreadState,
    catches,
    find_thread,
    list_threads,
    read_state,
    read_status,
    read_thread,
    signal_main_thread,
)
from jupyter_dist.agent.engines.stack_dumper import (
    StackDumper,
    is_whole,
    look_with_py_spy,
)
from jupyter_dist.model.ranks.stack_reading import group_stacks
from jupyter_dist.model.ranks.stack_thread import (
    SIGNALLED_THREAD,
    SPARED_THREAD,
    STACK_SIGNAL,
    stacks_path,
)
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.probe.py_spy import find_py_spy
from jupyter_dist.protocol import host_agent_pb2 as pb

DUMP = """\
Current thread 0x00007f1 (most recent call first):
  File "/site-packages/zmq/sugar/poll.py", line 106 in poll

Thread 0x00007f0 (most recent call first):
  File "/somewhere/train.py", line 12 in step
  File "{cell}", line 2 in <module>
  File "/usr/lib/python3.11/runpy.py", line 88 in _run_code
  File "/usr/lib/python3.11/runpy.py", line 198 in _run_module_as_main
"""


class Host:
    """Engine "3" of a host whose system and processes are told by the test."""

    def __init__(self, run_dir, monkeypatch):
        self.run_dir = run_dir
        self.told = queue.Queue()
        self.state, self.thread, self.spared = "S", 7, 0
        self.is_caught, self.dump = True, ""
        self.rest = ""
        """Of a dump, what is written a long moment later."""
        self.is_starved = False
        self.pid = 4711
        self.signals = []
        engines = SimpleNamespace(pid=lambda _: self.pid)
        self.dumper = StackDumper(engines, run_dir, self.told.put)
        self.path = stacks_path(str(run_dir), "3")
        monkeypatch.setattr(stack_dumper, "read_state", lambda _: ProcessState(self.state))
        monkeypatch.setattr(stack_dumper, "find_thread", self._find_thread)
        monkeypatch.setattr(stack_dumper, "catches", lambda *_: self.is_caught)
        monkeypatch.setattr(stack_dumper, "lacks_core", lambda _: self.is_starved)
        monkeypatch.setattr(stack_dumper, "read_thread", self._read_thread)
        monkeypatch.setattr(stack_dumper, "signal_thread", self._signal)
        monkeypatch.setattr(stack_dumper, "SIGNAL_TIMEOUT_S", 0.3)
        monkeypatch.setattr(stack_dumper, "find_py_spy", lambda: None)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("what an earlier question has left\n")

    def _find_thread(self, pid, name):
        assert pid == 4711
        return {SIGNALLED_THREAD: self.thread, SPARED_THREAD: self.spared}[name]

    def _read_thread(self, pid, thread):
        assert (pid, thread) == (4711, 7)
        if self.rest:  # it had no core meanwhile
            self._write(self.rest)
            self.rest = ""
            return ThreadState("R")
        return ThreadState("S")

    def _signal(self, *sent):
        self.signals.append(sent)
        self._write(self.dump)

    def _write(self, text):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(text)

    def look(self, **options):
        self.dumper.obey(pb.DumpStacks(request_id="q1", engines=["3"], timeout_s=2, **options))
        dumped = self.told.get(timeout=10).stacks_dumped
        (seen,) = dumped.engines
        assert (dumped.request_id, seen.engine) == ("q1", "3")
        return msgspec.msgpack.decode(seen.stacks, type=RankStacks)


@pytest.fixture
def host(tmp_path, monkeypatch):
    return Host(tmp_path, monkeypatch)


def test_the_stacks_that_the_process_writes_are_told(host, tmp_path):
    cell = tmp_path / "In_5_0123abcd.py"
    cell.write_text("x = 1\nstep(x)\n")
    host.dump = DUMP.format(cell=cell)
    seen = host.look()
    assert (seen.source, seen.process_state) == ("faulthandler", "S")
    assert [str(frame) for frame in seen.main.frames] == [
        "In[5]:2: step(x)",
        "/somewhere/train.py:12 in step",
    ]
    assert host.signals == [(4711, 7, STACK_SIGNAL)]


def test_the_file_does_not_grow_with_each_question(host):
    host.dump = DUMP.format(cell="x.py")
    for _ in range(3):
        host.look()
    assert os.path.getsize(host.path) == len(host.dump)


def test_a_dump_without_its_usual_end_is_taken_when_nothing_follows(host):
    host.dump = 'Thread 0x1 (most recent call first):\n  File "/t/In_1_0123abcd.py", line 3 in f\n'
    assert host.look().main.frames[0].site == "In[1]:3"


def test_a_dump_is_waited_for_whose_writer_has_no_core(host):
    whole = DUMP.format(cell="/t/In_5_0123abcd.py")
    middle = whole.index("Thread 0x00007f0")
    host.dump, host.rest = whole[:middle], whole[middle:]
    assert [frame.site for frame in host.look().main.frames] == [
        "In[5]:2",
        "/somewhere/train.py:12",
    ]


def test_a_dump_is_whole_when_the_main_thread_is_told_to_its_first_call():
    text = DUMP.format(cell="x.py")
    assert is_whole(text)
    for end in (len(text) - 1, text.rindex("File"), 0):
        assert not is_whole(text[:end])


def test_a_process_that_waits_for_a_core_is_not_signalled(host):
    host.dump, host.is_starved = DUMP.format(cell="x.py"), True
    assert host.look().source == "none"
    assert host.signals == []


def test_a_stopped_process_is_not_signalled(host):
    host.state = "T"
    seen = host.look()
    assert (seen.source, seen.process_state) == ("none", "T")
    (group,) = group_stacks({0: seen})
    assert "`kill -CONT 4711`" in group.words
    assert host.signals == []


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"thread": 0}, "it is still starting"),
        ({"is_caught": False}, "user code has taken SIGUSR1"),
        ({"thread": 0, "spared": 7}, "user code has taken SIGUSR1"),
        ({"pid": None}, "its process has ended"),
    ],
)
def test_a_process_that_is_not_prepared_for_the_signal_does_not_get_it(host, change, note):
    vars(host).update(change)
    seen = host.look()
    assert seen.source == "none"
    assert note in seen.note
    assert host.signals == []


def test_a_process_that_writes_nothing_is_told_of_with_what_may_be_the_reason(host):
    seen = host.look()
    assert (seen.source, STACK_SIGNAL.name in seen.note) == ("none", True)


def test_without_its_file_an_engine_cannot_be_looked_at(host):
    os.unlink(host.path)
    assert "[Errno 2]" in host.look().note
    assert host.signals == []


def test_without_py_spy_native_stacks_are_those_of_python_with_a_word_about_it(host):
    host.dump = DUMP.format(cell="x.py")
    seen = host.look(is_native=True)
    assert (seen.source, "py-spy" in seen.note) == ("faulthandler", True)


# --- py-spy ---

SPIED = """\
Process 4711: python
Thread 4711 (idle): "MainThread"
    clock_nanosleep (libc.so.6)
    step (train.py:12)
"""


@pytest.fixture
def py_spy(tmp_path, monkeypatch):
    """Put a program of this name on PATH that runs these lines of shell."""

    def install(script):
        program = tmp_path / "py-spy"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
        assert find_py_spy() == str(program)

    return install


def test_py_spy_tells_native_calls_too(py_spy):
    py_spy(f"[ \"$*\" = 'dump --native --full-filenames --pid 4711' ] && cat <<'END'\n{SPIED}END")
    seen = look_with_py_spy(4711, 1e18)
    assert (seen.source, seen.note) == ("py-spy", "")
    assert [frame.function for frame in seen.main.frames] == ["step", "clock_nanosleep"]


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("echo 'Error: Permission Denied' >&2; exit 1", "may not look: Error: Permission Denied"),
        ("exec sleep 20", "has not answered for 0.2 s"),
    ],
)
def test_why_py_spy_says_nothing_is_told(py_spy, monkeypatch, script, note):
    monkeypatch.setattr(stack_dumper, "PY_SPY_TIMEOUT_S", 0.2 if "sleep" in script else 20.0)
    py_spy(script)
    seen = look_with_py_spy(4711, 1e18)
    assert (seen.source, seen.note) == ("none", f"py-spy {note}")


def test_py_spy_beside_the_interpreter_comes_before_others(py_spy, tmp_path):
    py_spy("exit 0")
    (tmp_path / "bin").mkdir()
    os.link(tmp_path / "py-spy", tmp_path / "bin" / "py-spy")
    assert find_py_spy() == str(tmp_path / "bin" / "py-spy")


# --- the system ---


def test_the_state_of_a_process_is_read():
    state = read_state(os.getpid())
    assert state.letter in "RS"
    assert state.major_faults >= 0
    own = psutil.Process()
    assert state.rss_bytes == pytest.approx(own.memory_info().rss, rel=0.1)
    assert state.cpu_s == pytest.approx(sum(own.cpu_times()[:2]), abs=0.5)
    assert read_state(2**22 + 1) == ProcessState()


def test_the_state_of_a_thread_is_read():
    own = threading.get_native_id()
    assert own in list_threads(os.getpid())
    before = read_thread(os.getpid(), own)
    time.sleep(0.001)
    now = read_thread(os.getpid(), own)
    assert now.letter == "R"
    assert now.core.slices > before.core.slices
    assert now.core.had_s > before.core.had_s
    assert (list_threads(2**22 + 1), read_thread(2**22 + 1, 1)) == ([], ThreadState())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count no threads")
@pytest.mark.parametrize("has_tgkill", [True, False])
def test_a_signal_reaches_the_thread_that_it_is_for(has_tgkill, monkeypatch):
    libc = ctypes.CDLL(None, use_errno=True)
    calls = SimpleNamespace(syscall=libc.syscall)
    if has_tgkill:
        calls = SimpleNamespace(tgkill=libc.tgkill)
    monkeypatch.setattr(process_state, "_libc", lambda: calls)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        signal_main_thread(os.getpid(), signal.SIGUSR2)
        assert signal.sigpending() == {signal.SIGUSR2}
        assert signal.sigwait({signal.SIGUSR2}) == signal.SIGUSR2
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with pytest.raises(ProcessLookupError):
        signal_main_thread(2**22 + 1, signal.SIGUSR2)


def test_a_field_of_a_status_is_read():
    assert read_status(os.getpid(), "Pid") == str(os.getpid())
    assert read_status(os.getpid(), "id") == ""
    assert read_status(2**22 + 1, "Pid") == ""


def test_it_is_seen_whether_a_process_catches_a_signal():
    before = signal.signal(STACK_SIGNAL, lambda *_: None)
    try:
        assert catches(os.getpid(), STACK_SIGNAL)
        signal.signal(STACK_SIGNAL, signal.SIG_DFL)
        assert not catches(os.getpid(), STACK_SIGNAL)
    finally:
        signal.signal(STACK_SIGNAL, before)
    assert not catches(2**22 + 1, STACK_SIGNAL)


def test_a_thread_is_found_by_its_name():
    comm = Path("/proc/self/comm")
    before, own = comm.read_text(), "to be found"
    comm.write_text(own)  # other threads of this process have the name that it has
    try:
        assert find_thread(os.getpid(), own) == os.getpid()
        assert find_thread(os.getpid(), "nobody") == 0
        assert find_thread(2**22 + 1, own) == 0
    finally:
        comm.write_text(before)
