"""The nodes that an orchestrator gives, looked at and ended like a job of a batch system."""

import contextlib
import subprocess
import sys
import threading

import msgspec

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.batch.files import JobFiles
from jupyter_dist.launch.batch.jobs import BatchJob
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.launcher import Failure
from jupyter_dist.launch.orchestrators.talk import Report, write_order
from jupyter_dist.model.spec.batch import BATCH_TITLES, JobCause, JobSeen, JobState, ended

_LAG_S = 2.0
"""Ray looks for a second for the reason why an actor has died."""
_END_TIMEOUT_S = 6.0
"""In which the client gives back what it has."""


class OrchestratedJob(BatchJob):
    """A process that has an orchestrator's client, and reports how the agents stand."""

    lag_s = _LAG_S

    def __init__(self, order: BatchOrder) -> None:
        """Start it; raises StartFailed when that does not work."""
        super().__init__(JobFiles(order.join_path.parent, order.cluster, order.log_dir))
        title = BATCH_TITLES[order.spec.system]
        self.label = f"{title} job {order.job_name}"
        self._report = Report(JobSeen(JobState.PENDING, f"asking {title}"))
        try:
            with self._files.output.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "jupyter_dist.launch.orchestrators"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            self._files.remove()
            raise StartFailed(f"{self.label} could not be started: {error}.") from error
        self._reader = threading.Thread(target=self._read, name="orchestrator", daemon=True)
        self._reader.start()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, and says why
            self._process.stdin.write(write_order(order))
            self._process.stdin.flush()

    def look(self) -> JobSeen:
        """Return what it has reported last."""
        return self._report.seen

    def explain(self) -> Failure | None:
        """Return why agents do not come; None: they may."""
        if self._report.problem:
            return Failure(self._report.problem.rstrip("."))
        return super().explain()

    def cancel(self) -> str:
        """Have it give back everything, and end; returns at once."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        return ""

    def end(self) -> str:
        """See that it is gone, and remove its files; says what is left with the orchestrator."""
        self.cancel()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return f"{self.label} may not have given back its nodes: its client had to be killed."
        finally:
            self._reader.join()
            self._files.remove()
        return self._report.left

    def _read(self) -> None:
        """Take what it reports, until it ends."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._report = msgspec.json.decode(line, type=Report)
        status = self._process.wait()
        if self._report.seen.state is not JobState.ENDED:
            words = f"FAILED (its client ended with status {status})"
            self._report = Report(ended(JobCause.FAILED, words))
