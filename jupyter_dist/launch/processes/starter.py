"""What a process that outlives its starter tells it: JSON lines on stdout, until the last one."""

import contextlib
import os
from typing import IO, TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from jupyter_dist.launch.files.connection_file import StartReport

_report_descriptor = 1


def redirect_output(log: IO[bytes]) -> None:
    """Keep stdout for the report, and send whatever else is printed to the log."""
    global _report_descriptor  # noqa: PLW0603  (one process, one report)
    _report_descriptor = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)


def tell_starter(report: "StartReport") -> None:
    """Tell the starter; it may be gone already, which is no reason to end."""
    line = msgspec.json.encode(report) + b"\n"
    with contextlib.suppress(BrokenPipeError):
        while line:
            line = line[os.write(_report_descriptor, line) :]
    if not report.stage:
        os.close(_report_descriptor)
