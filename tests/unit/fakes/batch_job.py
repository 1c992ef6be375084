"""A job of no scheduler: each look at it waits for what the test lets it see."""

import queue
import threading

from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended

PATIENCE_S = 20.0
PENDING = JobSeen(JobState.PENDING, "PENDING: Resources")
RUNNING = JobSeen(JobState.RUNNING, "RUNNING")
CANCELLED = ended(JobCause.CANCELLED, "CANCELLED by root")


class FakeJob:
    """Answers when the test does; remembers what was done to it."""

    lag_s = 0.0
    label = "Slurm job 12"

    def __init__(self):
        self.told = []
        self.output = ""
        self.failure = None
        self.hindrance = ""
        """Why it cannot be cancelled."""
        self.is_cancelled = threading.Event()
        self._queries = threading.Semaphore(0)
        self._answers = queue.SimpleQueue()

    def await_look(self):
        """Wait until it is looked at: what was seen before has been taken in then."""
        assert self._queries.acquire(timeout=PATIENCE_S), "nobody looks"

    def go_on_waiting(self):
        """Let the look that was awaited be awaited once more."""
        self._queries.release()

    def show(self, seen):
        """Let the look that is under way, or the next one, see this."""
        self._answers.put(seen)

    def look(self):
        self._queries.release()
        return self._answers.get(timeout=PATIENCE_S)

    def explain(self):
        return self.failure

    def last_lines(self):
        return self.output

    def cancel(self):
        self.told.append("cancel")
        if not self.hindrance:
            self.is_cancelled.set()
        return self.hindrance

    def remove_files(self):
        self.told.append("remove_files")

    def end(self):
        self.told.append("end")
        return self.hindrance
