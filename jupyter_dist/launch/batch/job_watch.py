"""The batch job whose nodes run our agents: submitted, looked at, and ended, on its own thread.

A scheduler may take seconds to answer, so no loop asks it: it reads what the thread has seen last,
and wakes it where an answer is wanted at once.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple

from jupyter_dist.errors import DistError
from jupyter_dist.launch.batch.batch_text import (
    describe_end,
    describe_job,
    describe_loss,
    describe_near_end,
    stage_of_end,
    waits_in_vain,
)
from jupyter_dist.launch.launcher import Failure
from jupyter_dist.model.spec.batch import JobSeen, JobState
from jupyter_dist.model.spec.shutdown_time import JOB_END_S

if TYPE_CHECKING:
    from jupyter_dist.launch.batch.jobs import BatchJob

PENDING_INTERVAL_S = 1.0
RUNNING_INTERVAL_S = 5.0
SETTLE_INTERVAL_S = 0.2
"""Between two looks while an answer is wanted and the scheduler has not made up its mind."""
ANSWER_PATIENCE_S = 3.0
"""So long a loss waits for what the scheduler says of it."""
VAIN_GRACE_S = 5.0
"""A reason for which a job would wait for ever is believed after so long: nodes may come back."""
FAILURE_GRACE_S = 8.0
"""What a job that runs has written is believed after so long: others may have written it."""
END_GRACE_S = 2.0
"""A job ends when its agents have ended; one that has not after this time is cancelled."""
END_TIMEOUT_S = 8.0
"""A job that was cancelled and does not end after this time is its scheduler's affair."""


class _Question(NamedTuple):
    """What waits for the scheduler's word."""

    confirmed_s: float
    """From then on it is believed that the job just runs."""
    until_s: float
    """From then on nobody waits for it."""


