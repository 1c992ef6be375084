"""Jobs whose nodes run one agent each: in a scheduler's queue, or started here by srun, mpiexec."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import msgspec

from jupyter_dist.launch.batch.batch_errors import explain_output
from jupyter_dist.launch.batch.commands import CANCEL_TIMEOUT_S, run_command
from jupyter_dist.launch.batch.files import JobFiles
from jupyter_dist.launch.batch.job_status import Question
from jupyter_dist.launch.launcher import Failure
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended

_TERMINATE_TIMEOUT_S = 3.0


class BatchJob(ABC):
    """A job that was submitted, or a program within an allocation that runs the agents."""

    label: str
    """What it is called in sentences, as `Slurm job 12` or `mpiexec (pid 77)`."""
    lag_s: float = 0.0
    """So much later than on its nodes a loss may be seen here."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files

    @abstractmethod
    def look(self) -> JobSeen:
        """Ask the scheduler; never raises, and blocks for a few seconds at most."""

    def explain(self) -> Failure | None:
        """Return why agents of it do not come, as far as its output tells; None: it does not."""
        return explain_output(self._files.read_output())

    def last_lines(self) -> str:
        """Return the last lines of its output, as far as it can be read here."""
        return self._files.last_lines()

    def remove_files(self) -> None:
        """Remove its files; it goes on."""
        self._files.remove()

    @abstractmethod
    def cancel(self) -> str:
        """End it; harmless when it has ended. Blocks for a few seconds at most.

        Says why that did not work, and what does; empty: it did.
        """

    @abstractmethod
    def end(self) -> str:
        """See that it is gone, and remove its files; says why it may still be there."""


class SubmittedJob(BatchJob):
    """A job in a queue, or on its nodes."""

    def __init__(self, label: str, question: Question, delete: list[str], files: JobFiles) -> None:
        super().__init__(files)
        self.label = label
        self._question = question
        self._delete = delete
        self._has_ended = self._is_gone = False
        self._has_failed = False

    def look(self) -> JobSeen:
        """Ask the scheduler."""
        seen = self._question()
        self._has_ended = seen.state is JobState.ENDED
        self._is_gone = self._has_ended and (seen.cause is None or seen.cause.leaves_queue)
        self._has_failed = self._has_ended and seen.cause is JobCause.FAILED
        return seen

    def explain(self) -> Failure | None:
        """Return what its output tells, or that no node could write any."""
        found = super().explain()
        if found is None and self._has_failed and not self._files.has_output:
            # It is made before anything of the job runs.
            return Failure(
                f"no node of the job has written {str(self._files.output)!r}",
                "A node has to see that directory, and may have to write into it: give one that "
                "this machine and all nodes see with --job-dir DIR.",
            )
        return found

    def cancel(self) -> str:
        """Have the scheduler end it."""
        said = run_command(self._delete, CANCEL_TIMEOUT_S)
        if not said.status:
            return ""
        return (
            f"{self.label} could not be cancelled ({said.words or f'status {said.status}'}). End "
            f"it with: {shlex.join(self._delete)}"
        )

    def end(self) -> str:
        """Cancel it unless it is gone, and remove its files."""
        failed = "" if self._is_gone else self.cancel()
        self._files.remove()
        return "" if self._has_ended else failed


class StartedJob(BatchJob):
    """A program that runs one agent on each node, as srun or mpiexec; it ends with us."""

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        files: JobFiles,
        label: str = "",
        question: Question | None = None,
    ) -> None:
        """Start it; raises OSError when that does not work.

        `question` is about the allocation around it; None: there is none.
        """
        super().__init__(files)
        self._question = question
        self._is_done = threading.Event()
        self._process = self._start(words, environ)
        self.label = label or f"{words[0]} (pid {self._process.pid})"

    def look(self) -> JobSeen:
        """Return how the program and its allocation stand."""
        is_running = self._process.poll() is None
        around = None if self._question is None else self._question()
        if is_running:
            if around is None or around.state in (JobState.ENDED, JobState.UNKNOWN):
                return JobSeen(JobState.RUNNING, "RUNNING")
            is_ending = around.state is JobState.ENDING
            return around if is_ending else msgspec.structs.replace(around, state=JobState.RUNNING)
        if around is not None and around.state in (JobState.ENDING, JobState.ENDED):
            return ended(around.cause or JobCause.OTHER, around.words)
        return ended(JobCause.OTHER, _describe_end(self._process.returncode))

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
        module = "jupyter_dist.launch.processes.process_life"
        bound = [sys.executable, "-P", "-m", module, str(os.getpid()), "--exec"]
        started: Future[subprocess.Popen[bytes]] = Future()

        def live() -> None:
            try:
                with self._files.output.open("ab") as log:
                    process = subprocess.Popen(
                        [*bound, *words],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=dict(environ),
                        start_new_session=True,
                    )
            except Exception as error:  # noqa: BLE001  (who has it started gets it)
                started.set_exception(error)
                return
            started.set_result(process)
            process.wait()
            self._is_done.set()

        threading.Thread(target=live, name="batch-program", daemon=True).start()
        return started.result()

    def _signal(self, number: signal.Signals) -> None:
        """Signal it and what it has started here."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def _describe_end(status: int) -> str:
    if status < 0:
        return f"FAILED (ended by {signal.Signals(-status).name})"
    return f"FAILED (exit code {status})" if status else "COMPLETED"
