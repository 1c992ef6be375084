"""ipyparallel's launchers, taught to start agents; the only importer of ipyparallel here.

They know how each batch system takes a script, how it names the job, and how it ends one. Script,
program and options are ours. Importing this takes a while: only a batch start does it.
"""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ipyparallel.cluster import launcher as theirs

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.batch.commands import SUBMIT_TIMEOUT_S, environment_outside, run_command
from jupyter_dist.launch.batch.programs import find_mpiexec
from jupyter_dist.launch.batch.templates import check_template


class Refused(StartFailed):
    """The submit command has not taken the job; `said` are its own words."""

    def __init__(self, command: str, said: str) -> None:
        self.said = said
        super().__init__(f"{command} said: {said}")


class _ForAgents:
    """What differs from starting engines of ipyparallel."""

    program_environment: dict[str, str] = {}  # noqa: RUF012  (never changed)

    @property
    def cluster_env(self) -> dict[str, str]:
        """Variables that only engines of ipyparallel read."""
        return {}

    def _run_command(self, command: Sequence[str], **options: Any) -> str:
        """Run the submit command, with an end in sight and its words kept."""
        environ = {**environment_outside(os.environ), **self.program_environment}
        said = run_command(
            command, SUBMIT_TIMEOUT_S, environ=environ, stdin_path=options.get("stdin_path")
        )
        if said.status:
            raise Refused(command[0], said.words or f"nothing, with status {said.status}")
        return said.output


class _Slurm(_ForAgents, theirs.SlurmEngineSetLauncher):  # type: ignore[misc]  # no types
    # With its cluster, where that is another one than commands ask by default.
    job_id_regexp = re.compile(r"\d+(?:(?: on cluster |;)\S+)?")


class _Pbs(_ForAgents, theirs.PBSEngineSetLauncher):  # type: ignore[misc]
    # With its server, which may be another one than commands ask by default.
    job_id_regexp = re.compile(r"\d+(?:\.\S+)?")


class _Sge(_ForAgents, theirs.SGEEngineSetLauncher):  # type: ignore[misc]
    def _run_command(self, command: Sequence[str], **options: Any) -> str:
        """Run qsub, which may take a job with a warning, and with the status of a failure."""
        try:
            return super()._run_command(command, **options)
        except Refused as error:
            _, taken, rest = error.said.partition("Your job")
            if "has been submitted" not in rest:
                raise
            return taken + rest


class _Lsf(_ForAgents, theirs.LSFEngineSetLauncher):  # type: ignore[misc]
    # What the job says shall be readable while it runs.
    program_environment = {"LSB_STDOUT_DIRECT": "Y"}  # noqa: RUF012

    def start(self, n: int = 1) -> str:
        """Submit the script on stdin, where bsub looks for its directives."""
        self.write_batch_script(n)
        said = self._run_command(self.submit_command, stdin_path=Path(self.batch_file))
        return str(self.parse_job_id(said))


class _Condor(_ForAgents, theirs.HTCondorEngineSetLauncher):  # type: ignore[misc]
    pass


class _Mpi(theirs.MPIEngineSetLauncher):  # type: ignore[misc]
    @property
    def program(self) -> list[str]:
        """Our agent; theirs would be told that it is an engine."""
        return list(self.engine_cmd)


_LAUNCHERS: dict[str, Any] = {
    "slurm": _Slurm,
    "pbs": _Pbs,
    "sge": _Sge,
    "lsf": _Lsf,
    "htcondor": _Condor,
}


def submit_script(system: str, script: Path, submit: Sequence[str], fields: dict[str, Any]) -> str:
    """Fill the template among the fields in, submit it, and give the number of the job.

    Raises UsageError for a template that cannot be filled in, and Refused with the words of the
    submit command.
    """
    fields = dict(fields)
    program, *arguments = shlex.split(fields["agent"])
    check_template(fields["template"], fields)
    launcher = _LAUNCHERS[system](
        work_dir=str(script.parent),
        batch_file_name=script.name,
        batch_template=fields.pop("template"),
        output_file=str(fields["output_file"]),
        submit_command=list(submit),
        engine_cmd=[program],
        engine_args=arguments,
        namespace=fields,
    )
    try:
        return str(launcher.start(fields["nodes"]))
    except theirs.LauncherError as error:
        raise Refused(submit[0], str(error)) from error


def delete_words(system: str, job_id: str) -> list[str]:
    """Return the command that ends a job."""
    command = _LAUNCHERS[system].delete_command.default()
    return [*command, job_id]


def mpiexec_words(count: int, options: Sequence[str], program: Sequence[str]) -> list[str]:
    """Return the command that starts a program so many times by MPI."""
    mpiexec = find_mpiexec() or "mpiexec"
    launcher = _Mpi(
        mpi_cmd=[mpiexec], mpi_args=list(options), engine_cmd=list(program), engine_args=[]
    )
    launcher.n = count
    return list(launcher.find_args())