class JobWatch:
    """What is known of a job; attributes are written by the thread only."""

    def __init__(
        self,
        submit: "Callable[[Path], BatchJob]",
        title: str,
        clock: Callable[[], float] = monotonic,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_end` is called by the thread when the job ends before it is to, or does not begin."""
        self._submit = submit
        self._clock = clock
        self._on_end = on_end
        self._thread: threading.Thread | None = None
        self._wake = threading.Condition()
        self._is_closing = self._is_cancelled = self._is_let_go = False
        self._asked = 0
        self._open: dict[int, _Question] = {}
        self._told_stage = 0
        self._lag_s = 0.0
        self.label = title
        """Of the job, as `Slurm job 12`; before it has a number, that of its scheduler."""
        self.seen: JobSeen | None = None
        """How it was seen last; None: it is not submitted yet."""
        self._known: JobSeen | None = None
        self._in_vain_since_s: float | None = None
        self._failing_since_s: float | None = None
        self.problem = ""
        """Why it could not be submitted, or how it has ended; empty: it may run."""
        self.left = ""
        """Why it may still be there at the end, and how it is ended by hand; empty: it is not."""
        self.said = ""
        """The last lines of its output."""
        self.failure: Failure | None = None
        """Why agents of it do not come, as far as its output tells."""

    def start(self, join_path: Path) -> None:
        """Submit the job, whose agents join with this file, and look at it from now on.

        The directory of the file is the job's own, and is removed with it.
        """
        # Not a daemon: the process must not end before a job is cancelled that it has submitted.
        self._thread = threading.Thread(target=self._run, args=(join_path,), name="job-watch")
        self._thread.start()

    # --- for the loop ---

    @property
    def is_pending(self) -> bool:
        """It waits in a queue, or is on its way there."""
        return self.seen is None or self.seen.state is JobState.PENDING

    @property
    def words(self) -> str:
        """What the scheduler says of it, short."""
        if self.seen is None:
            return "being submitted"
        return self.seen.text or str(self.seen.state)

    @property
    def last_line(self) -> str:
        """Return the last line of its output, to follow the words; empty: it has said nothing."""
        lines = self.said.strip().splitlines()
        return f", it says: {lines[-1].strip()}" if lines else ""

    @property
    def why_nobody_comes(self) -> str:
        """Return why agents that have not joined will not, in whole sentences; empty: they may."""
        how = f"{self.problem.rstrip('.')}." if self.problem else self._describe_vain_wait()
        is_believed = self.problem or self._has_passed(self._failing_since_s, FAILURE_GRACE_S)
        if self.failure is not None and is_believed:
            return f"{how} {self.failure}" if how else f"{self.label}: {self.failure}"
        return how

    def _has_passed(self, since_s: float | None, duration_s: float) -> bool:
        return since_s is not None and self._clock() - since_s >= duration_s

    def _describe_vain_wait(self) -> str:
        if not self._has_passed(self._in_vain_since_s, VAIN_GRACE_S):
            return ""
        return (
            f"{self.label}: {self.words}. Like this it would wait for ever. Ask for what is there: "
            "see --nodes, --slots, --queue, --account, --time-limit and --launcher-arg."
        )

    def ask(self, confirm_s: float = 0.0) -> int:
        """Have the scheduler asked at once; gives the number of the question.

        That the job runs is believed only so long after the question: what ends a job may be
        seen on its nodes a moment before.
        """
        with self._wake:
            self._asked += 1
            now_s = self._clock()
            self._open[self._asked] = _Question(
                now_s + self._lag_s + confirm_s, now_s + ANSWER_PATIENCE_S
            )
            self._wake.notify()
            return self._asked

    def has_answered(self, question: int) -> bool:
        """Return whether the scheduler has answered this question, or had its time for it."""
        with self._wake:
            still = self._open.get(question)
            if still is None:
                return True
            if not self.problem and self._clock() < still.until_s:
                return False
            del self._open[question]  # nobody waits for it any more
            return True

    def why_lost(self, host: str) -> str:
        """Return what the scheduler knows of a loss on this host; empty: nothing."""
        return describe_loss(self.label, self.seen, host)

    def describe(self) -> str:
        """Return how it stands, as `Slurm job 12, RUNNING, ends in 1 h 52 min`."""
        return describe_job(self.label, self.seen, time())

    @property
    def note(self) -> str:
        """What needs attention: it has ended, or soon will; empty: nothing."""
        return self.problem or describe_near_end(self.label, self.seen, time())

    def take_news(self) -> str:
        """Say that its time is nearly over, once for each step; empty: nothing new."""
        stage, before = stage_of_end(self.seen, time()), self._told_stage
        self._told_stage = stage
        return self.note if stage > before else ""

    # --- the end ---

    def cancel(self) -> None:
        """Have the job cancelled; returns at once."""
        with self._wake:
            self._is_closing = self._is_cancelled = True
            self._wake.notify()

    def end(self, timeout_s: float) -> None:
        """Wait for the end of the job, which is cancelled if it does not end on its own."""
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def let_go(self) -> None:
        """Look at the job no longer: it goes on, and its files are removed."""
        self._is_let_go = True
        self.end(JOB_END_S)

    # --- the thread ---

    def _run(self, join_path: Path) -> None:
        try:
            self._serve(self._submit(join_path))
        except (DistError, OSError) as error:
            self.problem = str(error)
            self._on_end()
        except BaseException as error:
            self.problem = f"{type(error).__name__}: {error}"
            raise

    def _serve(self, job: "BatchJob") -> None:
        """Look at the job until it has ended, or is to end."""
        self.label, self._lag_s = job.label, job.lag_s
        try:
            while not self._is_closing and self._look(job) is not JobState.ENDED:
                self._rest()
            if self.problem:
                self._on_end()
                with self._wake:  # its output stays as long as the cluster
                    self._wake.wait_for(lambda: self._is_closing)
            elif not self._is_let_go:
                self._close(job)
        finally:
            if self._is_let_go:
                job.remove_files()
            else:
                self.left = job.end()

    def _look(self, job: "BatchJob") -> JobState:
        """Look at it, and answer what was asked before this look."""
        began_s = self._clock()
        with self._wake:
            asked = dict(self._open)
        seen = job.look()
        if seen.state not in (JobState.PENDING, JobState.UNKNOWN):
            self.said, self.failure = job.last_lines(), job.explain()
        if seen.state is JobState.ENDED:
            self.problem = describe_end(job.label, seen)
        self._in_vain_since_s = self._first_s(self._in_vain_since_s, waits_in_vain(seen))
        self._failing_since_s = self._first_s(self._failing_since_s, self.failure is not None)
        self.seen = self._complete(seen)
        self._answer(asked, seen, began_s)
        return seen.state

    def _answer(self, asked: dict[int, _Question], seen: JobSeen, began_s: float) -> None:
        """Close the questions which this look has answered, or for which it is too late."""
        knows_why = seen.state is JobState.ENDED or seen.cause is not None
        is_answer = knows_why or seen.state is JobState.RUNNING
        with self._wake:
            for number, question in asked.items():
                is_confirmed = is_answer and question.confirmed_s <= began_s
                if knows_why or seen.lost_nodes or is_confirmed or question.until_s <= began_s:
                    self._open.pop(number, None)

    def _first_s(self, since_s: float | None, holds: bool) -> float | None:
        """Return since when something holds; None: it does not."""
        if not holds:
            return None
        return since_s if since_s is not None else self._clock()

    def _complete(self, seen: JobSeen) -> JobSeen:
        """Add what was known before, where a scheduler is away for a while."""
        if seen.state is not JobState.UNKNOWN:
            self._known = seen
        elif self._known is not None:
            words = f"{seen.words}, last known: {self._known.text}"
            return JobSeen(self._known.state, words, self._known.ends_at_s)
        return seen

    def _rest(self) -> None:
        """Wait until it is time to look again, or someone wants it."""
        with self._wake:
            if self._is_closing:
                return
            if self._open:  # asked while we looked, or it is still moving
                self._wake.wait(SETTLE_INTERVAL_S)
                return
            asked, limit_s = self._asked, RUNNING_INTERVAL_S
            if self.is_pending:
                limit_s = PENDING_INTERVAL_S
            self._wake.wait_for(lambda: self._is_closing or self._asked > asked, limit_s)

    def _close(self, job: "BatchJob") -> None:
        """See that the job ends: on its own in a moment, or cancelled."""
        began_s = self._clock()
        was_tried = was_cancelled = False
        while self._look(job) is not JobState.ENDED and (
            (passed_s := self._clock() - began_s) < END_TIMEOUT_S
        ):
            if not was_cancelled and (self._is_cancelled or passed_s >= END_GRACE_S):
                self.left = job.cancel()
                was_tried, was_cancelled = True, not self.left
            with self._wake:
                if was_tried or not self._is_cancelled:
                    self._wake.wait(SETTLE_INTERVAL_S)
