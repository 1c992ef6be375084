"""The batch job in which a coordinator runs, as it is submitted, watched and ended from here."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic, time
from typing import TYPE_CHECKING

import msgspec

from jupyter_dist.errors import ClusterExists, StartFailed
from jupyter_dist.launch.batch.batch_text import explain_long_wait, with_last_lines
from jupyter_dist.launch.batch.files import make_job_dir
from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.launch.batch.order import order_for
from jupyter_dist.launch.files.connection_file import ConnectionInfo, StartReport, connection_path
from jupyter_dist.launch.files.plain_file import read_plain_file, written_whole
from jupyter_dist.launch.proxy.conversation import JobOrder, JobPlace, report_path
from jupyter_dist.model.spec.batch import BATCH_TITLES, JobCause
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.model.spec.shutdown_time import JOB_END_S
from jupyter_dist.text.plurals import count_of
from jupyter_dist.version import WIRE

if TYPE_CHECKING:
    from jupyter_dist.launch.batch.jobs import BatchJob

_LOOK_S = 0.2
"""Between two looks for what the job has written: a shared directory tells of no change."""


class CoordinatorJob:
    """Submits it, and finds out where the coordinator is."""

    def __init__(self, spec: ClusterSpec, log_dir: Path, on_end: Callable[[], None]) -> None:
        """`on_end` is called by another thread when the job ends without being cancelled here."""
        assert spec.batch is not None
        self._spec, self._log_dir = spec, log_dir
        self._watch = JobWatch(
            self._submit, f"the {BATCH_TITLES[spec.batch.system]} job", on_end=on_end
        )
        self._deadline_s = monotonic() + spec.timeout_s
        self._report = Path()
        self.runtime_dir = ""
        """Where the connection file of the coordinator is, on its node."""

    def start(
        self, host: HostSpec, on_stage: Callable[[StartReport], None], given_up: Event
    ) -> tuple[HostSpec, ConnectionInfo]:
        """Submit it, and return how ssh gets to its coordinator, and how that is found there.

        `host` says what ssh is. Raise UsageError, StartFailed and ClusterExists.
        """
        assert self._spec.batch is not None
        base = self._spec.batch.directory or connection_path(self._spec.name).parent
        path = make_job_dir(base, self._spec.name) / f"{self._spec.name}.order"
        self._report = report_path(path)
        good_until_s = time() + self._spec.timeout_s
        order = JobOrder(WIRE, good_until_s, msgspec.Raw(msgspec.json.encode(self._spec)))
        with written_whole(path, msgspec.json.encode(order)) as draft:
            draft.replace(path)
        self._watch.start(path)
        told = ""
        while (found := self._read_report()) is None:
            if (stage := self._describe_waiting()) != told:
                told = stage
                on_stage(StartReport(stage=stage))
            if given_up.wait(_LOOK_S):
                # It may have written its reason, and have ended with that.
                found = self._read_report()
                break
            self._check_start()
        if found is None:
            raise StartFailed(self._explain_end() or "the start was given up.")
        place, info = found
        self.runtime_dir = place.runtime_dir
        like = self._spec.hosts[0]
        node = msgspec.structs.replace(
            host, name=place.host, launcher="ssh", python=like.python, setup=like.setup
        )
        return node, info

    def _submit(self, path: Path) -> "BatchJob":
        from jupyter_dist.launch.batch.submission import submit  # late: it brings ipyparallel

        return submit(order_for(self._spec, path, self._log_dir, has_coordinator=True))

    def _describe_waiting(self) -> str:
        hosts = count_of(len(self._spec.hosts), "host")
        return f"waiting for {hosts} of {self.label} ({self._watch.words}{self._watch.last_line})"

    def _read_report(self) -> tuple[JobPlace, ConnectionInfo] | None:
        """Return what it has reported, None while that is not all. Raise StartFailed."""
        try:
            first, *others = read_plain_file(self._report).split(b"\n")[:-1]  # whole lines
        except (OSError, ValueError):
            return None
        place = msgspec.json.decode(first, type=JobPlace)
        for report in (msgspec.json.decode(line, type=StartReport) for line in others):
            if report.connection is not None:
                return place, report.connection
            if report.is_name_taken:
                raise ClusterExists(self._spec.name)
            if report.problem:
                raise StartFailed(f"{place.host} of {self.label}: {report.problem}")
        return None

    def _check_start(self) -> None:
        """Raise StartFailed when nothing will come of it any more, or not in time."""
        if why := self._watch.why_nobody_comes:
            raise StartFailed(with_last_lines(why, self._watch.said))
        if monotonic() >= self._deadline_s:
            state = f"{self.label}: {self._watch.words}"
            if self._watch.is_pending:
                raise StartFailed(explain_long_wait(state))
            late = (
                f"{state}; its first node does not report. It must see {str(self._report.parent)!r}"
                " (--job-dir DIR) and have this jupyter-dist (--python PATH)."
            )
            raise StartFailed(with_last_lines(late, self._watch.said))

    def _explain_end(self) -> str:
        return with_last_lines(self._watch.why_nobody_comes, self._watch.said)

    @property
    def label(self) -> str:
        """What it is called in sentences, as `Slurm job 12`."""
        return self._watch.label

    def end(self, *, is_failed: bool = False) -> str:
        """See that it ends and remove its files; return how it ended, empty: as it was to.

        One that has failed is cancelled at once. Else its coordinator has ended, and so it does.
        """
        if is_failed:
            self._watch.cancel()
        self._watch.end(JOB_END_S)
        seen = self._watch.seen
        is_usual = seen is None or seen.cause in (None, JobCause.COMPLETED)
        return self._watch.left if is_failed or is_usual else self._watch.problem

    def let_go(self) -> None:
        """Watch it no longer; it goes on."""
        self._watch.let_go()
