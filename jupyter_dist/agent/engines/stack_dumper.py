"""Looks at engines from outside: their stacks, when their interpreter does not answer.

The engine's own faulthandler writes them on a signal, also while native code holds the
interpreter; py-spy sees native calls as well, where it is there and may look.
"""

import linecache
import subprocess
import threading
import time
from collections.abc import Callable
from os import truncate
from pathlib import Path

import msgspec

from jupyter_dist.agent.engines.engine_processes import EngineTable
from jupyter_dist.agent.engines.process_state import (
    catches,
    find_thread,
    read_state,
    read_thread,
    signal_thread,
)
from jupyter_dist.agent.engines.starvation import lacks_core
from jupyter_dist.model.ranks.source_files import CELL_FILE
from jupyter_dist.model.ranks.stack_reading import read_faulthandler, read_py_spy
from jupyter_dist.model.ranks.stack_thread import (
    SIGNALLED_THREAD,
    SPARED_THREAD,
    STACK_SIGNAL,
    stacks_path,
)
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.probe.py_spy import NOT_INSTALLED, find_py_spy, say_why_not
from jupyter_dist.protocol import host_agent_pb2 as pb

PY_SPY_TIMEOUT_S = 5.0
SIGNAL_TIMEOUT_S = 1.0
_POLL_S = 0.01
_SETTLED_S = 0.1
"""A dump without its usual end is whole if its writer sleeps and has added nothing meanwhile."""
_MOST_BYTES = 1 << 20
_START = "in _run_module_as_main"
"""The outermost call of the main thread, which faulthandler writes last."""


class StackDumper:
    """Answers questions for stacks, each engine on a thread of its own."""

    def __init__(
        self, engines: EngineTable, run_dir: Path, tell: Callable[[pb.AgentEvent], None]
    ) -> None:
        self._engines = engines
        self._run_dir = run_dir
        self._tell = tell
        self._locks: dict[str, threading.Lock] = {}
        """An engine writes one dump at a time."""

    def obey(self, command: pb.DumpStacks) -> None:
        """Look soon; what is seen of each engine is told as soon as it is known."""
        for engine in command.engines:
            lock = self._locks.setdefault(engine, threading.Lock())
            threading.Thread(
                target=self._dump, args=(engine, lock, command), name="stacks", daemon=True
            ).start()

    def _dump(self, engine: str, lock: threading.Lock, command: pb.DumpStacks) -> None:
        deadline_s = time.monotonic() + (command.timeout_s or SIGNAL_TIMEOUT_S)
        if not lock.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
            return  # whoever asked does not wait any longer
        try:
            seen = self._look(engine, command.is_native, deadline_s)
        finally:
            lock.release()
        told = pb.EngineStacks(engine=engine, stacks=msgspec.msgpack.encode(seen))
        dumped = pb.StacksDumped(request_id=command.request_id, engines=[told])
        self._tell(pb.AgentEvent(stacks_dumped=dumped))

    def _look(self, engine: str, is_native: bool, deadline_s: float) -> RankStacks:
        pid = self._engines.pid(engine)
        if pid is None:
            return RankStacks("none", note="its process has ended")
        state = read_state(pid).letter
        if state == "T":
            note = f"`kill -CONT {pid}` on its host lets it go on"
            return RankStacks("none", process_state=state, note=note)
        note = ""
        if is_native:
            seen = look_with_py_spy(pid, deadline_s)
            if seen.threads:
                return msgspec.structs.replace(seen, process_state=state)
            note = seen.note
        seen = self._look_with_faulthandler(engine, pid, deadline_s)
        notes = "; ".join(each for each in (note, seen.note) if each)
        return msgspec.structs.replace(seen, process_state=state, note=notes)

    def _look_with_faulthandler(self, engine: str, pid: int, deadline_s: float) -> RankStacks:
        thread_id = find_thread(pid, SIGNALLED_THREAD)
        if find_thread(pid, SPARED_THREAD) or (thread_id and not catches(pid, STACK_SIGNAL)):
            note = f"it cannot be looked at: user code has taken {STACK_SIGNAL.name}"
            return RankStacks("none", note=note)
        if not thread_id:
            return RankStacks("none", note="it cannot be looked at: it is still starting")
        # Its interpreter may not be held, but only late. Then threads go on while faulthandler
        # follows their frames, and what it finds there may end the process.
        if lacks_core(pid):
            return RankStacks("none", note="its process waits for a core of its host")
        path = stacks_path(str(self._run_dir), engine)
        try:
            truncate(path, 0)  # it is appended to, so this keeps it small
            signal_thread(pid, thread_id, STACK_SIGNAL)
        except OSError as error:
            return RankStacks("none", note=f"it cannot be looked at: {error}")
        until_s = min(deadline_s, time.monotonic() + SIGNAL_TIMEOUT_S)
        text = _wait_for_dump(path, until_s, lambda: read_thread(pid, thread_id).letter == "S")
        if not text:
            name = STACK_SIGNAL.name
            note = f"it wrote no stacks: user code has taken {name}, or its process cannot run"
            return RankStacks("none", note=note)
        return RankStacks("faulthandler", read_faulthandler(text, read_line=_read_line))


def look_with_py_spy(pid: int, deadline_s: float) -> RankStacks:
    """Have py-spy look; without threads, the note says why it could not."""
    path = find_py_spy()
    if path is None:
        return RankStacks("none", note=NOT_INSTALLED)
    timeout_s = min(PY_SPY_TIMEOUT_S, max(0.1, deadline_s - time.monotonic() - SIGNAL_TIMEOUT_S))
    command = [path, "dump", "--native", "--full-filenames", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return RankStacks("none", note=f"py-spy has not answered for {timeout_s:.1f} s")
    except OSError as error:
        return RankStacks("none", note=f"py-spy cannot be run: {error}")
    text = done.stdout[:_MOST_BYTES].decode(errors="replace")
    threads = read_py_spy(text, read_line=_read_line)
    if done.returncode or not threads:
        said = done.stderr.decode(errors="replace")
        return RankStacks("none", note=say_why_not(said, done.returncode))
    return RankStacks("py-spy", threads)


def _wait_for_dump(path: str, deadline_s: float, writer_sleeps: Callable[[], bool]) -> str:
    """Wait until a whole dump is in the file; return what is there when the time is over."""
    text, changed_s = "", time.monotonic()
    while (now_s := time.monotonic()) < deadline_s:
        before = text
        text = _read(path)
        if text != before:
            changed_s = now_s
        if is_whole(text):
            break
        if text.endswith("\n") and now_s - changed_s > _SETTLED_S and writer_sleeps():
            break
        time.sleep(_POLL_S)
    return text


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def is_whole(text: str) -> bool:
    """Return whether a dump has come to its usual end."""
    return text.endswith("\n") and text.rstrip().endswith(_START)


def _read_line(file: str, line: int) -> str:
    """Read a line of a cell, whose file is in memory; others may lie where reading takes long."""
    if not CELL_FILE.search(file):
        return ""
    linecache.checkcache(file)
    return linecache.getline(file, line)
