"""Agents on the nodes of an allocation that exists: a program of ours starts them there."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from jupyter_dist.launch.base import Failure
from jupyter_dist.launch.batch.files import JobFiles
from jupyter_dist.launch.batch.questions import Question
from jupyter_dist.launch.batch.sayings import explain_output
from jupyter_dist.model.batch import JobSeen, JobState

_TERMINATE_TIMEOUT_S = 3.0
_ENDED = JobState.ENDED


class StartedJob:
    """A program that runs one agent on each node, as srun or mpiexec; it ends with us."""

    def __init__(
        self, words: Sequence[str], environ: Mapping[str, str], files: JobFiles, label: str = ""
    ) -> None:
        """Start it; raises OSError when that does not work."""
        self._files = files
        self._is_done = threading.Event()
        self._process = self._start(words, environ)
        self.label = label or f"{words[0]} (pid {self._process.pid})"
        self.question: Question | None = None
        """Asks about the allocation; None: nobody knows of it."""

    def look(self) -> JobSeen:
        """Say how the program and its allocation stand; never raises."""
        is_running = self._process.poll() is None
        around = None if self.question is None else self.question.ask()
        if is_running:
            if around is None or around.state in (_ENDED, JobState.UNKNOWN):
                return JobSeen(JobState.RUNNING, "RUNNING")
            return JobSeen(JobState.RUNNING, around.words, around.ends_at_s, around.lost_nodes)
        if around is not None and (around.state is _ENDED or "COMPLETING" in around.words):
            return JobSeen(_ENDED, around.words.removeprefix("COMPLETING: "))
        return JobSeen(_ENDED, _describe_end(self._process.returncode))

    def explain(self) -> Failure | None:
        """Say why agents do not come, as far as the program's output tells; None: it does not."""
        return explain_output(self._files.read_output())

    def last_lines(self) -> str:
        """Give the last lines of its output."""
        return self._files.last_lines()

    def cancel(self) -> str:
        """Have it end its agents; the allocation stays."""
        self._signal(signal.SIGTERM)
        return ""

    def end(self) -> str:
        """See that it is gone, and remove its files."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            if not self._is_done.wait(_TERMINATE_TIMEOUT_S):
                self._signal(signal.SIGKILL)
                self._is_done.wait()
        self._files.remove()
        return ""

    def _start(self, words: Sequence[str], environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start it from a thread that waits for its end.

        The kernel ends the program with the thread that has started it: this one lives as long.
        """
        leash = [sys.executable, "-P", "-m", "jupyter_dist.launch.batch.leash", str(os.getpid())]
        started: list[subprocess.Popen[bytes] | OSError] = []
        is_started = threading.Event()

        def live() -> None:
            try:
                with self._files.output.open("ab") as log:
                    process = subprocess.Popen(
                        [*leash, *words],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=dict(environ),
                        start_new_session=True,
                    )
                started.append(process)
            except OSError as error:
                started.append(error)
                return
            finally:
                is_started.set()
            process.wait()
            self._is_done.set()

        threading.Thread(target=live, name="batch-program", daemon=True).start()
        is_started.wait()
        if isinstance(started[0], OSError):
            raise started[0]
        return started[0]

    def _signal(self, number: signal.Signals) -> None:
        """Signal it and what it has started here."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def _describe_end(status: int) -> str:
    if status < 0:
        return f"FAILED (ended by {signal.Signals(-status).name})"
    return f"FAILED (exit code {status})" if status else "COMPLETED"
