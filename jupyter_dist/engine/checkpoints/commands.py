"""What the commands behind `%dist_checkpoint` and its like do on each rank."""

import msgspec

from jupyter_dist.checkpoint.report import RankRestored, RankSaved
from jupyter_dist.checkpoint.storage.listing import list_checkpoints
from jupyter_dist.checkpoint.table import RankFound
from jupyter_dist.engine.checkpoints.checkpointer import Checkpoint
from jupyter_dist.errors import CheckpointError
from jupyter_dist.options.checkpoint_request import LookRequest, RestoreRequest, SaveRequest


def save(checkpoint: Checkpoint, request: SaveRequest) -> RankSaved:
    """Save variables. Raise CheckpointError where none is named or marked."""
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
    return msgspec.convert({"directory": request.directory, **report}, RankSaved)


def restore(checkpoint: Checkpoint, request: RestoreRequest) -> RankRestored:
    """Restore variables."""
    report = checkpoint.restore_variables(
        request.directory,
        names=list(request.names) or None,
        step=request.step,
        objects=request.with_objects,
        cache=request.cache or None,
    )
    return msgspec.convert(report, RankRestored)


def look(checkpoint: Checkpoint, request: LookRequest) -> RankFound:
    """Return which checkpoints this rank sees in a directory, and where it has saved last."""
    directory = request.directory
    seen, problems = list_checkpoints(directory) if directory else ((), ())
    return RankFound(
        directory=directory, last=checkpoint.last_variables, seen=seen, problems=problems
    )
