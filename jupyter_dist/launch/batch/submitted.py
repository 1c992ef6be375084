"""A job that a scheduler has taken."""

import shlex

from jupyter_dist.launch.base import Failure
from jupyter_dist.launch.batch.commands import CANCEL_TIMEOUT_S, run_command
from jupyter_dist.launch.batch.files import JobFiles
from jupyter_dist.launch.batch.questions import FORGOTTEN, Question
from jupyter_dist.launch.batch.sayings import explain_output
from jupyter_dist.model.batch import JobSeen, JobState

_STILL_THERE = ("held", "Eqw", FORGOTTEN.words)
"""It will never run, or is out of sight, but may have to be cancelled."""


class SubmittedJob:
    """A job in a queue, or on its nodes."""

    def __init__(self, label: str, question: Question, delete: list[str], files: JobFiles) -> None:
        self.label = label
        self._question = question
        self._delete = delete
        self._files = files
        self._has_ended = self._is_gone = False
        self._has_failed = False

    def look(self) -> JobSeen:
        """Ask the scheduler; never raises, and blocks for a few seconds at most."""
        seen = self._question.ask()
        self._has_ended = seen.state is JobState.ENDED
        self._is_gone = self._has_ended and not seen.words.startswith(_STILL_THERE)
        self._has_failed = self._is_gone and "FAILED" in seen.words
        return seen

    def explain(self) -> Failure | None:
        """Say why agents of it do not come, as far as its output tells; None: it does not."""
        found = explain_output(self._files.read_output())
        if found is None and self._has_failed and not self._files.has_output:
            # It is made before anything of the job runs.
            return Failure(
                f"no node of the job has written {str(self._files.output)!r}",
                "A node has to see that directory, and may have to write into it: give one that "
                "this machine and all nodes see with --job-dir DIR.",
            )
        return found

    def last_lines(self) -> str:
        """Give the last lines of its output, as far as it can be read here."""
        return self._files.last_lines()

    def cancel(self) -> str:
        """End it; harmless when it has ended. Says why that did not work."""
        said = run_command(self._delete, CANCEL_TIMEOUT_S)
        if not said.status:
            return ""
        return (
            f"{self.label} could not be cancelled ({said.words or f'status {said.status}'}). End "
            f"it with: {shlex.join(self._delete)}"
        )

    def end(self) -> str:
        """See that it is gone, and remove its files; says why it may still be there."""
        failed = "" if self._is_gone else self.cancel()
        self._files.remove()
        return "" if self._has_ended else failed
