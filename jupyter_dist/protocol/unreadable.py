"""What becomes of messages that cannot be decoded: read in part, told, and written to the log.

Nothing that someone waits for is dropped: what stands in for such a message has all of its parts
that can be read, and says what is missing.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar, get_args

import msgspec

from jupyter_dist.errors import ErrorCode, MalformedMessage, WireError
from jupyter_dist.protocol.messages import (
    Answered,
    CellEvent,
    CellEvents,
    CellNote,
    CellOutput,
    CellResult,
    ControllerJoined,
    ControllerLeft,
    ErrorInfo,
    NoAnswer,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    Output,
    RankFinished,
    RankOutput,
    Refused,
    ToClient,
    ToCoordinator,
    WithdrawCollective,
)

Part = TypeVar("Part")
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises, whatever the bytes are."""
LOGGED_BYTES = 1000
LOGGED_MESSAGES = 100
"""So many of one process are logged; a peer that goes mad must not fill a disk."""
STATUSES = ("ok", "raised", "interrupted", "peer_failed", "timed_out", "unresponsive", "lost")
_NOT_READ = "MalformedMessage"
_READ_PARTS = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_READ_LIST = msgspec.msgpack.Decoder(list[msgspec.Raw])
_logged = count()


class Unreadable(MalformedMessage):
    """The body of a message does not decode; it has what can be read of it."""

    def __init__(self, body: bytes, problem: str) -> None:
        super().__init__(problem)
        self.body = body
        self.parts = Parts(body)

    @property
    def request_id(self) -> str:
        """The request that it is, or answers; empty where that cannot be read."""
        return self.parts.read("request_id", str, "")


class Parts:
    """The fields of a message whose body is at least a map; none of other bytes."""

    def __init__(self, body: bytes | msgspec.Raw) -> None:
        try:
            self._fields = _READ_PARTS.decode(body)
        except UNDECODABLE:
            self._fields = {}

    @property
    def kind(self) -> str:
        """Name of the message's class, or empty."""
        return self.read("type", str, "")

    def read(self, name: str, kind: Any, default: Part) -> Part:
        """Return a field; `default` where it is missing or not of this kind."""
        try:
            value: Part = msgspec.msgpack.decode(self._fields[name], type=kind)
        except (KeyError, *UNDECODABLE):
            return default
        return value

    def read_items(self, name: str) -> list[msgspec.Raw]:
        """Return the items of a list, which may be unreadable themselves."""
        try:
            return _READ_LIST.decode(self._fields[name])
        except (KeyError, *UNDECODABLE):
            return []


def kind_of(problem: WireError) -> str:
    """Name the class of a message that could not be read; empty where that is not known."""
    return problem.parts.kind if isinstance(problem, Unreadable) else ""


def log_unreadable(error: Unreadable) -> None:
    """Write a message that cannot be decoded into this process's log, shortened."""
    number = next(_logged)
    if number > LOGGED_MESSAGES:
        return
    body = error.body
    shown = body[:LOGGED_BYTES]
    cut = f" (the first {LOGGED_BYTES})" if len(body) > LOGGED_BYTES else ""
    said = f"{error}. Its {len(body):,} bytes{cut}: {shown!r}"
    if number == LOGGED_MESSAGES:
        said = "further messages that cannot be read are not logged"
    with suppress(Exception):  # on a rank it is what a cell has made of sys.stderr
        sys.stderr.write(f"jupyter-dist: {said}\n")


def read_or(decoder: "msgspec.msgpack.Decoder[Part]", body: bytes, otherwise: Part) -> Part:
    """Read a part of what an agent says; `otherwise` where it is empty, or cannot be read."""
    if not body:
        return otherwise
    try:
        return decoder.decode(body)
    except UNDECODABLE as error:
        log_unreadable(Unreadable(body, f"a part of what an agent says cannot be read: {error}"))
        return otherwise


def read_report(error: Unreadable) -> ToCoordinator | None:
    """Return what stands in for a report of a rank; None where not even its kind can be told."""
    parts = error.parts
    rank: int = parts.read("rank", int, -1)
    make = _REPORTS.get(parts.kind)
    return make(rank, parts, str(error)) if make is not None and rank >= 0 else None


def _cell_output(rank: int, parts: Parts, problem: str) -> ToCoordinator:
    return CellOutput(
        rank,
        parts.read("cell_id", str, ""),
        _outputs(parts, problem),
        parts.read("offsets", tuple[int, int], (0, 0)),
    )


def _cell_result(rank: int, parts: Parts, problem: str) -> ToCoordinator:
    status, error = _ending(parts, problem)
    return CellResult(
        rank=rank,
        cell_id=parts.read("cell_id", str, ""),
        status=status,
        duration_s=parts.read("duration_s", float, 0.0),
        value_repr=parts.read("value_repr", str | None, None),
        error=error,
        outputs=_outputs(parts, problem),
        offsets=parts.read("offsets", tuple[int, int], (0, 0)),
    )


