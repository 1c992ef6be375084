"""JAX, torch, CuPy and MPI on this rank: each is told of generations, cells and failures.

What goes wrong inside of one of them is told, and never ends the rank: it holds the user's state.
"""

import contextlib
import traceback
from collections.abc import Iterator, Sequence

from jupyter_dist.engine.collectives.rank_context import EngineRankContext
from jupyter_dist.errors import DistError, PeerFailed
from jupyter_dist.frameworks.cupy.framework import CuPy
from jupyter_dist.frameworks.framework import Framework
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.jax.framework import Jax
from jupyter_dist.frameworks.mpi.framework import Mpi
from jupyter_dist.frameworks.torch.framework import Torch
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.initialized import Formed, FrameworkPlan
from jupyter_dist.model.ranks.user_errors import error_text, name_error


class Frameworks:
    """All of them, in the order in which they are formed."""

    def __init__(self, context: EngineRankContext, frameworks: Sequence[Framework]) -> None:
        self.context = context
        """Is told of the beginning and the end of each cell and task."""
        self._all = tuple(frameworks)
        self._by_name = {framework.name: framework for framework in frameworks}
        self.is_forming = False
        """The main thread forms one again, between two cells."""

    # --- generations ---

    def formed(self) -> tuple[Formed, ...]:
        """Return what has been formed with other ranks."""
        found: list[Formed] = []
        for framework in self._all:
            with _noting():
                formed = framework.formed()
                found += [] if formed is None else [formed]
        return tuple(found)

    def enter_generation(
        self, info: RankInfo, generation: int, plans: Sequence[FrameworkPlan]
    ) -> tuple[str, ...]:
        """Be this rank from now on, and form what must be formed again; gives notes for the user.

        What cannot be formed is a note, too: the cluster is as good as ever without it. Raises
        PeerFailed when a rank is lost meanwhile, and with it this generation.
        """
        self.context.info, self.context.generation = info, generation
        notes: list[str] = []
        self.is_forming = True
        try:
            for plan in plans:
                if not plan.is_kept:
                    notes += self._form(plan)
        finally:
            self.is_forming = False
        return tuple(notes)

    def _form(self, plan: FrameworkPlan) -> tuple[str, ...]:
        try:
            return self._by_name[plan.name].form(plan.settings, plan.reason)
        except PeerFailed:
            raise
        except BaseException as error:  # noqa: BLE001  (frameworks, and objects of users)
            if not isinstance(error, DistError | ImportError | OSError):
                traceback.print_exc()
            why = error_text(error) or name_error(error)
            return (f"{plan.name} could not be formed again: {why}",)

    # --- cells ---

    def prepare_cell(self, code: str) -> None:
        """Get ready for what the cell needs; part of the cell, so it may be interrupted."""
        for framework in self._all:
            framework.prepare_cell(code)

    def settle(self) -> None:
        """Wait until all is done that the cell has begun; raises what it ends with."""
        for framework in self._all:
            framework.settle()

    def explain(self, error: BaseException) -> BaseException:
        """Return what an error really means; each of them puts its own affairs in order."""
        meant: BaseException | None = None
        for framework in self._all:
            with _noting():
                answer = framework.explain(error)
                meant = answer if meant is None else meant
        return error if meant is None else meant

    # --- from the link thread ---

    def expect_cell(self) -> None:
        """Forget the failure of before: the next cell has come, or the next generation."""
        for framework in self._all:
            with _noting():
                framework.expect_cell()

    def break_off(self, failed_rank: int, reason: str) -> None:
        """Take in that a rank of the cell has failed that runs, or comes next."""
        for framework in self._all:
            with _noting():
                framework.break_off(failed_rank, reason)

    def look(self) -> None:
        """Look after what is under way."""
        for framework in self._all:
            with _noting():
                framework.look()

    def leave(self) -> None:
        """Let go of everything."""
        for framework in self._all:
            with _noting():
                framework.leave()


@contextlib.contextmanager
def _noting() -> Iterator[None]:
    """Write what goes wrong in a framework into the log of the rank, and go on."""
    try:
        yield
    except BaseException:  # noqa: BLE001  (one framework must not end the rank, nor hinder others)
        traceback.print_exc()


def make_frameworks(context: EngineRankContext, hooks: ImportHooks, jax_mode: str) -> Frameworks:
    """Make and install them; nothing is imported by that but their own small parts here."""
    jax = Jax(context, hooks)
    jax.mode = jax_mode
    frameworks = (jax, Torch(context, hooks), CuPy(context, hooks), Mpi(context, hooks))
    for framework in frameworks:
        framework.install()
    return Frameworks(context, frameworks)
