"""When the time of a batch job is over, and whether its ranks are to be told of that now."""

from time import time

from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.model.ranks.preemption_agreement import is_end_near

SAME_END_S = 90.0
"""Ends that are told so close together are one: some schedulers know it to the minute only."""


class JobEnd:
    """The end of a job as it is known now; one that is put off or moved up is a new one."""

    def __init__(self, job: JobWatch | None) -> None:
        self._job = job
        self._ends_at_s = 0.0
        """The earliest that was told of this end, in seconds since 1970; 0: none is known."""
        self._known_left_s = 0.0
        """What was left when it became known."""
        self.is_told = False
        """Ranks have been told of this end."""

    def left_s(self) -> float:
        """Return what is left, if ranks are to be told of it now and were not; or 0."""
        self._look()
        left_s = self._ends_at_s - time()
        if not self._ends_at_s or self.is_told or not is_end_near(left_s, self._known_left_s):
            return 0.0
        return max(1.0, left_s)

    def mark_told(self) -> str:
        """Note that ranks are told; gives the reason."""
        assert self._job is not None
        self.is_told = True
        return f"{self._job.label} reaches its time limit"

    def _look(self) -> None:
        seen = self._job.seen if self._job is not None else None
        if seen is None or not seen.ends_at_s:
            return
        if abs(seen.ends_at_s - self._ends_at_s) < SAME_END_S:
            self._ends_at_s = min(self._ends_at_s, seen.ends_at_s)
            return
        self._ends_at_s, self.is_told = seen.ends_at_s, False
        self._known_left_s = seen.ends_at_s - time()
