"""Where contenders run: a worker process each, every wait with a deadline, nothing left behind.

The benchmark makes itself the "subreaper" of all it starts (Linux): a process whose parent has
died becomes its child, whatever session it moved to. So at any time all that a contender left
behind can be found, named and ended by its own process id.
"""

import ctypes
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil

WORKER = Path(__file__).parent / "peers" / "worker.py"
GRACE_S = 12.0
"""Our agents and engines end on their own within 10 s when their coordinator is gone."""
_PR_SET_CHILD_SUBREAPER = 36
_SLICE_S = 0.1


class ContenderError(Exception):
    """A contender did not do what it was asked; `cannot` when it does not offer it at all."""

    def __init__(self, reason: str, *, cannot: bool = False) -> None:
        super().__init__(reason)
        self.cannot = cannot


class Worker:
    """One contender in a process of its own, asked over a pipe."""

    living: ClassVar[set[int]] = set()
    """Process ids of the workers that are no orphans."""

    def __init__(self, name: str, python: Path, home: Path) -> None:
        self.name = name
        self.log = home / "log.txt"
        self._broken = ""
        self._unread = b""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [python, WORKER, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home,
                env=_environment(home),
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.living.add(self.pid)
        try:
            greeting = self.hear(60.0)
        except BaseException:
            self.close()
            raise
        self.versions: dict[str, str] = greeting["versions"]
        self.ways: dict[str, list[str]] = greeting["ways"]

    def ask(self, deadline_s: float, **command: Any) -> Any:
        """Send a command and wait for its answer; raises ContenderError."""
        self.tell(**command)
        return self.hear(deadline_s)

    def tell(self, **command: Any) -> None:
        """Send a command; `hear` gets the answer."""
        if self._broken:
            raise ContenderError(self._broken)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._give_up(f"its worker has ended ({self._last_words()})") from None

    def hear(self, deadline_s: float) -> Any:
        """Wait for the next answer; raises ContenderError."""
        answer = json.loads(self._read_line(time.monotonic() + deadline_s, deadline_s))
        if "error" in answer:
            raise ContenderError(answer["error"], cannot=answer.get("cannot", False))
        return answer["value"]

    def close(self) -> None:
        """Let the worker stop its contender and end; what does not end is ended."""
        assert self._process.stdin is not None
        family = _family(self.pid)
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=2.0 if self._broken else 30.0)
        except subprocess.TimeoutExpired:
            _end([*family, *_family(self.pid)])
            self._process.wait(timeout=10.0)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.living.discard(self.pid)

    def _read_line(self, deadline: float, deadline_s: float) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            if time.monotonic() > deadline:
                raise self._give_up(f"no answer within {deadline_s:g} s")
            find_orphans()
            if select.select([pipe], [], [], _SLICE_S)[0]:
                chunk = os.read(pipe, 65536)
                if not chunk:
                    raise self._give_up(f"its worker has ended ({self._last_words()})")
                self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _give_up(self, reason: str) -> ContenderError:
        """Ask nothing more: a late answer would be taken for that to the next question."""
        self._broken = reason
        return ContenderError(reason)

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        lines = self.log.read_text(errors="replace").strip().splitlines()
        said = lines[-1][:200] if lines else "nothing"
        return f"exit status {self._process.returncode}, its log ends with: {said}"


class Arena:
    """All workers of a run; leaves nothing behind, also after a failure."""

    def __init__(self, pythons: dict[str, Path]) -> None:
        self._pythons = pythons
        self._scratch = Path(tempfile.mkdtemp(prefix="bench-"))
        self._workers: list[Worker] = []
        self._closed: list[str] = []
        self._opened = 0
        self.versions: dict[str, dict[str, str]] = {}
        self.leftovers: dict[str, int] = {}
        """How many processes were still there after the stop of these contenders."""

    def __enter__(self) -> Self:
        become_subreaper()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for worker in list(self._workers):
            self.close(worker)
        self._end_orphans()
        shutil.rmtree(self._scratch, ignore_errors=True)
        remaining = psutil.Process().children(recursive=True)
        assert not remaining, f"still running: {remaining}"

    @contextmanager
    def worker(self, name: str) -> Iterator[Worker]:
        """Lend a fresh worker for one contender."""
        worker = self.open(name)
        try:
            yield worker
        finally:
            self.close(worker)

    def open(self, name: str) -> Worker:
        """Start a worker; the arena closes it at the latest when it closes itself."""
        self._opened += 1
        home = self._scratch / f"{self._opened}"
        home.mkdir()
        worker = Worker(name, self._pythons[name], home)
        self._workers.append(worker)
        self.versions[name] = worker.versions
        return worker

    def close(self, worker: Worker) -> None:
        """Stop a worker's contender and the worker; the last one takes the orphans along."""
        self._workers.remove(worker)
        self._closed.append(worker.name)
        worker.close()
        if not self._workers:
            self._end_orphans()

    def _end_orphans(self) -> None:
        """Wait for what was left behind, then end it and count it.

        Only while no worker lives: an orphan may be the daemon of a contender at work.
        """
        deadline = time.monotonic() + GRACE_S
        while orphans := find_orphans():
            if time.monotonic() > deadline:
                family = [member for orphan in orphans for member in _family(orphan.pid)]
                names = " + ".join(self._closed)
                self.leftovers[names] = self.leftovers.get(names, 0) + len(family)
                _end(family)
                deadline += GRACE_S
            time.sleep(0.05)
        self._closed.clear()


def become_subreaper() -> None:
    """Make every process below this one, whose parent dies, a child of this one."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the benchmark needs Linux (PR_SET_CHILD_SUBREAPER)")


def find_orphans() -> list[psutil.Process]:
    """List the living processes that fell to us; collect the dead ones, as init would."""
    orphans = []
    for child in psutil.Process().children():
        if child.pid in Worker.living:
            continue
        with suppress(psutil.NoSuchProcess, ChildProcessError):
            if child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)
            else:
                orphans.append(child)
    return orphans


def _family(pid: int) -> list[psutil.Process]:
    try:
        eldest = psutil.Process(pid)
        return [eldest, *eldest.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _end(processes: list[psutil.Process]) -> None:
    """End processes: asked first, then killed; psutil checks that the id is still theirs."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, deaf = psutil.wait_procs(processes, timeout=2.0)
    for process in deaf:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(deaf, timeout=2.0)


def _environment(home: Path) -> dict[str, str]:
    """Give every contender writable directories of its own, and the same for all else."""
    own = {
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "TMPDIR": home / "tmp",
    }
    for directory in own.values():
        directory.mkdir()
    # On this path stands one release only: all others would run that one's code.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**inherited, **{name: str(directory) for name, directory in own.items()}}
