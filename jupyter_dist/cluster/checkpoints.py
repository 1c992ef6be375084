"""Variables of all ranks, saved and restored by commands: bars, ■ and errors are those of cells.

In any cell `checkpoint.save` and `checkpoint.restore` do the same for any tree of arrays.
"""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jupyter_dist.checkpoint.commands import LOOK, RESTORE, SAVE, WAIT
from jupyter_dist.checkpoint.report import (
    CheckpointRestored,
    CheckpointSaved,
    merge_restored,
    merge_saved,
)
from jupyter_dist.checkpoint.storage.listing import list_checkpoints
from jupyter_dist.checkpoint.table import CheckpointTable, RankFound, tabulate_checkpoints
from jupyter_dist.cluster.result import SpmdResult, read_reports
from jupyter_dist.cluster.spec.checks import whole_path
from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.options.checkpoint_request import (
    DEFAULT_DIRECTORY,
    LookRequest,
    RestoreRequest,
    SaveRequest,
    WaitRequest,
    check_checkpoint_name,
    check_keep_last,
    check_step,
    check_variables,
)
from jupyter_dist.options.start_options import StrPath
from jupyter_dist.protocol.messages import Command

if TYPE_CHECKING:
    from jupyter_dist.cluster.session import Session

Names = str | Iterable[str]
"""Names of variables: `"weights step"`, or any iterable of them."""
_GONE = ("lost", "left")


def checkpoint(  # noqa: PLR0913  (each is an option of %dist_checkpoint)
    session: "Session",
    name: str,
    variables: Names = (),
    *,
    directory: StrPath | None = None,
    everything: bool = False,
    keep_last: int | None = None,
    wait: bool = True,
    cache: StrPath | None = None,
) -> CheckpointSaved:
    """Save variables of all ranks as the next step of this name; see `%dist_checkpoint`.

    Without `variables` those that cells have marked (`checkpoint.mark`), or `everything` that
    can be saved. It goes into `directory` (None: `checkpoints` here), as the hosts see it. With
    `keep_last` older steps are removed; without `wait` only copies are made now, and ranks
    write them while cells go on; `cache` is a directory on a disk of each host.
    Raises UsageError, and CellFailed when it failed: then the checkpoints before are as they
    were.
    """
    command = saving(
        name,
        variables,
        directory=directory,
        everything=everything,
        keep_last=keep_last,
        wait=wait,
        cache=cache,
    )
    result = session.run_command(command)
    result.raise_first()
    if not wait:
        session.is_saving_behind = True
    return merge_saved(read_reports(SAVE, result))


def restore(  # noqa: PLR0913  (each is an option of %dist_restore)
    session: "Session",
    name: str | None = None,
    variables: Names = (),
    *,
    directory: StrPath | None = None,
    step: int | None = None,
    objects: bool = False,
    cache: StrPath | None = None,
) -> CheckpointRestored:
    """Restore variables of all ranks, from any number of ranks; see `%dist_restore`.

    Of this name in `directory` (None: `checkpoints` here) the newest step, or `step`; without
    a name `directory` itself is what has the steps, as `save_on_preempt` of a start makes it.
    Objects that only pickle can read are loaded with `objects`: they may run any code.
    Raises UsageError, and CellFailed when it failed: then all variables are as they were.
    """
    command = restoring(
        name, variables, directory=directory, step=step, objects=objects, cache=cache
    )
    result = session.run_command(command)
    result.raise_first()
    return read_restored(result)


def checkpoints(session: "Session", directory: StrPath | None = None) -> CheckpointTable:
    """List what hosts see in a directory (None: `checkpoints` here), once ranks are idle."""
    return look(session, _place(directory, ""))


def saving(  # noqa: PLR0913  (each is an option of %dist_checkpoint)
    name: str,
    variables: Names = (),
    *,
    directory: StrPath | None = None,
    everything: bool = False,
    keep_last: int | None = None,
    wait: bool = True,
    cache: StrPath | None = None,
) -> Command:
    """Return the command that saves what is asked for; raises UsageError."""
    names = _read_names(variables)
    if everything and names:
        raise UsageError(
            f"all variables are asked for, and {', '.join(names)} by name. Leave one of both out."
        )
    request = SaveRequest(
        directory=_place(directory, check_checkpoint_name(name)),
        names=names,
        is_everything=everything,
        keep_last=check_keep_last(keep_last),
        is_background=not wait,
        cache=whole_path(cache or ""),
    )
    return SAVE.order(request, f"%dist_checkpoint, into {request.directory}")