def _ending(parts: Parts, problem: str) -> tuple[str, ErrorInfo | None]:
    """Return how a cell ended; where that cannot be read it has not ended well."""
    status: str = parts.read("status", str, "")
    error: ErrorInfo | None = parts.read("error", ErrorInfo | None, None)
    if status not in STATUSES:
        text = f"how the cell ended on this rank could not be read: {problem}"
        return "raised", ErrorInfo(_NOT_READ, text, (f"{_NOT_READ}: {text}",))
    if status != "ok" and error is None:
        error = ErrorInfo(_NOT_READ, f"what this rank says of its error is lost: {problem}")
    return status, error


def _outputs(parts: Parts, problem: str) -> tuple[Output, ...]:
    """Return the outputs that can be read, and a note in place of each other one."""
    items = parts.read_items("outputs")
    if not items:
        # Either there are none, or the list itself is broken; the second must be told.
        is_whole = parts.read("outputs", list[Output], None) is not None
        return () if is_whole else (_note("what it said here", problem),)
    return tuple(_output(item, problem) for item in items)


def _output(item: msgspec.Raw, problem: str) -> Output:
    try:
        return msgspec.msgpack.decode(item, type=Output)
    except UNDECODABLE:
        kind: str = Parts(item).read("kind", str, "output")
        return _note(f"a {kind} of this rank", problem)


def _note(what: str, problem: str) -> Output:
    return Output("note", f"[{what} could not be read and is left out: {problem}]")


def _answer_to(
    answer: Callable[[int, str, str], ToCoordinator],
) -> Callable[[int, Parts, str], ToCoordinator]:
    """Return what makes an answer to a request that has nothing but a problem."""
    return lambda rank, parts, problem: answer(rank, parts.read("request_id", str, ""), problem)


def _not_ready(rank: int, parts: Parts, problem: str) -> ToCoordinator:
    return NotReady(rank, parts.read("generation", int, -1), problem)


def _withdrawal(rank: int, parts: Parts, problem: str) -> ToCoordinator:
    return WithdrawCollective(
        rank,
        parts.read("cell_id", str, ""),
        parts.read("topic", str, ""),
        parts.read("ranks", tuple[int, ...] | None, ()),
        f"has sent something that could not be read ({problem})",
    )


_REPORTS: dict[str, Callable[[int, Parts, str], ToCoordinator]] = {
    "Hello": _not_ready,
    "Ready": _not_ready,
    "NotReady": _not_ready,
    "CellOutput": _cell_output,
    "CellResult": _cell_result,
    "ObjectsStored": _answer_to(ObjectsStored),
    "ObjectFetched": _answer_to(ObjectFetched),
    "JoinCollective": _withdrawal,
    "Answered": _answer_to(lambda rank, request_id, why: Answered(rank, request_id, NoAnswer(why))),
    "ControllerJoined": _answer_to(ControllerJoined),
    "ControllerLeft": _answer_to(ControllerLeft),
}
_WORDS = {kind.__name__ for kind in get_args(ToClient)}


def read_word(error: Unreadable) -> ToClient | None:
    """Return what stands in for a word of the coordinator; None where it answers nobody."""
    parts, problem = error.parts, str(error)
    if parts.kind == "CellEvents":
        return CellEvents(
            parts.read("cell_id", str, ""),
            tuple(_event(item, problem) for item in parts.read_items("events")),
            parts.read("size_bytes", int, 0),
            parts.read("is_last", bool, False),
            parts.read("request_id", str, ""),
            parts.read("ranks", tuple[int, ...], ()),
        )
    request_id = error.request_id if parts.kind in _WORDS else ""
    return Refused(request_id, ErrorCode.MALFORMED_MESSAGE, problem) if request_id else None


def _event(item: msgspec.Raw, problem: str) -> CellEvent:
    try:
        event: CellEvent = msgspec.msgpack.decode(item, type=CellEvent)
    except UNDECODABLE:
        parts = Parts(item)
        rank: int = parts.read("rank", int, -1)
        if rank >= 0 and parts.kind == "RankFinished":
            status, error = _ending(parts, problem)
            duration_s: float = parts.read("duration_s", float, 0.0)
            value: str | None = parts.read("value_repr", str | None, None)
            return RankFinished(rank, status, duration_s, value, error)
        ranks: tuple[int, ...] = parts.read("ranks", tuple[int, ...], ())
        if ranks and parts.kind == "RankOutput":
            return RankOutput(ranks, _outputs(parts, problem))
        return CellNote(f"something could not be read and is left out: {problem}")
    return event
