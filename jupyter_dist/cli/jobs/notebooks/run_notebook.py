"""`jupyter dist run train.ipynb`: what its options mean, where it runs, what comes of it."""

import argparse
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_dist.cli.checkpoints import restore_newest
from jupyter_dist.cli.command import write
from jupyter_dist.cli.jobs.job_report import JobReport
from jupyter_dist.cli.jobs.junit import Case
from jupyter_dist.cli.jobs.notebooks.notebook_file import (
    check_installed,
    check_output,
    read_notebook,
)
from jupyter_dist.cli.jobs.notebooks.parameters import inject_parameters
from jupyter_dist.cli.jobs.restarts import Outcome, run_with_restarts
from jupyter_dist.cli.jobs.termination import Termination
from jupyter_dist.errors import UsageError

if TYPE_CHECKING:
    from jupyter_dist.cli.jobs.notebooks.notebook_job import CellOutcome
    from jupyter_dist.cluster.cluster import Cluster

_FOR_PROGRAMS = ("ranks", "on")
_FOR_CLUSTERS = ("resume", "on_loss", "restarts")


class NotebookRun:
    """A notebook and where it runs; `place` None: it starts its own cluster.

    Raise UsageError for what cannot be meant; nothing was started then.
    """

    def __init__(
        self, options: argparse.Namespace, place: AbstractContextManager["Cluster"] | None
    ) -> None:
        check_installed()
        self._options, self._place = options, place
        self._path = Path(options.file)
        self._notebook = read_notebook(self._path)
        self._check(has_cluster=place is not None)
        self.title = self._path.name
        inject_parameters(self._notebook, options.parameters)
        spec = self._notebook.metadata.get("kernelspec", {})
        self._kernel = options.kernel or spec.get("name") or "python3"
        _check_kernel(self._kernel)
        self._cells: list[CellOutcome] = []

    def run(self, termination: Termination, report: JobReport) -> Outcome:  # noqa: ARG002
        """Run it, show what it says; return how it has ended. Raise DistError."""
        with self._place or nullcontext() as cluster:
            if cluster is None:
                return self._run_once(None)
            return run_with_restarts(
                cluster, self._options, lambda: self._run_once(cluster), report.restart
            )

    def cases(self) -> list[Case]:
        """Return a test case for each code cell."""
        return [_case(cell) for cell in self._cells]

    def _run_once(self, cluster: "Cluster | None") -> Outcome:
        from jupyter_dist.cli.jobs.notebooks.notebook_job import JobOptions, NotebookJob
        from jupyter_dist.cli.jobs.notebooks.notebook_shows import JsonShow, TextShow

        options = self._options
        if cluster is not None and options.resume is not None:
            restore_newest(cluster, options.resume)
        how = JobOptions(
            path=self._path,
            output=options.output,
            kernel=self._kernel,
            cluster=cluster.name if cluster is not None else "",
            cwd=options.cwd,
            timeout_s=options.timeout_s,
        )
        show = JsonShow(write) if options.json else TextShow()
        job = NotebookJob(deepcopy(self._notebook), how, show)
        outcome = job.run()
        self._cells = job.cells
        return outcome

    def _check(self, *, has_cluster: bool) -> None:
        options = self._options
        if options.output is not None:
            check_output(options.output, self._path)
        if given := [name for name in _FOR_PROGRAMS if getattr(options, name) is not None]:
            raise UsageError(
                f"--{given[0]} is for programs; in a notebook each cell says it: "
                f"%%spmd --{given[0]} …"
            )
        wanted = [name for name in _FOR_CLUSTERS if getattr(options, name) is not None]
        if wanted and not has_cluster:
            flag = wanted[0].replace("_", "-")
            raise UsageError(
                f"--{flag}: this notebook starts its own cluster. Say where it is to run (-n, "
                "--hosts, --name), or leave it out."
            )


def read_words_behind(options: argparse.Namespace) -> None:
    """Read what stands behind the file: a notebook has no arguments, so these are options, too."""
    words, file = options.arguments, options.file
    if options.is_module:
        raise UsageError(f"-m {file}: that is a notebook, and no module. Leave -m out.")
    options.parser.parse_args([*words, "--", file], namespace=options)
    if options.arguments or options.file != file:
        raise UsageError(
            f"{file} is a notebook, which takes no arguments: {' '.join(words)}. Give it "
            "parameters by -p NAME VALUE."
        )


def _case(cell: "CellOutcome") -> Case:
    from jupyter_dist.cli.jobs.notebooks.notebook_shows import head_of

    has_failed = cell.status == "failed"
    return Case(
        name=f"cell {cell.number}: {head_of(cell.source)}",
        seconds=cell.seconds,
        failure=f"{cell.error}: {cell.message}" if has_failed else "",
        details=cell.traceback if has_failed else "",
        was_run=cell.status != "not run",
    )


def _check_kernel(name: str) -> None:
    from jupyter_client.kernelspec import KernelSpecManager

    there = KernelSpecManager().find_kernel_specs()
    if name not in there:
        accepted = ", ".join(sorted(there))
        raise UsageError(
            f"kernel {name!r} is not on this machine. Accepted by --kernel: {accepted}."
        )