def restoring(
    name: str | None,
    variables: Names = (),
    *,
    directory: StrPath | None = None,
    step: int | None = None,
    objects: bool = False,
    cache: StrPath | None = None,
) -> Command:
    """Return the command that restores what is asked for; raises UsageError."""
    if name is None and not directory:
        raise UsageError(
            "say what to restore: the name of a checkpoint, or the directory that has its steps "
            "(--dir PATH). %dist_checkpoints lists what is there."
        )
    request = RestoreRequest(
        directory=_place(directory, "" if name is None else check_checkpoint_name(name)),
        names=_read_names(variables),
        step=check_step(step),
        with_objects=objects,
        cache=whole_path(cache or ""),
    )
    return RESTORE.order(request, f"%dist_restore --dir {request.directory}")


def resuming(session: "Session", directory: StrPath = "", label: int = 1) -> Command:
    """Return what restores the newest checkpoint of a directory (empty: where was saved last).

    Raise UsageError when nothing was saved.
    """
    place = directory or find_last(session, label)
    if not place:
        raise UsageError(
            "no rank of this cluster has saved variables, so there is nothing to resume. Name the "
            "directory that has the steps: --resume DIR."
        )
    return restoring(None, (), directory=place)


def list_here(directory: StrPath | None = None) -> CheckpointTable:
    """List what this machine sees in a directory (None: `checkpoints` here), without a cluster."""
    place = _place(directory, "")
    seen, problems = list_checkpoints(place)
    return tabulate_checkpoints(place, {"": RankFound(place, "", seen, problems)})


def finish_saving(session: "Session") -> str:
    """Wait until ranks have saved what they save behind cells; give why that was lost, if it was.

    KeyboardInterrupt ends the waiting.
    """
    if not session.is_saving_behind:
        return ""
    session.is_saving_behind = False
    try:
        result = session.run_command(WAIT.order(WaitRequest(), "wait for checkpoints"))
        result.raise_first()
    except DistError as error:
        return f"what was being saved behind cells may not be there: {error}"
    return next((rank.stderr.strip() for rank in result if rank.stderr), "")


def read_restored(result: SpmdResult) -> CheckpointRestored:
    """Return what all ranks have restored as one report. Raise DistError when one is missing."""
    return merge_restored(read_reports(RESTORE, result))


def look(session: "Session", directory: str = "", label: int = 1) -> CheckpointTable:
    """List what each host that lives sees in a directory; empty: where was saved last.

    The list has no directory when nothing was saved; `label` as in `run`. Raises CellFailed, and
    DistError when no rank lives.
    """
    place = directory or find_last(session, label)
    if not place:
        return tabulate_checkpoints("", {})
    living = _find_living(session)
    # One of a host sees what the others see, and a directory may have many manifests to read.
    asked = sorted({host: rank for rank, host in sorted(living.items(), reverse=True)}.values())
    told = _ask_ranks(session, place, asked, label)
    return tabulate_checkpoints(place, {living[rank]: each for rank, each in told.items()})


def find_last(session: "Session", label: int = 1) -> str:
    """Return the directory where variables were saved or restored last; empty: nowhere.

    Raises CellFailed, and DistError when no rank lives.
    """
    # Those know that did it: others are new on their host.
    told = _ask_ranks(session, "", sorted(_find_living(session)), label)
    return next((each.last for each in told.values() if each.last), "")


def _find_living(session: "Session") -> dict[int, str]:
    """Return the ranks that live, each with its host; raises DistError when none does."""
    living = {
        engine.rank: host.name
        for host in session.topology().hosts
        for engine in host.engines
        if engine.state not in _GONE
    }
    if not living:
        raise DistError("no rank lives that could look. Start a cluster again, or %dist_heal.")
    return living


def _ask_ranks(
    session: "Session", directory: str, ranks: Sequence[int], label: int
) -> dict[int, RankFound]:
    order = LOOK.order(LookRequest(directory), f"%dist_checkpoints --dir {directory}")
    result = session.run_command(order, ranks, label=label)
    result.raise_first()
    return read_reports(LOOK, result)


def _read_names(variables: Names) -> tuple[str, ...]:
    names: Sequence[str]
    names = variables.replace(",", " ").split() if isinstance(variables, str) else [*variables]
    return check_variables(names)


def _place(directory: StrPath | None, name: str) -> str:
    whole = whole_path(directory or DEFAULT_DIRECTORY)
    return os.path.join(whole, name) if name else whole
