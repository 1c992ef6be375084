"""Behind `checkpoint` on a rank: the way to the others, and what is saved while cells go on."""

import platform
import sys
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.interactiveshell import ExecutionInfo

from jupyter_dist.checkpoint.save.background import Background, Errand
from jupyter_dist.engine.checkpoints.rank_group import EngineRankGroup, Seat
from jupyter_dist.engine.collectives.background_collectives import BackgroundCollectives
from jupyter_dist.engine.collectives.control_collectives import ControlCollectives
from jupyter_dist.engine.execution.namespace import Namespace
from jupyter_dist.engine.output.bar_collector import BarCollector

if TYPE_CHECKING:
    from jupyter_dist.checkpoint.save.contents import Contents
    from jupyter_dist.checkpoint.save.save_handle import Saving
    from jupyter_dist.checkpoint.save.saving import Save, Saved, SaveOptions
    from jupyter_dist.checkpoint.storage.save_target import Opening
    from jupyter_dist.checkpoint.values.copy_memory import CopyMemory

T = TypeVar("T")
KEPT_CELLS = 500
KEPT_CELL_CHARACTERS = 1 << 20
_PACKAGES = ("numpy", "jax", "torch", "cupy")
"""Their versions are written down where they are in use."""


class CheckpointWork:
    """Saves, and knows how to reach the other ranks; for the thread that runs user code."""

    def __init__(
        self,
        names: Namespace,
        collectives: ControlCollectives,
        standing: BackgroundCollectives,
        bars: BarCollector,
    ) -> None:
        self._names = names
        self._collectives = collectives
        self._standing = standing
        self._bars = bars
        self._seat: Seat | None = None
        self.background = Background()
        self._cells: deque[tuple[str, str]] = deque()
        """What each cell is called, and its code."""
        self._kept_characters = 0
        names.shell.events.register("pre_run_cell", self._begin_cell)

    @cached_property
    def copy_memory(self) -> "CopyMemory":
        """What is saved in the background is copied into this, and the next time again."""
        from jupyter_dist.checkpoint.values.copy_memory import CopyMemory

        return CopyMemory()

    def enter_generation(self, seat: Seat) -> None:
        """Have this place from now on."""
        self._seat = seat
        self._standing.enter_generation(seat.info.rank, seat.info.world_size)

    def rank_group(self, timeout_s: float) -> EngineRankGroup:
        """Meet all ranks in the running cell; they must do so as well."""
        assert self._seat is not None, "cells run in a generation"
        rank_group = EngineRankGroup(
            self._seat, self._collectives, communicator=self._names.communicator, bars=self._bars
        )
        rank_group.learn_hosts(timeout_s)
        return rank_group

    def timeout_s(self, given: float | None) -> float:
        """Return how long to wait for other ranks: as collectives do, if nobody says."""
        if given is not None:
            return given
        return self._names.communicator.timeout_s

    @property
    def variables(self) -> dict[str, Any]:
        """Those of the user."""
        hidden = self._names.shell.user_ns_hidden
        return {
            name: value
            for name, value in self.namespace.items()
            if not (name.startswith("__") or (name in hidden and hidden[name] is value))
        }

    @property
    def namespace(self) -> dict[str, Any]:
        """Where variables are put: those of the program that runs, else those of cells."""
        found: dict[str, Any] = self._names.shell.user_ns
        return found if self._names.of_program is None else self._names.of_program

    # --- saving ------------------------------------------------------------------------------

    def save(
        self,
        wish: "SaveOptions",
        contents: "Callable[[], Contents]",
        timeout_s: float,
        cache: str | None,
        on_saved: Callable[[], object] = lambda: None,
    ) -> "Saved":
        """Save, and be back when it is committed."""
        save, rank_group = self._prepare(wish, timeout_s, cache)
        self.copy_memory.give_back()
        with save.cleaning_up():  # an interrupt may come between these two
            save.open(contents, self._describe)
            label = f"saving step {save.opening.step}"
            saved = save.complete(lambda total: rank_group.progress(label, total))
        on_saved()
        return saved

    def save_behind(
        self,
        wish: "SaveOptions",
        contents: "Callable[[], Contents]",
        timeout_s: float,
        cache: str | None,
        on_saved: Callable[[], object] = lambda: None,
    ) -> "Saving":
        """Agree on what is saved, and leave the rest to a thread."""
        from jupyter_dist.checkpoint.save.save_handle import Saving

        save, rank_group = self._prepare(wish, timeout_s, cache)
        seat = self._seat
        assert seat is not None
        info, errand = seat.info, Errand()

        def go_on(work: Callable[[], T]) -> T:
            with self._standing.open(seat.generation, info.rank, info.world_size) as collectives:
                save.use(EngineRankGroup(seat, collectives, rank_group.hosts))
                return work()

        def finish() -> "Saved":
            saved = go_on(lambda: save.complete(saving.begin))
            on_saved()
            return saved

        try:
            save.open(contents, self._describe)
            saving = Saving(save.opening.step)
            self.background.start(saving, finish, errand)
        except BaseException as error:
            # Others may have agreed with this rank already, and would wait for it.
            errand.do(partial(go_on, partial(save.give_up, error)))
            raise
        return saving

    def _prepare(
        self, wish: "SaveOptions", timeout_s: float, cache: str | None
    ) -> "tuple[Save, EngineRankGroup]":
        from jupyter_dist.checkpoint.save.saving import Save

        self.background.join(timeout_s)
        self.tell_news()
        rank_group = self.rank_group(timeout_s)
        return Save(rank_group, wish, timeout_s, cache), rank_group

    def _describe(self, checkpoint_id: str, step: int, staging: str) -> "Opening":
        from jupyter_dist.checkpoint.format.manifest import CellSource
        from jupyter_dist.checkpoint.storage.save_target import Opening

        return Opening(
            id=checkpoint_id,
            step=step,
            staging=staging,
            saved_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            versions=_find_versions(),
            cells=tuple(CellSource(*cell) for cell in self._cells),
        )

    # --- beside cells ------------------------------------------------------------------------

    def _begin_cell(self, cell: ExecutionInfo) -> None:
        """Remember the cell, and say in its output what has gone wrong behind earlier ones."""
        code = (cell.raw_cell or "").encode(errors="replace").decode()
        self._cells.append((f"In[{self._names.shell.execution_count}]", code))
        self._kept_characters += len(code)
        while len(self._cells) > KEPT_CELLS or self._kept_characters > KEPT_CELL_CHARACTERS:
            _, dropped = self._cells.popleft()
            self._kept_characters -= len(dropped)
        self.tell_news()

    def tell_news(self) -> None:
        """Say in the output of what runs what has gone wrong in the background."""
        if news := self.background.take_news():
            sys.stderr.write(f"checkpoint: {news}\n")


def _find_versions() -> dict[str, str]:
    import importlib.metadata

    versions = {"python": platform.python_version()}
    for name in ("jupyter-dist", *(name for name in _PACKAGES if name in sys.modules)):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = str(getattr(sys.modules.get(name), "__version__", ""))
    return versions
