"""What a rank answers to an order that it could not read, or has failed at by its own fault."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from jupyter_dist.engine.leaving.exit_reason import format_error
from jupyter_dist.model.ranks.user_errors import name_error
from jupyter_dist.protocol.messages import (
    Answered,
    CellResult,
    ControllerJoined,
    ControllerLeft,
    ErrorInfo,
    Message,
    NoAnswer,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    ToCoordinator,
)
from jupyter_dist.protocol.unreadable import Unreadable

_ANSWERS: dict[str, Callable[[int, str, str], ToCoordinator]] = {
    "StoreObjects": ObjectsStored,
    "FetchObject": ObjectFetched,
    "Question": lambda rank, request_id, why: Answered(rank, request_id, NoAnswer(why)),
    "JoinController": ControllerJoined,
    "LeaveController": ControllerLeft,
}
"""To orders with a request_id, by the name of their class."""


def answer_failure(
    message: Message, error: BaseException, rank: int, offsets: tuple[int, int]
) -> ToCoordinator | None:
    """Return what ends the work that a message asked for; None where the rank has to end.

    Its traceback goes to stderr.
    """
    read = partial(getattr, message)
    return _answer(type(message).__name__, read, rank, internal_error(error), offsets)


def refuse(order: Unreadable, rank: int) -> ToCoordinator | None:
    """Return the answer to a message that could not be decoded; None if it needs no answer."""
    parts, problem = order.parts, f"the rank could not read its order: {order}"
    error = ErrorInfo("WireError", problem, (f"WireError: {problem}",))
    return _answer(
        parts.kind, lambda name, usual: parts.read(name, type(usual), usual), rank, error
    )


def _answer(
    kind: str,
    read: Callable[[str, Any], Any],
    rank: int,
    error: ErrorInfo,
    offsets: tuple[int, int] = (0, 0),
) -> ToCoordinator | None:
    """Return the error answer to a message of this kind.

    `read` returns a field of the message, or the given default where it has none.
    """
    if kind == "RunCell":
        cell_id = read("cell_id", "")
        return CellResult(rank, cell_id, "raised", 0.0, error=error, offsets=offsets)
    if kind in ("Welcome", "Regroup"):
        return NotReady(rank, read("generation", -1), error.evalue)
    answer = _ANSWERS.get(kind)
    return answer(rank, read("request_id", ""), error.evalue) if answer is not None else None


def internal_error(error: BaseException) -> ErrorInfo:
    """Return what is told of an error of this package, whose traceback goes to stderr as well."""
    trace = format_error(error)
    os.write(2, trace.encode("utf-8", "backslashreplace"))
    told = f"jupyter-dist itself failed on this rank: {name_error(error)}"
    return ErrorInfo("InternalError", told, (trace, told))
