"""The user's options as each batch system's submit command reads them.

They go on its command line, where they win over what a template says.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from jupyter_dist.launch.batch.files import EVENTS
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.batch.templates import NO_SECOND_START


def submit_words(order: BatchOrder, output: Path) -> list[str]:
    """Return the submit command and its options; the job script comes behind."""
    words = _WORDS[order.spec.system](order, output)
    if order.spec.system == "htcondor":
        return [*words, *_condor_arguments(order.spec.arguments)]
    return [*words, *order.spec.arguments]


def time_limit(order: BatchOrder) -> str:
    """Write the time limit as the scheduler reads it; empty: there is none."""
    seconds = math.ceil(order.spec.time_limit_s)
    if not seconds:
        return ""
    if order.spec.system in ("sge", "htcondor"):
        return str(seconds)
    hours, rest = divmod(seconds, 3600)
    if order.spec.system == "lsf":
        minutes = math.ceil(seconds / 60)
        return f"{minutes // 60}:{minutes % 60:02d}"
    return f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"


def _slurm(order: BatchOrder, output: Path) -> list[str]:
    # A per cent sign begins one of Slurm's own fields.
    words = ["sbatch", f"--output={str(output).replace('%', '%%')}", "--open-mode=append"]
    words += _name(order, "--job-name=")
    if order.slots and not order.spec.template:
        words.append(f"--cpus-per-task={order.slots}")
    return words + _given(order, "--partition=", "--account=", "--time=")


def _pbs(order: BatchOrder, output: Path) -> list[str]:
    words = ["qsub", "-j", "oe", "-o", str(output), *_name(order, "-N", limit=230)]
    return words + _given(order, "-q", "-A", "-l walltime=")


def _sge(order: BatchOrder, output: Path) -> list[str]:
    words = ["qsub", "-j", "y", "-o", f"{output}.$TASK_ID", *_name(order, "-N")]
    return words + _given(order, "-q", "-A", "-l h_rt=")


def _lsf(order: BatchOrder, output: Path) -> list[str]:
    words = ["bsub", "-oo", str(output), *_name(order, "-J")]
    return words + _given(order, "-q", "-P", "-W")


def _htcondor(order: BatchOrder, output: Path) -> list[str]:
    words = ["condor_submit", *_name(order, "-batch-name")]
    lines = [
        f"output = {output}.$(Process)",
        f"error = {output}.$(Process)",
        f"log = {output}{EVENTS}",
    ]
    if order.spec.account:
        lines.append(f"accounting_group = {order.spec.account}")
    if limit := time_limit(order):
        lines.append(
            f"{NO_SECOND_START} || (JobStatus == 2 && (time() - EnteredCurrentStatus) > {limit})"
        )
    return [*words, *(word for line in lines for word in ("-append", line))]


def _condor_arguments(arguments: Sequence[str]) -> list[str]:
    """Have lines of a submit description, such as `request_gpus = 1`, among the options."""
    words: list[str] = []
    for argument in arguments:
        is_line = "=" in argument and not argument.startswith("-") and words[-1:] != ["-append"]
        words += ["-append", argument] if is_line else [argument]
    return words


_WORDS = {"slurm": _slurm, "pbs": _pbs, "sge": _sge, "lsf": _lsf, "htcondor": _htcondor}


def _name(order: BatchOrder, option: str, limit: int = 0) -> list[str]:
    """Name the job, unless that is left to a template of the user."""
    if order.spec.template and not order.spec.job_name:
        return []
    return _option(option, order.job_name[: limit or None])


def _given(order: BatchOrder, queue: str, account: str, limit: str) -> list[str]:
    words = _option(queue, order.spec.queue) + _option(account, order.spec.account)
    return words + _option(limit, time_limit(order))


def _option(option: str, value: str) -> list[str]:
    """Write `--option=value` as one word, `-o value` as two, `-l name=value` as two."""
    if not value:
        return []
    if option.startswith("--"):
        return [f"{option}{value}"]
    name, _, key = option.partition(" ")
    return [name, f"{key}{value}"]
