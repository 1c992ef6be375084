"""CuPy on this rank: cupyx.distributed.init_process_group(world_size, rank) works in a cell.

It needs no host and no port: what ranks must know of each other goes over the control channel.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.cupy.group import Group, make_interruptible
from jupyter_dist.frameworks.cupy.group_requests import (
    CLAIM,
    GroupRequest,
    find_problem,
    write_number,
)
from jupyter_dist.frameworks.cupy.store import Store, StoreProxy, refuse_proxy
from jupyter_dist.frameworks.framework import Framework
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.frameworks.rank_facts import gather_facts
from jupyter_dist.frameworks.replacing import replace
from jupyter_dist.model.ranks.initialized import Formed

_PACKAGE = "cupyx.distributed"


class CuPy(Framework):
    """CuPy as a framework. It does not `leave`: NCCL would wait for the others."""

    name: ClassVar[str] = "cupy"

    def __init__(self, context: RankContext, hooks: ImportHooks) -> None:
        super().__init__(context, hooks)
        self._group: Group | None = None
        self._made = 0
        """How many groups this rank has made."""

    def install(self) -> None:
        """Be ready for the parts of cupyx.distributed, in the order in which they are loaded."""
        self._hooks.after(f"{_PACKAGE}._store", self._take_store)
        self._hooks.after(f"{_PACKAGE}._comm", self._take_stop)
        self._hooks.after(f"{_PACKAGE}._nccl_comm", self._take_calls)
        self._hooks.after(f"{_PACKAGE}._init", self._take_init)

    # --- generations ---

    @property
    def _present(self) -> Group | None:
        """The group that the user has; None: none, or nobody has it any more."""
        group = self._group
        if group is None or group.is_stopped or group.backend is None:
            return None
        return group

    def formed(self) -> Formed | None:
        """Return what stands."""
        group = self._present
        if group is None:
            return None
        info = self._context.info
        is_broken = group.torn is not None
        return Formed(self.name, group.generation, info.world_size, group.calls, is_broken)

    def form(self, settings: str, reason: str) -> tuple[str, ...]:
        """Return up what was before: its object is the user's, who makes another one."""
        del settings
        group, self._group = self._present, None
        if group is None:
            return ()
        group.stale = reason
        if group.torn is None:
            group.abort()
        names = ", ".join(self._find_variables(group)) or "a process group of CuPy"
        note = f"{names} belongs to what was before ({reason}): call {CLAIM} again."
        return (note,)

    def _find_variables(self, group: Group) -> list[str]:
        variables = self._context.user_namespace()
        return sorted(name for name, value in variables.items() if value is group.backend)

    # --- CuPy's modules, as they are loaded ---

    def _take_store(self, store: Any) -> None:
        store.TCPStore, store.TCPStoreProxy = Store, refuse_proxy

    def _take_stop(self, module: ModuleType) -> None:
        replace(getattr(module, "_Backend", None), "stop", self._stop)

    def _stop(self, stop: Callable[[Any], None], backend: Any) -> None:
        stop(backend)
        if (group := self._group_of(backend)) is not None:
            group.is_stopped = True

    def _take_calls(self, module: ModuleType) -> None:
        """Have every collective come by; and NCCL form communicators without blocking ■."""
        # Of another CuPy, calls are neither counted nor broken.
        if replace(getattr(module, "NCCLBackend", None), "_dispatch_arg_type", self._dispatch):
            make_interruptible(module, lambda: self._failure)

    def _dispatch(
        self, dispatch: Callable[..., None], backend: Any, function: str, args: tuple[Any, ...]
    ) -> None:
        group = self._group_of(backend)
        if group is None or not group.is_outermost():
            dispatch(backend, function, args)
        else:
            self._call(group, function, args, lambda: dispatch(backend, function, args))

    def _take_init(self, module: ModuleType) -> None:
        """Put ours in the place of init_process_group, before others take its name."""

        def init_group(  # noqa: PLR0913  (what CuPy's takes)
            init: Callable[..., Any],
            n_devices: Any,
            rank: Any,
            *,
            backend: Any = "nccl",
            host: Any = None,
            port: Any = None,
            use_mpi: bool = False,
        ) -> Any:
            del host, port  # there is no server
            return self._init(init, self._look_around(n_devices, rank, backend, use_mpi))

        replace(module, "init_process_group", init_group)

    # --- init_process_group ---

    def _look_around(self, n_devices: Any, rank: Any, backend: Any, use_mpi: bool) -> GroupRequest:
        cupy: Any = importlib.import_module("cupy")
        nccl: Any = importlib.import_module("cupy.cuda.nccl")
        formed = ""
        if (group := self._present) is not None:
            formed = ", ".join(self._find_variables(group)) or f"number {group.number}"
        return GroupRequest(
            write_number(n_devices),
            write_number(rank),
            str(backend),
            bool(use_mpi),
            str(cupy.__version__),
            int(nccl.get_version()) if nccl.available else 0,
            _find_lack(cupy, nccl),
            formed,
            self._made,
        )

    def _init(self, init: Callable[..., Any], claim: GroupRequest) -> Any:
        claims = gather_facts(self._context, CLAIM, claim)
        problem, is_mistake = find_problem(claims)
        if problem:
            raise UsageError(problem) if is_mistake else FrameworkError(problem)
        if claim.use_mpi:
            _give_mpi()
        # Ranks may have made different numbers of groups: one of them may be new.
        self._made = max(each.number for each in claims.values()) + 1
        store: Any = sys.modules[f"{_PACKAGE}._store"]
        store.TCPStoreProxy = lambda *_: StoreProxy(self._context, self._made)
        info = self._context.info
        try:
            made = init(
                info.world_size,
                info.rank,
                backend=claim.backend,
                host="127.0.0.1",
                port=0,
                use_mpi=claim.use_mpi,
            )
        finally:
            store.TCPStoreProxy = refuse_proxy
        self._group = Group(made, self._context.generation, self._made)
        made.__dict__["_jupyter_dist_group"] = self._group
        return made

    # --- calls ---

    def _group_of(self, backend: Any) -> Group | None:
        group = backend.__dict__.get("_jupyter_dist_group")
        return group if isinstance(group, Group) else None

    def _call(
        self, group: Group, function: str, args: tuple[Any, ...], call: Callable[[], None]
    ) -> None:
        group.check()
        if self._failure is not None:
            raise self._failure.to_error()
        array = args[0]
        token = self._context.begin_call(
            self.name,
            function,
            group.calls + 1,
            dtype=str(getattr(array, "dtype", "")),
            shape=str(getattr(array, "shape", "")),
            nbytes=int(getattr(array, "nbytes", 0)),
        )
        is_ok = False
        try:
            group.launch(function, call, sys.modules["cupy"].cuda, args[-1])
            is_ok = True
        finally:
            self._context.end_call(token, is_ok=is_ok)

    # --- cells ---

    def settle(self) -> None:
        """Wait until the device has done what the cell has begun; raises PeerFailed."""
        if (group := self._present) is not None:
            group.settle()

    def explain(self, error: BaseException) -> BaseException | None:
        """Return who has failed, where NCCL only says that its communicator is gone."""
        group = self._present
        if group is None or group.torn is None or type(error).__name__ != "NcclError":
            return None
        return group.torn.to_error()

    # --- from the link thread ---

    def look(self) -> None:
        """Abort what is still under way some time after a failure."""
        if self._failure is not None and (group := self._present) is not None:
            group.look(self._failure)


def _find_lack(cupy: Any, nccl: Any) -> str:
    """Return what is missing for a process group; empty: nothing."""
    if not nccl.available:
        return (
            "CuPy finds no NCCL. Install it for CuPy's CUDA version: pip install "
            "nvidia-nccl-cu12 (or nvidia-nccl-cu13). comm works without it, in host memory."
        )
    if not cupy.cuda.is_available():
        return "CuPy finds no GPU, or no driver. comm works without one, in host memory."
    return ""


def _give_mpi() -> None:
    """Give cupyx.distributed the MPI it has not loaded on its own; raises FrameworkError."""
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise FrameworkError(
            f"use_mpi=True needs mpi4py: {error}. Without use_mpi nothing is missing: what CuPy "
            "would use MPI for goes over the control channel."
        ) from error
    nccl_comm: Any = sys.modules["cupyx.distributed._nccl_comm"]
    nccl_comm.MPI, nccl_comm._mpi_available = mpi, True  # noqa: SLF001
