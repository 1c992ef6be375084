"""Libraries on top of torch, which would start processes: on a rank they join those that run."""

import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from jupyter_dist.errors import UsageError
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.frameworks.replacing import replace
from jupyter_dist.frameworks.torch.request import PLACE_VARIABLES
from jupyter_dist.model.hosts.addresses import join_address

_ANY_PORT = 0
_ACCELERATE = "accelerate"
_LIGHTNINGS = ("lightning.pytorch", "lightning.fabric", "pytorch_lightning", "lightning_fabric")
"""By each of these names Lightning's parts may be imported."""
_DEBUGGERS = ("_make_distributed_pdb", "_DistributedPdb")
"""What dist.breakpoint() makes its debugger with, by the version of torch."""


class Libraries:
    """Has accelerate and Lightning find what they look for on a rank, and start no processes."""

    def __init__(self, context: RankContext, set_place: Callable[[str], object]) -> None:
        self._context = context
        self._set_place = set_place
        """Has the environment name an address; a group that is formed later names its own."""

    def install(self, hooks: ImportHooks) -> None:
        """Be ready for the parts of the one that is about to be imported, and of the others."""
        self._name_any_place()
        hooks.after(f"{_ACCELERATE}.state", self._choose_cpu)
        hooks.after(f"{_ACCELERATE}.launchers", self._launch_in_place)
        for name in _LIGHTNINGS:
            hooks.after(f"{name}.strategies.launchers.multiprocessing", self._refuse_launcher)
            hooks.after(f"{name}.plugins.environments.lightning", keep_environment)

    def _name_any_place(self) -> None:
        """Set where to meet, any port: else each rank takes one for itself, or all take 29500.

        On several hosts it stays open until a group stands: ranks do not know where rank 0 is.
        """
        info = self._context.info
        is_open = not any(name in os.environ for name in PLACE_VARIABLES)
        if is_open and info.local_world_size == info.world_size:
            self._set_place(join_address(self._context.bind_host, _ANY_PORT))

    def _choose_cpu(self, module: ModuleType) -> None:
        """Say what `accelerate launch` says without GPUs: else each rank would train alone."""
        del module
        torch = sys.modules["torch"]
        if not torch.accelerator.is_available():
            os.environ.setdefault("ACCELERATE_USE_CPU", "true")

    def _launch_in_place(self, launchers: ModuleType) -> None:
        replace(launchers, "notebook_launcher", self._call_in_place)

    def _call_in_place(
        self,
        original: Callable[..., Any],
        function: Callable[..., Any],
        args: tuple[Any, ...] = (),
        num_processes: int | None = None,
        mixed_precision: str = "no",
        **options: Any,
    ) -> Any:
        """Stand for notebook_launcher: the ranks are the processes, and each calls the function."""
        del original, options
        world_size = self._context.info.world_size
        if num_processes not in (None, world_size):
            raise UsageError(
                f"notebook_launcher: num_processes={num_processes}, and this cluster has "
                f"{world_size} ranks; each of them is one process. Leave it out, or start a "
                "cluster of that size."
            )
        utils: Any = importlib.import_module(f"{_ACCELERATE}.utils")
        with utils.patch_environment(accelerate_mixed_precision=str(mixed_precision).lower()):
            return function(*args)

    def _refuse_launcher(self, module: ModuleType) -> None:
        launcher = getattr(module, "_MultiProcessingLauncher", None)
        if launcher is not None:
            replace(launcher, "__init__", self._refuse)

    def _refuse(self, *_: object, **__: object) -> None:
        info = self._context.info
        raise UsageError(
            "strategies of Lightning that start processes of their own (ddp_notebook, ddp_fork, "
            "ddp_spawn) are not accepted on a rank: the ranks are the processes. Take "
            f'strategy="ddp" and devices={info.local_world_size}.'
        )


def keep_environment(module: ModuleType) -> None:
    """Have Lightning leave WORLD_SIZE, which it deletes after each fit, to those who come next."""
    environment = getattr(module, "LightningEnvironment", None)
    if environment is not None:
        replace(environment, "teardown", lambda *_: None)


class _Breakpoint:
    """Stands for torch's debugger, which reads the terminal: asks as breakpoint() does here."""

    def message(self, text: str) -> None:
        """Say nothing: the rank is named beside what it asks or raises."""

    def set_trace(self, *_: object, **__: object) -> None:
        """Call whatever breakpoint() calls on a rank."""
        sys.breakpointhook()


def ask_with_breakpoint(module: ModuleType) -> None:
    """Have `torch.distributed.breakpoint()` do on its rank what breakpoint() does."""
    for name in _DEBUGGERS:
        if hasattr(module, name):
            setattr(module, name, _Breakpoint)
