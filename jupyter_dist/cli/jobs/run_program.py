"""Runs a program on every rank as a job."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import msgspec

from jupyter_dist.cli.checkpoints import restore_newest
from jupyter_dist.cli.command import write
from jupyter_dist.cli.jobs.job_report import JobReport
from jupyter_dist.cli.jobs.json_events import JsonEvents
from jupyter_dist.cli.jobs.junit import Case
from jupyter_dist.cli.jobs.restarts import Outcome, run_with_restarts
from jupyter_dist.cli.jobs.termination import Termination
from jupyter_dist.cluster.cells.program import program_command, program_of, read_program
from jupyter_dist.cluster.jobs.exit_status import exit_status
from jupyter_dist.errors import CellFailed, DistError, RankLost, UsageError
from jupyter_dist.protocol.commands import ProgramRequest

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.cluster.result import RankResult, SpmdResult
    from jupyter_dist.views.cell.cell_output import CellView

_OF_NOTEBOOKS = ("parameters", "output", "kernel")


class ProgramJob:
    """A program and where it runs. Raise UsageError or SyntaxError for what cannot be run."""

    def __init__(
        self, options: argparse.Namespace, place: AbstractContextManager["Cluster"]
    ) -> None:
        self._options = options
        self._place = place
        self._program = _read(options)
        self._result: SpmdResult | None = None
        self.title = self._program.path
        if given := [name for name in _OF_NOTEBOOKS if getattr(options, name)]:
            raise UsageError(
                f"{', '.join(given)}: {options.file} is no notebook. Options of the program stand "
                "behind its name."
            )

    def run(self, termination: Termination, report: JobReport) -> Outcome:
        """Run it, show what ranks say; return how it has ended. Raise DistError."""
        with self._place as cluster, termination.of_program(cluster):
            return run_with_restarts(
                cluster, self._options, lambda: self._run_once(cluster), report.restart
            )

    def cases(self) -> list[Case]:
        """Return a test case for each rank that has told its end."""
        return [_case(each) for each in self._result or ()]

    def _run_once(self, cluster: "Cluster") -> Outcome:
        options, program = self._options, self._program
        ranks = cluster.select(options.ranks, options.on)
        if options.resume is not None:
            names = restore_newest(cluster, options.resume)
            program = msgspec.structs.replace(program, restored=names)
        shown = range(cluster.world_size) if ranks is None else ranks
        if options.json:
            return self._watch(cluster, program, ranks, JsonEvents(write, cluster.name, shown))
        from jupyter_dist.views.cell.cell_output import CellOutputView

        return self._watch(cluster, program, ranks, CellOutputView(world_size=len(shown)))

    def _watch(
        self,
        cluster: "Cluster",
        program: ProgramRequest,
        ranks: Sequence[int] | None,
        view: "CellView",
    ) -> Outcome:
        self._result = None
        try:
            result = self._result = cluster.run_command(
                program_command(program),
                ranks,
                timeout_s=self._options.timeout_s,
                on_error="interrupt",  # a job that has failed is to end, not to use its GPUs up
                watcher=view,
            )
        except (DistError, KeyboardInterrupt) as problem:
            view.finish(None)
            return Outcome(exit_status(problem), str(problem) or "interrupted")
        view.finish(result)
        try:
            result.raise_first()
        except CellFailed as failure:
            return Outcome(exit_status(failure), str(failure), isinstance(failure, RankLost))
        return Outcome()


def _read(options: argparse.Namespace) -> ProgramRequest:
    if options.file == "-" and not options.is_module:
        return program_of(sys.stdin.read(), "<stdin>", options.arguments)
    return read_program(options.file, options.arguments, is_module=options.is_module)


def _case(result: "RankResult") -> Case:
    name, error, crash = f"rank {result.rank}", result.error, result.crash
    if result.status == "ok":
        return Case(name=name, seconds=result.duration_s)
    reason = crash.reason if crash is not None else result.status
    return Case(
        name=name,
        seconds=result.duration_s,
        failure=str(error) if error is not None else reason,
        details="\n".join(error.traceback) if error is not None else "",
    )
