"""`jupyter dist run`: a program on every rank, or a notebook, on a cluster of its own or another.

Exit status: 0 where it ended well on all ranks; else that of the first rank on which it ended with
another one, or 1 for an exception; of a lost rank its exit code, or 128 and the number of the
signal; 124 after --timeout; 130 and 143 after SIGINT and SIGTERM; 2 for what cannot be meant.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_dist.cli.command import Command, start_shown, visit
from jupyter_dist.cli.jobs.job_report import JobReport
from jupyter_dist.cli.jobs.junit import Case
from jupyter_dist.cli.jobs.restarts import Outcome
from jupyter_dist.cli.jobs.termination import Termination, termination_heard
from jupyter_dist.cluster.jobs.exit_status import INTERRUPTED, TERMINATED, exit_status
from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.options.command_options import OptionParser, add_ranks
from jupyter_dist.options.run_options import add_job_options
from jupyter_dist.options.start_options import add_start_options, start_arguments

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

_OF_JOB = ("name", "timeout_s", "on_loss")
"""Options that are about the job and where it runs, and mean something else for a start."""
_PLACES = ("hosts", "hostfile", "spec", "launcher", "nodes")
"""With one of them a notebook gets a cluster that it need not start itself."""
NOTEBOOK = ".ipynb"


class Job(Protocol):
    """What has been checked and can be run."""

    title: str

    def run(self, termination: Termination, report: JobReport) -> Outcome:
        """Run it, show what it says; return how it has ended. Raise DistError."""
        ...

    def cases(self) -> list[Case]:
        """Return a test case for each part of it, as far as it has come."""
        ...


def add_run_options(parser: OptionParser) -> None:
    """Add what is run, where, and for how long."""
    add_start_options(parser, without=_OF_JOB)
    add_ranks(parser)
    add_job_options(parser)


def run_file(options: argparse.Namespace) -> int:
    """Run a program on every rank, or a notebook."""
    prepare = _prepare_notebook if options.file.endswith(NOTEBOOK) else _prepare_program
    try:
        job = prepare(options)
    except SyntaxError as error:
        text = f"{options.file}, line {error.lineno}: {type(error).__name__}: {error.msg}"
        raise DistError(text) from None
    report = JobReport(options)
    with termination_heard() as termination:
        outcome = _outcome_of(lambda: _run_to_end(job, termination, report))
        if termination.has_come and outcome.status in (0, INTERRUPTED):  # 0: it has saved, and left
            outcome = Outcome(TERMINATED, outcome.problem or "ended by SIGTERM")
        with suppress(KeyboardInterrupt):  # by Ctrl-C, as at a pipe that takes nothing
            return report.end(outcome, job.title, job.cases())
        return outcome.status


def _run_to_end(job: Job, termination: Termination, report: JobReport) -> Outcome:
    try:
        return job.run(termination, report)
    finally:
        termination.is_over = True


def _outcome_of(run: Callable[[], Outcome]) -> Outcome:
    """Return how a job has ended, also where its cluster has not come up.

    Raise UsageError where nothing was started, as for a host that there is not.
    """
    try:
        return run()
    except UsageError:
        raise
    except (DistError, KeyboardInterrupt) as problem:
        return Outcome(exit_status(problem), str(problem) or "interrupted")


def _prepare_program(options: argparse.Namespace) -> Job:
    """Check everything; return what runs it. Raise UsageError or SyntaxError."""
    from jupyter_dist.cli.jobs.run_program import ProgramJob

    return ProgramJob(options, _place(options))


def _prepare_notebook(options: argparse.Namespace) -> Job:
    """Check everything; return what runs it. Raise UsageError."""
    from jupyter_dist.cli.jobs.notebooks.run_notebook import NotebookRun, read_words_behind

    read_words_behind(options)
    given = start_arguments(options)
    if options.name is not None or any(name in given for name in _PLACES):
        return NotebookRun(options, _place(options))
    if wanted := [name for name in given if name not in (*_OF_JOB, "cwd")]:
        raise UsageError(
            f"{', '.join(wanted)}: this notebook starts its own cluster, with what its %dist_start "
            "says. Say where it is to run instead (-n, --hosts, --launcher), or leave it out."
        )
    return NotebookRun(options, None)


def _place(options: argparse.Namespace) -> AbstractContextManager["Cluster"]:
    """Return what gives the cluster of a job. Raise UsageError for what cannot be meant."""
    if options.restarts is not None and options.on_loss not in ("heal", "shrink"):
        raise UsageError("--restarts is for --on-loss heal or shrink: else the job ends.")
    given = start_arguments(options)
    wanted = {each: given[each] for each in given if each not in _OF_JOB}
    if options.name is None:
        return _of_its_own({"keep_s": 0.0, "timeout_s": options.start_timeout_s} | wanted)
    if wanted:
        raise UsageError(
            f"{', '.join(wanted)}: not accepted with --name {options.name}, as that cluster runs "
            "already. Leave it out; without --name the program gets a cluster of its own."
        )
    return _that_runs(options)


@contextmanager
def _of_its_own(arguments: dict[str, Any]) -> Iterator["Cluster"]:
    with start_shown(arguments) as cluster:
        yield cluster


@contextmanager
def _that_runs(options: argparse.Namespace) -> Iterator["Cluster"]:
    yield visit(options)


COMMANDS: tuple[Command, ...] = ((run_file, "run -n 4 train.py --lr 0.1", add_run_options),)
