"""MPI on this rank: `from mpi4py import MPI` in a cell, and COMM_WORLD has the cluster's ranks.

MPI forms its world once in the life of a process. A rank that is lost or replaced ends it for all.
"""

import ast
import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from jupyter_dist.errors import CommunicatorError, DistError, FrameworkError, UsageError
from jupyter_dist.frameworks.framework import Framework
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.mpi.library import (
    StartingEnvironment,
    find_launched,
    is_like_mpich,
    name_library,
)
from jupyter_dist.frameworks.mpi.pmi import join_world, map_processes
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.frameworks.rank_facts import gather_facts, group_ranks
from jupyter_dist.frameworks.replacing import replace
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.initialized import Formed
from jupyter_dist.model.ranks.user_errors import error_text

_CLAIM = "from mpi4py import MPI"
_SEGMENTS = re.compile(r"/dev/shm/mpich_shm_\w+")  # noqa: S108  (MPICH's own names)


_NO_SPAWN = (
    "MPI cannot start new processes here, which MPIPoolExecutor and Spawn() need: the ranks are "
    "its processes. MPICommExecutor(MPI.COMM_WORLD, root=0) of mpi4py.futures uses them; for more, "
    "start a larger cluster."
)


class MpiUnavailable(FrameworkError, ImportError):
    """MPI cannot be used here; libraries that can do without it go on without it."""


class Facts(msgspec.Struct, frozen=True):
    """What one rank says of its MPI before it starts."""

    library: str = ""
    host_rank: int = 0
    launched: tuple[int, int] | None = None
    """Rank and world size an MPI launcher has given."""
    problem: str = ""


class Mpi(Framework):
    """MPI as a framework: nothing reaches a call of it that waits, and its errors say it all."""

    name: ClassVar[str] = "mpi"

    def __init__(self, context: RankContext, hooks: ImportHooks) -> None:
        super().__init__(context, hooks)
        self._environment = StartingEnvironment()
        self._formed: Formed | None = None
        self._spent = ""
        """Why the world is no more; it stays like that until the process ends."""

    def install(self) -> None:
        """Be ready for the import of mpi4py.MPI, which starts MPI."""
        self._hooks.before("mpi4py.MPI", self._prepare)
        self._hooks.after("mpi4py.MPI", self._settle_in)
        self._hooks.after("mpi4py.futures._core", _refuse_pools)

    # --- generations ---

    def formed(self) -> Formed | None:
        """Return what stands; a world that is no more stays broken."""
        return self._formed

    def form(self, settings: str, reason: str) -> tuple[str, ...]:
        """Take note that the world is no more: MPI cannot be started twice in a process."""
        why = settings or reason
        is_news = self._formed is not None and not self._formed.is_broken
        self._spent = why
        self._formed = self._as_formed(why, is_broken=True)
        return (_say_spent(why),) if is_news else ()

    # --- the import ---

    def _prepare(self) -> None:
        """Meet the other ranks, and set the environment that MPI is about to start in."""
        if _is_imported_by_cupy():
            raise ImportError("CuPy needs MPI only for init_process_group(use_mpi=True)")
        if self._spent:
            raise MpiUnavailable(_say_spent(self._spent))
        try:
            facts = gather_facts(self._context, _CLAIM, self._look_around())
        except UsageError as error:
            raise MpiUnavailable(str(error)) from None
        if problem := find_problem(facts):
            raise MpiUnavailable(problem)
        if not is_launched(facts):
            self._join([facts[rank].host_rank for rank in sorted(facts)])

    def _look_around(self) -> Facts:
        mpi4py = sys.modules["mpi4py"]
        info = self._context.info
        launched = find_launched(os.environ)
        try:
            return Facts(name_library(mpi4py), info.host_rank, launched)
        except FrameworkError as error:
            return Facts(problem=str(error))

    def _join(self, host_ranks: list[int]) -> None:
        """Take this rank's place; nobody starts MPI before all have theirs: it waits for ever."""
        info = self._context.info
        descriptor, problem = -1, ""
        try:
            address = self._context.service_address("mpi")
            descriptor = join_world(address, info.rank, map_processes(host_ranks))
        except DistError as error:
            problem = str(error)
        try:
            said = self._context.agree(f"{_CLAIM}: its start", problem.encode())
            if problems := {rank: text.decode() for rank, text in said.items() if text}:
                rank, text = next(iter(sorted(problems.items())))
                raise MpiUnavailable(f"MPI cannot start on rank {rank}: {text}")
        except BaseException:
            if descriptor >= 0:
                os.close(descriptor)
            raise
        self._environment.enter(descriptor, info.rank, info.world_size)

    def _settle_in(self, mpi: Any) -> None:
        """Leave nothing behind, neither in the environment nor in /dev/shm."""
        self._formed = self._as_formed("")
        if not mpi.Is_initialized():  # mpi4py.rc.initialize = False: the user calls MPI.Init()
            return
        self._environment.leave()
        mpi.Finalize = self._finalize
        with contextlib.suppress(CommunicatorError):
            self._context.agree(f"{_CLAIM}: its end", b"")
            _unlink_segments()

    def _finalize(self) -> None:
        """Stand for MPI.Finalize: MPI would end the process when its service has gone."""
        self._context.tell(
            "MPI.Finalize() does nothing in a cell: MPI ends with its rank, and later cells use it."
        )

    # --- cells ---

    def prepare_cell(self, code: str) -> None:
        """Have the service started in time; refuse cells that would wait in a world of the past."""
        if self._spent and "mpi4py.MPI" in sys.modules:
            if name := self._find_use(code):
                raise FrameworkError(f"this cell uses {name}. {_say_spent(self._spent)}")
        elif self._formed is None and "mpi4py" in code and self._is_wanted_by_all():
            self._context.want_service("mpi")

    def _is_wanted_by_all(self) -> bool:
        is_everyone = len(self._context.cell_ranks) == self._context.info.world_size
        return is_everyone and importlib.util.find_spec("mpi4py") is not None

    def _find_use(self, code: str) -> str:
        """Return a name in the code that stands for something of MPI's."""
        variables = self._context.user_namespace()
        for name in sorted(find_names(code)):
            kind = type(variables.get(name))
            if name in {"MPI", "mpi4py"} or kind.__module__.partition(".")[0] == "mpi4py":
                return name
        return ""

    def explain(self, error: BaseException) -> BaseException | None:
        """Return why there are no new processes, where MPI's own error is a stack of its calls."""
        text = error_text(error) if type(error).__module__ == "mpi4py.MPI" else ""
        return FrameworkError(_NO_SPAWN) if "MPI_Comm_spawn" in text else None

    def leave(self) -> None:
        """Leave no file; MPI is not finalised, which would wait for the others."""
        if self._formed is not None:
            _unlink_segments()


