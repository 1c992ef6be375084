"""JAX, torch, CuPy and MPI on this rank: each is told of generations, cells and failures.

Our part for torch is there from the beginning, since it looks at what cells do to the environment
before torch comes. The others are made when their package is imported, named by a cell, or formed.

What goes wrong inside of one of them is told, and never ends the rank: it holds the user's state.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from jupyter_dist.engine.collectives.rank_context import EngineRankContext
from jupyter_dist.errors import DistError, PeerFailed
from jupyter_dist.frameworks.framework import Framework
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.torch.framework import Torch
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.initialized import Formed, FrameworkPlan
from jupyter_dist.model.ranks.user_errors import error_text, name_error

_ORDER = ("jax", "torch", "cupy", "mpi")


class Frameworks:
    """All that are there, in the order in which they are formed."""

    def __init__(self, context: EngineRankContext, frameworks: Sequence[Framework]) -> None:
        self.context = context
        """Is told of the beginning and the end of each cell and task."""
        self._all = tuple(frameworks)
        self._expected: dict[str, tuple[str, Callable[[], Framework]]] = {}
        """By name: those that are not made yet, with the package that they are made for."""
        self._failure: tuple[int, str] | None = None
        """Which rank of this cell has failed, for those that are made in it."""
        self.is_forming = False
        """The main thread forms one again, between two cells."""

    # --- those that are made when they are needed ---

    def expect(
        self, name: str, package: str, hooks: ImportHooks, make: Callable[[], Framework]
    ) -> None:
        """Have a framework made before its package is imported; at once if it has been."""
        self._expected[name] = package, make
        if package in sys.modules:
            self._make(name)
        else:
            hooks.before(package, partial(self._make, name))

    def _make(self, name: str) -> None:
        if name not in self._expected:
            return
        framework = self._expected[name][1]()
        framework.install()
        del self._expected[name]
        self._all = tuple(sorted((*self._all, framework), key=lambda each: _ORDER.index(each.name)))
        if self._failure is not None:
            framework.break_off(*self._failure)

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
            self._make(plan.name)
            framework = next(each for each in self._all if each.name == plan.name)
            return framework.form(plan.settings, plan.reason)
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
        for name, (package, _) in tuple(self._expected.items()):
            if package in code:
                self._make(name)
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
        self._failure = None
        self._tell_each("expect_cell")

    def break_off(self, failed_rank: int, reason: str) -> None:
        """Take in that a rank of the cell has failed that runs, or comes next."""
        self._failure = failed_rank, reason
        self._tell_each("break_off", failed_rank, reason)

    def look(self) -> None:
        """Look after what is under way."""
        self._tell_each("look")

    def leave(self) -> None:
        """Let go of everything."""
        self._tell_each("leave")

    def _tell_each(self, method: str, *arguments: object) -> None:
        """Call this of each; one must not end the rank, nor hinder others."""
        for framework in self._all:
            try:
                getattr(framework, method)(*arguments)
            except BaseException:  # noqa: BLE001  (what goes wrong goes into the rank's log)
                traceback.print_exc()


@contextlib.contextmanager
def _noting() -> Iterator[None]:
    """Write what goes wrong in a framework into the log of the rank, and go on."""
    try:
        yield
    except BaseException:  # noqa: BLE001  (one framework must not end the rank, nor hinder others)
        traceback.print_exc()


def make_frameworks(context: EngineRankContext, hooks: ImportHooks, jax_mode: str) -> Frameworks:
    """Make and install them; no framework itself is imported by that."""

    def make_jax() -> Framework:
        from jupyter_dist.frameworks.jax.framework import Jax

        jax = Jax(context, hooks)
        jax.mode = jax_mode
        return jax

    def make_cupy() -> Framework:
        from jupyter_dist.frameworks.cupy.framework import CuPy

        return CuPy(context, hooks)

    def make_mpi() -> Framework:
        from jupyter_dist.frameworks.mpi.framework import Mpi

        return Mpi(context, hooks)

    torch = Torch(context, hooks)
    torch.install()
    frameworks = Frameworks(context, (torch,))
    frameworks.expect("jax", "jax", hooks, make_jax)
    frameworks.expect("cupy", "cupyx", hooks, make_cupy)
    frameworks.expect("mpi", "mpi4py", hooks, make_mpi)
    return frameworks
