"""What is written of a job beside its output: restarts, the report for CI servers, and its end."""

import argparse
from collections.abc import Sequence

from jupyter_dist.cli.command import write, write_problem
from jupyter_dist.cli.jobs.json_events import write_json
from jupyter_dist.cli.jobs.junit import Case, check_writable, write_junit
from jupyter_dist.cli.jobs.restarts import Outcome


class JobReport:
    """Written as the options of a job say. Raise UsageError where a report cannot be written."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        if options.junit is not None:
            check_writable("--junit", options.junit)

    def restart(self, problem: str) -> None:
        """Write that the job begins again, and what has ended it before."""
        if self._options.json:
            write_json(write, "restarted", problem=problem)
        write_problem(problem, 1)

    def end(self, outcome: Outcome, title: str, cases: Sequence[Case]) -> int:
        """Write how the job has ended, last of all; return the exit status."""
        if outcome.problem and not any(case.failure for case in cases):  # as before it began
            cases = [*cases, Case(name=title, seconds=0.0, failure=outcome.problem)]
        if (path := self._options.junit) is not None:
            try:
                write_junit(path, title, cases)
            except OSError as error:
                outcome = outcome.with_problem(f"{path} was not written: {error.strerror}")
        if self._options.json:
            write_json(write, "ended", exit_status=outcome.status, problem=outcome.problem)
        return write_problem(outcome.problem, outcome.status) if outcome.problem else outcome.status