# --- pure -----------------------------------------------------------------------------------


def is_launched(facts: Mapping[int, Facts]) -> bool:
    """Return whether a launcher has made the same world of these ranks as the cluster has."""
    return all(each.launched == (rank, len(facts)) for rank, each in facts.items())


def find_problem(facts: Mapping[int, Facts]) -> str:
    """Return why these ranks cannot be one world of MPI; empty: they can."""
    lacking = [rank for rank, each in facts.items() if each.problem]
    if lacking:
        return f"{name_ranks(lacking)}: {facts[lacking[0]].problem}"
    libraries = group_ranks({rank: each.library for rank, each in facts.items()})
    if len(libraries) > 1:
        kinds = "; ".join(f"{name_ranks(who)}: {name}" for name, who in sorted(libraries.items()))
        return f"ranks have different MPI libraries ({kinds}). Install the same one on all hosts."
    (library,) = libraries
    if is_launched(facts) or is_like_mpich(library):
        return ""
    return (
        f"mpi4py uses {library} here. Its processes meet only when mpiexec has started "
        "them, so MPI.COMM_WORLD would have this one rank. MPICH works in cells: pip install "
        "mpich, in an environment without the other library (or set MPI4PY_LIBMPI to its "
        "libmpi.so), then %dist_stop and %dist_start. Or use comm, which needs no MPI."
    )


def find_names(code: str) -> set[str]:
    """Return the names that a cell uses or imports; all words where it is not plain Python."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # magics
        return set(re.findall(r"[^\W\d]\w*", code))
    names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom):
            names.add((each.module or "").partition(".")[0])
        if isinstance(each, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in each.names}
    return names


def _refuse_pools(core: Any) -> None:
    """Refuse MPIPoolExecutor at its first use: it would wait for processes that cannot come."""

    def refuse(*_: object) -> None:
        raise FrameworkError(_NO_SPAWN)

    replace(core, "SpawnPool", refuse)


def _say_spent(why: str) -> str:
    return (
        f"MPI cannot be formed again in a process ({why}). It needs new processes on all ranks: "
        "%dist_stop, then %dist_start. Until then comm works."
    )


def _is_imported_by_cupy() -> bool:
    """Return whether cupyx.distributed asks whether there is MPI: no reason to start it."""
    frame = sys._getframe()  # noqa: SLF001
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") == "cupyx.distributed._nccl_comm":
            return True
    return False


def _unlink_segments() -> None:
    """Remove the names of MPI's shared memory: who has it keeps it, and a killed rank leaves none.

    MPICH removes them only when it is finalised.
    """
    with open("/proc/self/maps", errors="surrogateescape") as file:
        names = set(_SEGMENTS.findall(file.read()))
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
