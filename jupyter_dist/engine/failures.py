"""What a rank answers when its own code has failed, and not the user's."""

import os
import traceback
from typing import assert_never

from jupyter_dist.engine.link import ForMain
from jupyter_dist.model.user_errors import name_error
from jupyter_dist.protocol.messages import (
    CellResult,
    ErrorInfo,
    FetchObject,
    Leave,
    Message,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    Regroup,
    RunCell,
    StoreObjects,
    Welcome,
)


def answer_failure(
    message: ForMain, error: BaseException, rank: int, offsets: tuple[int, int]
) -> Message | None:
    """Return what ends the work that a message asked for; None where the rank has to end.

    Its traceback goes to stderr.
    """
    info = internal_error(error)
    told = info.evalue
    match message:
        case Leave():
            return None
        case RunCell():
            return CellResult(rank, message.cell_id, "raised", 0.0, error=info, offsets=offsets)
        case FetchObject():
            return ObjectFetched(rank, message.request_id, told)
        case StoreObjects():
            return ObjectsStored(rank, message.request_id, told)
        case Regroup() | Welcome():
            return NotReady(rank, message.generation, told)
        case _:
            assert_never(message)


def internal_error(error: BaseException) -> ErrorInfo:
    """Return what is told of an error of this package, whose traceback goes to stderr as well."""
    try:
        trace = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001  (a user's __str__ may raise anything)
        trace = f"{name_error(error)}\n"
    os.write(2, trace.encode("utf-8", "backslashreplace"))
    told = f"jupyter-dist itself failed on this rank: {name_error(error)}"
    return ErrorInfo("InternalError", told, (trace, told))
