"""`checkpoint` in the namespace of a rank: saves and restores together with all other ranks."""

import math
import os
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jupyter_dist.engine.checkpoints.background_work import CheckpointWork
from jupyter_dist.engine.leaving.preemption_handler import F, NoticeDuties, PreemptionHandler
from jupyter_dist.errors import CheckpointFailed, UsageError

if TYPE_CHECKING:
    from jupyter_dist.checkpoint.save.save_handle import Saving
    from jupyter_dist.checkpoint.save.saving import Saved, SaveOptions
    from jupyter_dist.checkpoint.storage.directory import Found
    from jupyter_dist.checkpoint.values.arrays import Shard
    from jupyter_dist.checkpoint.values.copy_memory import CopyMemory
    from jupyter_dist.checkpoint.values.variables import Chosen

Path = str | os.PathLike[str]


class Checkpoint:
    """Saves what ranks have, and gives it back to as many ranks as there are then.

    save, restore       a tree of arrays, numbers, text and other objects
    save_variables, restore_variables
                        variables of this namespace; `mark` says which are meant
    latest              the newest checkpoint of a directory
    Shard               this rank's block of an array that lies over all ranks
    should_save, on_preempt, notice
                        what to do before a host is taken away

    All ranks call save and restore together.
    """

    def __init__(self, work: CheckpointWork, preemption: PreemptionHandler) -> None:
        self._work = work
        self._preemption = preemption
        self._marks: dict[str, int | None] = {}
        self._last_variables = ""

    def __repr__(self) -> str:
        return (
            "<checkpoint: save, restore, latest, save_variables, restore_variables, mark, Shard, "
            "should_save, on_preempt, notice>"
        )

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    @property
    def Shard(self) -> "type[Shard]":  # noqa: N802  (a class, which users call as such)
        """This rank's block of an array that lies over all ranks."""
        from jupyter_dist.checkpoint.values.arrays import Shard

        return Shard

    # --- trees -------------------------------------------------------------------------------

    def save(  # noqa: PLR0913  (what users may say, all but two by name)
        self,
        directory: Path,
        tree: Any,
        step: int | None = None,
        *,
        keep_last: int | None = None,
        wait: bool = True,
        timeout_s: float | None = None,
        cache: Path | None = None,
    ) -> "Saved | Saving":
        """Save a tree of all ranks as one checkpoint in `directory`; all ranks call it.

        The tree may have dicts, lists, tuples; arrays of numpy, CuPy, torch and JAX (global ones
        by shard); numbers and text; objects with state_dict(); other objects, which are pickled.
        What is the same on all ranks is stored once, everything else for each rank; a
        checkpoint.Shard is this rank's block of an array over all ranks.

        `step` is its number; None: one more than the newest. `keep_last` removes all but so many
        of the newest. `timeout_s` is how long to wait for other ranks at each step. In `cache`, a
        directory on a local disk, this rank's files are kept, too, for fast restarts.

        Gives path, step, nbytes (of all ranks) and seconds. With wait=False it gives a Saving as
        soon as everything is copied, and saves while cells go on; its wait() gives the same.

        Raises UsageError for what cannot be saved and CheckpointFailed when it was not, on all
        ranks; then nothing has changed in the directory.
        """
        from jupyter_dist.checkpoint.save.contents import take

        wish = self._wish(directory, step, keep_last, timeout_s)
        begin = self._work.save if wait else self._work.save_behind
        contents = partial(take, tree, self._copy_memory(wait=wait))
        return begin(wish, contents, self._work.timeout_s(timeout_s), _check_cache(cache))

    def restore(
        self,
        directory: Path,
        step: int | None = None,
        *,
        like: Any = None,
        objects: bool = False,
        cache: Path | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Return the tree of a checkpoint in `directory` back; all ranks call it.

        `step` None: the newest that is whole. There may be another number of ranks than when it
        was saved: arrays that lay over all ranks are cut again, and what each rank had for itself
        goes to the rank of that number. `like`, a tree of arrays, Shards or jax.ShapeDtypeStruct,
        says how restored arrays shall lie; objects in it with load_state_dict() take their state.

        Pickled objects come as checkpoint's NotLoaded unless `objects` is True: to load them runs
        code that the checkpoint names, so do that with files you trust only.

        Raises CheckpointNotFound, CheckpointDamaged, CheckpointTooNew or CheckpointFailed on all
        ranks when something is wrong on one.
        """
        from jupyter_dist.checkpoint.restore.restoring import RestoreOptions, restore
        from jupyter_dist.checkpoint.save.saving import check_options
        from jupyter_dist.checkpoint.storage.save_target import check_directory

        check_options(step, None, timeout_s)
        timeout_s = self._work.timeout_s(timeout_s)
        asked = RestoreOptions(step, like, objects, _check_cache(cache), timeout_s)
        restored = restore(self._work.rank_group(timeout_s), check_directory(directory), asked)
        for note in restored.notes:
            sys.stderr.write(f"checkpoint: {note}\n")
        return restored.tree

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until what was begun with wait=False is saved.

        Raises CheckpointFailed when it is not, unless that was told before, and CheckpointError
        after `timeout_s`. A cluster that is stopped loses what is still being saved.
        """
        from jupyter_dist.checkpoint.save.saving import check_options

        check_options(None, None, timeout_s)
        self._work.background.join(math.inf if timeout_s is None else timeout_s)
        if problem := self._work.background.take_failure():
            raise CheckpointFailed(problem)

    def latest(self, directory: Path) -> "Found | None":
        """Find the newest checkpoint that this rank sees in `directory`, with step and path."""
        from jupyter_dist.checkpoint.storage.directory import latest
        from jupyter_dist.checkpoint.storage.save_target import check_directory

        return latest(os.path.expanduser(check_directory(directory)))

    # --- variables ---------------------------------------------------------------------------

    def mark(self, *names: str, axis: int | None = None) -> None:
        """Say which variables `%dist_checkpoint` and a preemption save.

        With `axis` each of them is this rank's block of an array that lies over all ranks along
        that axis. Mark them on all ranks.
        """
        from jupyter_dist.checkpoint.values.variables import check_names

        listed = check_names(names) or []
        if not (axis is None or type(axis) is int):
            raise UsageError(f"axis={axis!r}. Accepted: a whole number, or None.")
        self._marks.update(dict.fromkeys(listed, axis))
        self._preemption.tell_interest()

    @property
    def marked(self) -> Mapping[str, int | None]:
        """The marked variables, each with its axis."""
        return MappingProxyType(self._marks)

    @property
    def last_variables(self) -> str:
        """The directory of the last variables that this rank saved or restored; empty: none."""
        return self._last_variables

    def save_variables(  # noqa: PLR0913  (what users may say, all but two by name)
        self,
        directory: Path,
        names: Iterable[str] | None = None,
        step: int | None = None,
        *,
        keep_last: int | None = None,
        wait: bool = True,
        timeout_s: float | None = None,
        cache: Path | None = None,
    ) -> dict[str, Any]:
        """Save variables as a checkpoint; see `save` for what may be in them.

        Without `names` all that can be saved. Gives path, step, nbytes, seconds, the names that
        are saved, and those left_out with the reason.
        """
        from jupyter_dist.checkpoint.save.contents import Contents
        from jupyter_dist.checkpoint.save.saving import Saved
        from jupyter_dist.checkpoint.values.variables import check_names, choose_variables

        listed = check_names(names)
        marks = {
            name: axis for name, axis in self._marks.items() if listed is None or name in listed
        }
        wish = self._wish(directory, step, keep_last, timeout_s, marks)
        chosen: list[Chosen] = []

        def contents() -> Contents:
            chosen.append(choose_variables(self._work.variables, listed, marks))
            return Contents(chosen[0].taken, self._copy_memory(wait=wait))

        begin = self._work.save if wait else self._work.save_behind
        timeout_s, kept = self._work.timeout_s(timeout_s), _check_cache(cache)
        saved = begin(wish, contents, timeout_s, kept, partial(self._remember, wish.directory))
        told: dict[str, Any] = (
            saved._asdict()
            if isinstance(saved, Saved)
            else {"path": "", "step": saved.step, "nbytes": saved.total_bytes, "seconds": 0.0}
        )
        return {**told, "saved": list(chosen[0].saved), "left_out": chosen[0].left_out}

    def restore_variables(
        self,
        directory: Path,
        names: Iterable[str] | None = None,
        step: int | None = None,
        *,
        objects: bool = False,
        cache: Path | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Return variables the values they had when they were saved; see `restore`.

        Without `names` all of the checkpoint. Nothing changes unless all of it is verified on all
        ranks; if then an object refuses its state (load_state_dict raises), no variable changes,
        but objects that have taken theirs by then keep it. Gives path, step, nbytes, seconds, the
        names that are restored, those not_restored with the reason, and notes.
        """
        from jupyter_dist.checkpoint.restore.restoring import RestoreOptions
        from jupyter_dist.checkpoint.restore.restoring_variables import restore_variables
        from jupyter_dist.checkpoint.save.saving import check_options
        from jupyter_dist.checkpoint.storage.save_target import check_directory
        from jupyter_dist.checkpoint.values.variables import check_names

        check_options(step, None, timeout_s)
        timeout_s = self._work.timeout_s(timeout_s)
        asked = RestoreOptions(step, None, objects, _check_cache(cache), timeout_s)
        where, listed = check_directory(directory), check_names(names)
        rank_group = self._work.rank_group(timeout_s)
        report = restore_variables(rank_group, self._work.namespace, where, listed, asked)
        self._remember(where)
        return report

    # --- before a host is taken away ---------------------------------------------------------

    def should_save(self, step: int | None = None) -> bool:
        """Return whether all ranks save at this call, because a host will be taken away.

        Call it in every round of a loop, on all ranks. It is True once for each notice: at the
        same call on every rank, counted within the cell, or at the same `step` where you give
        one, a number that never gets smaller. What you save then the cluster waits for, until
        you call it again or the cell ends, as long as there is time.
        """
        return self._preemption.should_save(step)

    def on_preempt(self, function: F) -> F:
        """Have a function called, without arguments, before a host is taken away.

        It is called on this rank where should_save() gives True, or when the running cell has
        ended. One that is defined again, under the same name, takes the place of the former one.
        Gives the function back, so that it may stand as `@checkpoint.on_preempt`.
        """
        return self._preemption.on_preempt(function)

    @property
    def notice(self) -> str | None:
        """Who will be taken away, and why; None: nobody, or all ranks have handled that."""
        return self._preemption.notice

    # --- within ------------------------------------------------------------------------------

    def _copy_memory(self, *, wait: bool) -> "CopyMemory | None":
        return None if wait else self._work.copy_memory

    def _wish(
        self,
        directory: Path,
        step: int | None,
        keep_last: int | None,
        timeout_s: float | None,
        marks: Mapping[str, int | None] | None = None,
    ) -> "SaveOptions":
        from jupyter_dist.checkpoint.save.saving import SaveOptions, check_options
        from jupyter_dist.checkpoint.storage.save_target import check_directory

        check_options(step, keep_last, timeout_s)
        return SaveOptions(
            directory=check_directory(directory),
            kind="tree" if marks is None else "variables",
            step=step,
            keep_last=keep_last,
            marks=marks or {},
        )

    def _remember(self, directory: str) -> None:
        self._last_variables = os.path.abspath(os.path.expanduser(directory))


class RankDuties(NoticeDuties):
    """Saves what is marked into `directory`; an empty one: there is none."""

    def __init__(self, work: CheckpointWork, checkpoint: Checkpoint, directory: str) -> None:
        self._work, self._checkpoint, self._directory = work, checkpoint, directory

    @property
    def is_saving(self) -> bool:
        """Something is still being saved in the background."""
        return self._work.background.is_saving

    @property
    def can_save(self) -> bool:
        """There is a directory for what is marked."""
        return bool(self._directory)

    @property
    def has_marks(self) -> bool:
        """Something is marked."""
        return bool(self._checkpoint.marked)

    def save_marked(self) -> None:
        """Save what is marked, together with all ranks. Raise what that raises."""
        self._checkpoint.save_variables(self._directory, tuple(self._checkpoint.marked))


def _check_cache(cache: Path | None) -> str | None:
    from jupyter_dist.checkpoint.storage.save_target import check_directory

    return None if cache is None else os.path.expanduser(check_directory(cache))
