"""What the cells behind `%dist_checkpoint` and its like call on each rank."""

import functools
from collections.abc import Callable
from typing import Any

import msgspec
from IPython.core.getipython import get_ipython

from jupyter_dist.checkpoint.listing import list_checkpoints
from jupyter_dist.errors import CheckpointError, DistError
from jupyter_dist.model.checkpoint_report import REPORT_MIME, RankRestored, RankSaved
from jupyter_dist.model.checkpoint_request import (
    LookRequest,
    RestoreRequest,
    SaveRequest,
    WaitRequest,
)
from jupyter_dist.model.checkpoint_table import RankFound


def _without_our_cell(run: Callable[[str], None]) -> Callable[[str], None]:
    """Let errors that are meant for people show as one line: the person has typed no code."""

    @functools.wraps(run)
    def command(text: str) -> None:
        try:
            run(text)
        except DistError as error:
            line = f"{type(error).__name__}: {error}"
            vars(error)["_render_traceback_"] = lambda: [line]
            raise

    return command


@_without_our_cell
def save(text: str) -> None:
    """Save variables as a SaveRequest in JSON says, and tell what came of it."""
    request = msgspec.json.decode(text, type=SaveRequest)
    checkpoint = _checkpoint()
    names = list(request.names)
    if not names and not request.is_everything:
        names = list(checkpoint.marked)
        if not names:
            raise CheckpointError(
                "no variable is named, and none is marked: nothing was saved. Name some "
                "(%dist_checkpoint NAME weights step), mark them in a cell "
                "(checkpoint.mark('weights', 'step')), or give --all."
            )
    report = checkpoint.save_variables(
        request.directory,
        names=names or None,
        keep_last=request.keep_last,
        wait=not request.is_background,
        cache=request.cache or None,
    )
    _tell(msgspec.convert({"directory": request.directory, **report}, RankSaved))


@_without_our_cell
def restore(text: str) -> None:
    """Restore variables as a RestoreRequest in JSON says, and tell what came of it."""
    request = msgspec.json.decode(text, type=RestoreRequest)
    checkpoint = _checkpoint()
    report = checkpoint.restore_variables(
        request.directory,
        names=list(request.names) or None,
        step=request.step,
        objects=request.with_objects,
        cache=request.cache or None,
    )
    _tell(msgspec.convert(report, RankRestored))


@_without_our_cell
def look(text: str) -> None:
    """Tell which checkpoints this rank sees in a directory, or where it has saved last."""
    directory = msgspec.json.decode(text, type=LookRequest).directory
    last = _checkpoint().last_variables
    seen, problems = list_checkpoints(directory) if directory else ((), ())
    _tell(RankFound(directory=directory, last=last, seen=seen, problems=problems), "")


@_without_our_cell
def wait(text: str) -> None:
    """Wait until what is saved behind cells is saved; raises CheckpointFailed when it is not."""
    msgspec.json.decode(text, type=WaitRequest)
    _checkpoint().wait()


def _checkpoint() -> Any:
    """Give the rank's `checkpoint`, whatever the user has put under that name."""
    shell: Any = get_ipython()
    return shell.own_names["checkpoint"]


def _tell(report: msgspec.Struct, shown: str | None = None) -> None:
    """Display a report; what is shown of it is its text unless something else is said."""
    text = str(report) if shown is None else shown
    shell: Any = get_ipython()
    shell.display_pub.publish({REPORT_MIME: msgspec.to_builtins(report), "text/plain": text})
