"""The line in which a process says why it ends itself; it is the evidence for that. Pure."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

_PREFIX = "jupyter-dist: this process ends: "
_LONGEST = 300


class EndCause(StrEnum):
    """Why a process ends itself."""

    EXIT_CALLED = "os._exit"
    """Python's os._exit was called; with the place of the call."""
    OWN_ERROR = "own error"
    """Code of jupyter-dist has failed; with the error, after its traceback."""
    OUT_OF_REACH = "out of reach"
    """Its coordinator could not be heard; with the seconds."""


class EndMark(NamedTuple):
    """What a process has said last."""

    cause: EndCause
    detail: str


def write_end_mark(mark: EndMark) -> str:
    """Return the line, with line ends around it."""
    detail = " ".join(mark.detail.split())[:_LONGEST]
    return f"\n{_PREFIX}{mark.cause}: {detail}\n"


def read_end_mark(text: str) -> EndMark | None:
    """Return the last mark in a text, if there is one."""
    for line in reversed(text.splitlines()):
        cause, is_mark, detail = line.removeprefix(_PREFIX).partition(": ")
        if line.startswith(_PREFIX) and is_mark and cause in set(EndCause):
            return EndMark(EndCause(cause), detail)
    return None


def without_end_marks(lines: Sequence[str]) -> list[str]:
    """Leave the marks out, each with the empty line before it; lines may have their ends."""
    kept: list[str] = []
    for line in lines:
        if not line.startswith(_PREFIX):
            kept.append(line)
        elif kept and not kept[-1].strip():
            kept.pop()
    return kept
