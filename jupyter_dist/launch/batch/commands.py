"""The commands of a batch system, run with an end in sight."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from jupyter_dist.text.said_lines import last_lines

LOOK_TIMEOUT_S = 2.5
"""Of one question; a look asks two at most."""
CANCEL_TIMEOUT_S = 5.0
SUBMIT_TIMEOUT_S = 60.0
_MISSING = 127
_LATE = 124
_FOR_READING = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
"""Commands whose output we read speak English, and give times as numbers."""
_KEPT = (
    *("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS"),
    *("PBS_CONF_FILE", "PBS_EXEC", "PBS_SERVER", "PBS_DEFAULT"),
    *("LSB_DEFAULTPROJECT", "LSB_DEFAULTQUEUE", "LSB_DEFAULT_USERGROUP"),
)
"""About the site, and a user's wishes; all else that begins so is about the job that we are in."""
_OF_A_JOB = {
    "SLURM_JOB_ID": ("SLURM_", "SRUN_"),
    "PBS_JOBID": ("PBS_",),
    "LSB_JOBID": ("LSB_", "LS_SUBCWD"),
}


class CommandOutput(msgspec.Struct, frozen=True):
    """What a command has said, and how it has ended."""

    status: int
    output: str = ""
    error: str = ""

    @property
    def words(self) -> str:
        """Its last words, on one line."""
        return "; ".join(last_lines(self.error or self.output, 3).splitlines()).rstrip(".")


Run = Callable[[Sequence[str]], CommandOutput]


def at_cluster(words: Sequence[str], cluster: str) -> list[str]:
    """Return a command of Slurm as it speaks to the cluster of this name; empty: to the default."""
    program, *arguments = words
    return [program, *(["-M", cluster] if cluster else []), *arguments]


def run_query(words: Sequence[str]) -> CommandOutput:
    """Ask a scheduler; what goes wrong is told as the command's own error."""
    return run_command(words, LOOK_TIMEOUT_S, environ={**os.environ, **_FOR_READING})


def query_at(cluster: str) -> Run:
    """Return what asks the Slurm cluster of this name; empty: the default one."""

    def ask(words: Sequence[str]) -> CommandOutput:
        said = run_query(at_cluster(words, cluster))
        # Some commands begin with a line for each cluster, whatever they are told of headings.
        lines = [line for line in said.output.splitlines() if not line.startswith("CLUSTER:")]
        return CommandOutput(said.status, "\n".join(lines), said.error)

    return ask if cluster else run_query


def run_command(
    words: Sequence[str],
    timeout_s: float,
    *,
    environ: Mapping[str, str] | None = None,
    stdin_path: Path | None = None,
) -> CommandOutput:
    """Run a command to its end, or for this time."""
    try:
        with open(stdin_path or os.devnull, "rb") as stdin:
            run = subprocess.run(
                words,
                stdin=stdin,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout_s,
                env=None if environ is None else dict(environ),
                check=False,
            )
    except subprocess.TimeoutExpired:
        return CommandOutput(_LATE, error=f"{words[0]} has not answered within {timeout_s:g} s")
    except OSError as error:
        return CommandOutput(_MISSING, error=f"{words[0]} cannot be run: {error.strerror or error}")
    return CommandOutput(run.returncode, run.stdout, run.stderr)


def environment_outside(environ: Mapping[str, str]) -> dict[str, str]:
    """Leave out what describes the job that we are in: a new one has its own."""
    foreign = tuple(
        prefix for sign, prefixes in _OF_A_JOB.items() if sign in environ for prefix in prefixes
    )
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not name.startswith(foreign)
    }
